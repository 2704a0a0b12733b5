"""A trace: its layers, their load and routes, the two MLA ledgers, the rerun's comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atlas.charts.card import ChartCard, card
from atlas.charts.corpus import trace_chart
from atlas.charts.overview import RankCurve, rank_curve
from atlas import visible
from atlas.contract.trace import LayerTrace, MoeTrace
from atlas.numbers import (
    COUNT,
    CV,
    EFFECTIVE,
    GINI,
    JACCARD,
    MARGIN,
    PERCENT,
    RATIO,
    WEIGHT,
    expert_name,
)
from atlas.pages.frame import Frame, Link, Page, Writer
from atlas.pages.layer import ChartText
from atlas.pages.model import Provenance, provenance
from atlas.pages.routes import RouteTable, TokenRow, selected, trace_margin
from atlas.shelf import HeldTrace, Model
from atlas.urls import URLS


@dataclass(frozen=True)
class LoadRow:
    """Load of one MoE layer over all valid tokens."""

    href: str
    layer: int
    curve: RankCurve
    selections: str
    used: str
    zero: str
    cv: str
    gini: str
    effective: str
    top_expert: str
    top_count: str
    weight_sum: str


@dataclass(frozen=True)
class CheckRow:
    """One check of a comparison."""

    name: str
    layer: str
    exact: bool


@dataclass(frozen=True)
class ComparisonView:
    """A comparison with a rerun."""

    total: str
    headline: str
    note: str
    first: str
    second: str
    checks: tuple[CheckRow, ...]


@dataclass(frozen=True)
class PromptRow:
    """One prompt of the trace."""

    label: str
    prompt_id: str
    text: str
    tokens: int
    sha256: str


@dataclass(frozen=True)
class HashRow:
    """Hash of a hidden state."""

    name: str
    kind: str
    sha256: str


@dataclass(frozen=True)
class TraceContext:
    """Context of trace.html.j2."""

    frame: Frame
    headline: str
    lead: str
    sections: tuple[Link, ...]
    experts: int
    rows: tuple[LoadRow, ...]
    comparison: ComparisonView | None
    prompts: tuple[PromptRow, ...]
    hashes: tuple[HashRow, ...]
    provenance: Provenance
    cannot: tuple[str, ...]


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


@dataclass(frozen=True)
class MlaRow:
    """Shapes observed in one layer."""

    layer: int
    projection: str
    key: str
    value: str
    dtype: str


@dataclass(frozen=True)
class Ledger:
    """One of the two ledgers, with the length of its bar in percent of the longer one."""

    name: str
    formula: str
    elements: str
    bytes: str
    percent: int


@dataclass(frozen=True)
class MlaContext:
    """Context of mla.html.j2."""

    frame: Frame
    headline: str
    lead: str
    ledgers: tuple[Ledger, ...]
    ratio: str
    reduction: str
    rows: tuple[MlaRow, ...]
    cannot: tuple[str, ...]


def trace_pages(writer: Writer, model: Model, held: HeldTrace) -> Iterator[Page]:
    """The layer set, one page per MoE layer, and the MLA ledgers."""
    path = URLS.trace(writer.lang, model.slug)
    yield Page(path, "trace.html.j2", writer.lang, _trace(writer, model, held, path))
    for layer in held.trace.moe_layers:
        path = URLS.trace_layer(writer.lang, model.slug, layer.layer)
        if layer.moe is not None:
            context = _layer(writer, model, held, layer, layer.moe, path)
            yield Page(path, "trace_layer.html.j2", writer.lang, context)
    path = URLS.mla(writer.lang, model.slug)
    yield Page(path, "mla.html.j2", writer.lang, _mla(writer, model, held, path))


def _span(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"


def _trace(writer: Writer, model: Model, held: HeldTrace, path: str) -> TraceContext:
    t, trace = writer.t, held.trace
    moe = [x.layer for x in trace.moe_layers]
    headline = t(
        "trace.headline",
        tokens=COUNT.text(trace.valid_tokens),
        prompts=len(trace.prompts),
        layers=_span(moe),
    )
    selections = sum(sum(x.moe.counts_E) for x in trace.layers if x.moe is not None)
    comparison = _comparison(writer, model)
    return TraceContext(
        frame=writer.frame(
            path,
            f"{t('nav.trace')} · {model.identity.title}",
            headline,
            crumbs=[*writer.model_crumbs(model), (None, t("nav.trace"))],
            model=model,
            sources=[held.file, *([model.comparison.file] if model.comparison else [])],
        ),
        headline=headline,
        lead=t(
            "trace.lead",
            layers=len(moe),
            tokens=COUNT.text(trace.valid_tokens),
            k=trace.architecture.num_experts_per_tok,
            selections=COUNT.text(selections),
        ),
        sections=(Link(URLS.link(path, URLS.mla(writer.lang, model.slug)), t("nav.mla")),),
        experts=trace.architecture.n_routed_experts,
        rows=tuple(_load_rows(writer, model, held, path)),
        comparison=comparison,
        prompts=tuple(
            PromptRow(
                writer.pick(p.label), p.prompt_id, p.text, len(p.token_ids_T), p.text_sha256
            )
            for p in trace.prompts
        ),
        hashes=(
            HashRow(t("trace.initial"), "", trace.initial_hidden_sha256),
            *(
                HashRow(
                    t("layer.crumb", layer=x.layer), t(f"trace.kind_{x.kind}"), x.hidden_sha256
                )
                for x in trace.layers
            ),
            HashRow(t("trace.final"), "", trace.final_hidden_sha256),
        ),
        provenance=provenance(writer, model),
        cannot=tuple(
            t(f"trace.cannot_{name}") for name in ("answer", "population", "meaning", "bitwise")
        ),
    )


def _load_rows(writer: Writer, model: Model, held: HeldTrace, path: str) -> Iterator[LoadRow]:
    charts = {x.layer: trace_chart(x) for x in held.trace.moe_layers}
    top = max(chart.highest for chart in charts.values())
    for layer in held.trace.moe_layers:
        moe = layer.moe
        if moe is None:
            continue
        s = moe.summary
        yield LoadRow(
            href=URLS.link(path, URLS.trace_layer(writer.lang, model.slug, layer.layer)),
            layer=layer.layer,
            curve=rank_curve(charts[layer.layer], top),
            selections=COUNT.text(s.selections),
            used=COUNT.text(s.used),
            zero=COUNT.text(s.zero),
            cv=CV.text(s.cv),
            gini=GINI.text(s.gini),
            effective=EFFECTIVE.text(s.effective_experts),
            top_expert=expert_name(layer.layer, s.top_expert),
            top_count=COUNT.text(s.top_count),
            weight_sum=WEIGHT.text(moe.mean_topk_weight_sum),
        )


def _comparison(writer: Writer, model: Model) -> ComparisonView | None:
    if model.comparison is None:
        return None
    c = model.comparison.comparison
    total = f"{c.exact} / {c.total}"
    return ComparisonView(
        total=total,
        headline=writer.t("trace.exact", total=total),
        note=writer.t("trace.exact_note" if c.exact == c.total else "trace.differs_note"),
        first=c.first.sha256,
        second=c.second.sha256,
        checks=tuple(
            CheckRow(x.name, "" if x.layer is None else str(x.layer), x.exact) for x in c.checks
        ),
    )


def _layer(
    writer: Writer, model: Model, held: HeldTrace, layer: LayerTrace, moe: MoeTrace, path: str
) -> TraceLayerContext:
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
        card=card([trace_chart(layer)], moe.counts_E),
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
            "trace_layer.sum_note" if not trace.architecture.norm_topk_prob else "trace_layer.sum_one",
            k=trace.architecture.num_experts_per_tok,
            mean=WEIGHT.text(moe.mean_topk_weight_sum),
        ),
        tables=tuple(_tables(writer, held, number, moe)),
        cannot=(t("routes.cannot_meaning"), t("trace.cannot_population")),
    )


def _chart_text(
    writer: Writer, model: Model, held: HeldTrace, layer: int, path: str
) -> ChartText:
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
            evidence=t(f"evidence.{model.evidence}"),
            file=held.file.name,
            sha256=held.file.sha256,
            path=path,
        ),
    )


def _tables(
    writer: Writer, held: HeldTrace, layer: int, moe: MoeTrace
) -> Iterator[RouteTable]:
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
                    weight_sum=WEIGHT.text(sum(weights)),
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
            note=writer.t("trace_layer.note", tokens=len(rows), tie=MARGIN.text(0.001)),
        )


def _mla(writer: Writer, model: Model, held: HeldTrace, path: str) -> MlaContext:
    t, trace = writer.t, held.trace
    a, ledger = trace.architecture, trace.cache_ledger
    headline = t("mla.headline", ratio=RATIO.text(ledger.ratio))
    longest = max(ledger.eager_bytes, ledger.latent_bytes)

    def row(kind: str, formula: str, elements: int, size: int) -> Ledger:
        return Ledger(
            t(f"mla.{kind}"), formula, COUNT.text(elements), COUNT.text(size),
            max(1, round(100 * size / longest)),
        )

    heads, nope, rope, v = (
        a.num_attention_heads, a.qk_nope_head_dim, a.qk_rope_head_dim, a.v_head_dim,
    )
    return MlaContext(
        frame=writer.frame(
            path,
            f"{t('nav.mla')} · {model.identity.title}",
            headline,
            crumbs=[
                *writer.model_crumbs(model),
                (URLS.trace(writer.lang, model.slug), t("nav.trace")),
                (None, t("nav.mla")),
            ],
            model=model,
            sources=[held.file],
        ),
        headline=headline,
        lead=t("mla.lead"),
        ledgers=(
            row(
                "eager",
                f"{heads} × (({nope} + {rope}) + {v})",
                ledger.eager_elements,
                ledger.eager_bytes,
            ),
            row("latent", f"{a.kv_lora_rank} + {rope}", ledger.latent_elements, ledger.latent_bytes),
        ),
        ratio=RATIO.text(ledger.ratio),
        reduction=PERCENT.text(ledger.reduction),
        rows=tuple(
            MlaRow(
                x.layer,
                str(list(x.mla.projection)),
                str(list(x.mla.key)),
                str(list(x.mla.value)),
                x.mla.cache_dtype,
            )
            for x in trace.layers
        ),
        cannot=(t("mla.cannot_kernel"), t("mla.cannot_paper")),
    )
