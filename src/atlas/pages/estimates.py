"""Estimates as pages show them: point, interval, place on an axis, and what a reader should
know of the interval."""

from __future__ import annotations

from dataclasses import dataclass, replace

from atlas.charts.overview import RangeGlyph, range_glyph
from atlas.contract.base import Estimate, Interval
from atlas.numbers import Measure
from atlas.pages.frame import Writer
from atlas.shelf import HeldCorpus

METRICS = ("effective_experts", "cv", "gini", "top_share")
LN2 = 0.6931471805599453


@dataclass(frozen=True)
class Figure:
    """An estimate as shown: point, interval, place on its axis, and what a reader should know
    of the interval (a BCa interval where the bootstrap's bias is large)."""

    point: str
    interval: str
    glyph: RangeGlyph
    note: str


@dataclass(frozen=True)
class IntervalRow:
    """Everything known of one estimate's uncertainty; a dash for what the file does not hold."""

    name: str
    point: str
    percentile: str
    bias: str
    bca: str
    token_unit: str


def figure(
    writer: Writer, estimate: Estimate, measure: Measure, start: float, end: float
) -> Figure:
    """An estimate as text and glyph, with a note where the percentile interval misleads."""
    p = estimate.percentile
    return Figure(
        point=measure.text(estimate.point),
        interval=measure.interval(p),
        glyph=range_glyph(estimate.point, p.low, p.high, start, end),
        note=bias_note(writer, estimate, measure),
    )


def bias_note(writer: Writer, estimate: Estimate, measure: Measure) -> str:
    """A note where the bootstrap's bias is over a quarter of the interval's width: resampling
    few prompts adds dispersion, and the percentile interval moves off its point."""
    p = estimate.percentile
    if abs(estimate.bias) <= 0.25 * (p.high - p.low):
        return ""
    bias = measure.signed(estimate.bias)
    if estimate.bca is None:
        return writer.t("layer.bias", bias=bias)
    return writer.t("layer.bias_bca", bias=bias, bca=measure.interval(estimate.bca))


def interval_row(name: str, estimate: Estimate, measure: Measure) -> IntervalRow:
    """Every interval that the file holds of one estimate."""

    def shown(interval: Interval | None) -> str:
        return "–" if interval is None else measure.interval(interval)

    return IntervalRow(
        name,
        measure.text(estimate.point),
        measure.interval(estimate.percentile),
        # one decimal more than the figure: a bias is often below its last one
        replace(measure, decimals=measure.decimals + 1).signed(estimate.bias),
        shown(estimate.bca),
        shown(estimate.token_unit),
    )


def metric_axes(held: HeldCorpus, experts: int) -> dict[str, float]:
    """End of each metric's axis, the same on all pages of a corpus so that pages compare."""
    loads = [d.prompt_balanced for layer in held.corpus.layers for d in layer.domains]
    ends = {m: max(getattr(x, m).percentile.high for x in loads) for m in METRICS}
    return ends | {"effective_experts": float(experts)}


def jsd_axis(held: HeldCorpus) -> float:
    """End of the divergence axis: the largest interval end of the corpus."""
    ends = [d.prompt_balanced.percentile.high for x in held.corpus.layers for d in x.divergences]
    return max(ends, default=LN2) or LN2
