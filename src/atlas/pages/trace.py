"""A trace: the load of its layers, the comparison with its rerun, where it stopped and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atlas.charts.corpus import trace_chart
from atlas.charts.overview import RankCurve, rank_curve
from atlas.numbers import COUNT, CV, EFFECTIVE, GINI, WEIGHT, expert_name
from atlas.pages.frame import Frame, Link, Page, Writer
from atlas.pages.mla import mla_ledgers
from atlas.pages.provenance import Provenance, provenance
from atlas.pages.tracelayer import trace_layer
from atlas.pages.verified import Verified, verified
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
    verified: tuple[Verified, ...]
    comparison: ComparisonView | None
    prompts: tuple[PromptRow, ...]
    hashes: tuple[HashRow, ...]
    provenance: Provenance
    cannot: tuple[str, ...]


def trace_pages(writer: Writer, model: Model, held: HeldTrace) -> Iterator[Page]:
    """The layer set, one page per MoE layer, and the MLA ledgers."""
    path = URLS.trace(writer.lang, model.slug)
    yield Page(path, "trace.html.j2", writer.lang, _trace(writer, model, held, path))
    for layer in held.trace.moe_layers:
        path = URLS.trace_layer(writer.lang, model.slug, layer.layer)
        if layer.moe is not None:
            context = trace_layer(writer, model, held, layer, layer.moe, path)
            yield Page(path, "trace_layer.html.j2", writer.lang, context)
    path = URLS.mla(writer.lang, model.slug)
    yield Page(path, "mla.html.j2", writer.lang, mla_ledgers(writer, model, held, path))


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
        rows=tuple(load_rows(writer, model, held, path)),
        verified=verified(writer, model, path, held),
        comparison=comparison,
        prompts=tuple(
            PromptRow(writer.pick(p.label), p.prompt_id, p.text, len(p.token_ids_T), p.text_sha256)
            for p in trace.prompts
        ),
        hashes=(
            HashRow(t("trace.initial"), "", trace.initial_hidden_sha256),
            *(
                HashRow(t("layer.crumb", layer=x.layer), t(f"trace.kind_{x.kind}"), x.hidden_sha256)
                for x in trace.layers
            ),
            HashRow(t("trace.final"), "", trace.final_hidden_sha256),
        ),
        provenance=provenance(writer, model),
        cannot=tuple(
            t(f"trace.cannot_{name}") for name in ("answer", "population", "meaning", "bitwise")
        ),
    )


def load_rows(writer: Writer, model: Model, held: HeldTrace, path: str) -> Iterator[LoadRow]:
    """A row per MoE layer; links as written on the page at `path`."""
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
