"""One MoE layer of a trace: its load, prompt by prompt, and every route token by token."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from atlas import visible
from atlas.charts.card import ChartCard, card
from atlas.charts.corpus import trace_chart
from atlas.contract.trace import LayerTrace, MoeTrace
from atlas.numbers import COUNT, CV, EFFECTIVE, JACCARD, MARGIN, PERCENT, WEIGHT, expert_name
from atlas.pages.frame import Frame, Link, Writer
from atlas.pages.layer import ChartText
from atlas.pages.routes import NEAR_TIE, RouteTable, TokenRow, selected, trace_margin
from atlas.shelf import HeldTrace, Model
from atlas.urls import URLS


@dataclass(frozen=True)
class PromptLoadRow:
    """Load of one prompt in the layer."""

    label: str
    used: str
    cv: str
    effective: str
    top_expert: str
    top_count: str


@dataclass(frozen=True)
class TraceLayerContext:
    """Context of trace_layer.html.j2."""

    frame: Frame
    headline: str
    lead: str
    layers: tuple[Link, ...]
    card: ChartCard
    text: ChartText
    prompt_loads: tuple[PromptLoadRow, ...]
    jaccard: tuple[tuple[str, str], ...]
    near_ties: tuple[tuple[str, str], ...]
    smallest_margin: str
    sum_note: str
    tables: tuple[RouteTable, ...]
    cannot: tuple[str, ...]


def trace_layer(
    writer: Writer, model: Model, held: HeldTrace, layer: LayerTrace, moe: MoeTrace, path: str
) -> TraceLayerContext:
    """Context of one MoE layer's page."""
    t, trace, number = writer.t, held.trace, layer.layer
    labels = {p.prompt_id: writer.pick(p.label) for p in trace.prompts}
    headline = t(
        "trace_layer.headline",
        layer=number,
        used=moe.summary.used,
        experts=trace.architecture.n_routed_experts,
        effective=EFFECTIVE.text(moe.summary.effective_experts),
    )
    return TraceLayerContext(
        frame=writer.frame(
            path,
            f"{t('nav.trace')} · {t('layer.crumb', layer=number)} · {model.identity.title}",
            headline,
            crumbs=[
                *writer.model_crumbs(model),
                (URLS.trace(writer.lang, model.slug), t("nav.trace")),
                (None, t("layer.crumb", layer=number)),
            ],
            model=model,
            sources=[held.file],
        ),
        headline=headline,
        lead=t(
            "trace_layer.lead",
            tokens=COUNT.text(trace.valid_tokens),
            k=trace.architecture.num_experts_per_tok,
            selections=COUNT.text(moe.summary.selections),
        ),
        layers=tuple(
            Link(
                URLS.link(path, URLS.trace_layer(writer.lang, model.slug, x.layer)),
                str(x.layer),
                x.layer == number,
                t("layer.crumb", layer=x.layer),
            )
            for x in trace.moe_layers
        ),
        card=card((trace_chart(layer),), moe.counts_E),
        text=_chart_text(writer, model, held, number, path),
        prompt_loads=tuple(
            PromptLoadRow(
                labels[p.prompt_id],
                COUNT.text(p.summary.used),
                CV.text(p.summary.cv),
                EFFECTIVE.text(p.summary.effective_experts),
                expert_name(number, p.summary.top_expert),
                COUNT.text(p.summary.top_count),
            )
            for p in moe.prompts
        ),
        jaccard=tuple(
            (f"{labels[j.first]} ↔ {labels[j.second]}", JACCARD.text(j.jaccard))
            for j in moe.jaccard
        ),
        near_ties=tuple(
            (f"{n.margin:g}", PERCENT.text(n.share_at_or_above)) for n in moe.near_ties
        ),
        smallest_margin=f"{moe.smallest_margin:.2e}",
        sum_note=t(
            "trace_layer.sum_note"
            if not trace.architecture.norm_topk_prob
            else "trace_layer.sum_one",
            k=trace.architecture.num_experts_per_tok,
            mean=WEIGHT.text(moe.mean_topk_weight_sum),
        ),
        tables=tuple(trace_tables(writer, held, number, moe)),
        cannot=(t("routes.cannot_meaning"), t("trace.cannot_population")),
    )


def _chart_text(writer: Writer, model: Model, held: HeldTrace, layer: int, path: str) -> ChartText:
    t, experts = writer.t, held.trace.architecture.n_routed_experts
    return ChartText(
        title=t("trace_layer.chart_title", layer=layer),
        subtitle=t("chart.subtitle", experts=experts, uniform=PERCENT.text(1 / experts)),
        caption=t("trace_layer.chart_caption", tokens=COUNT.text(held.trace.valid_tokens)),
        alternative=t("trace_layer.chart_alternative", layer=layer, experts=experts),
        downloads=(Link(URLS.link(path, URLS.trace_csv(model.slug, layer)), "CSV"),),
        citation=t(
            "trace_layer.citation",
            model=model.identity.title,
            layer=layer,
            evidence=t(f"evidence.{held.file.dataset.evidence}"),
            file=held.file.name,
            sha256=held.file.sha256,
            path=path,
        ),
    )


def trace_tables(
    writer: Writer, held: HeldTrace, layer: int, moe: MoeTrace
) -> Iterator[RouteTable]:
    """A table of routes per prompt."""
    trace = held.trace
    for prompt, routes in zip(trace.prompts, moe.routes, strict=True):
        rows = []
        for position, piece in enumerate(prompt.pieces_T):
            weights = routes.weights_TK[position]
            margin, near = trace_margin(routes.margin_T[position])
            rows.append(
                TokenRow(
                    position=position,
                    piece=visible.piece(piece),
                    token_id=str(prompt.token_ids_T[position]),
                    selected=selected(layer, routes.expert_ids_TK[position], weights, WEIGHT),
                    weight_sum=WEIGHT.text(math.fsum(weights)),
                    margin=margin,
                    near_tie=near,
                )
            )
        yield RouteTable(
            anchor=prompt.prompt_id,
            layer=layer,
            title=writer.pick(prompt.label),
            prompt=prompt.text,
            k=trace.architecture.num_experts_per_tok,
            has_pieces=True,
            has_margin=True,
            rows=tuple(rows),
            note=writer.t("trace_layer.note", tokens=len(rows), tie=MARGIN.text(NEAR_TIE)),
        )
