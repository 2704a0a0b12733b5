"""A chart with everything a reader gets from it: views, table rows, downloads, citation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from atlas.charts.corpus import WEIGHTINGS, chart_of, domain_of
from atlas.charts.load import ORDERS, LayerLoadChart, Mark, PlotView, draw
from atlas.contract.corpus import CorpusLayer, Weighting
from atlas.numbers import COUNT, MULTIPLE, SHARE, WEIGHT, expert_name


@dataclass(frozen=True)
class Cell:
    """Share of one expert under one weighting, as text."""

    share: str
    low: str
    high: str
    multiple: str
    mark: Mark


@dataclass(frozen=True)
class Row:
    """One expert in the table of all values: a cell per weighting; its count and its mean gate
    weight where they are known."""

    name: str
    cells: tuple[Cell, ...]
    count: str
    gate_mass: str


@dataclass(frozen=True)
class ChartCard:
    """Charts of one layer under one or two weightings, drawn in both orders.

    Built by `card`, which refuses charts of different layers.
    """

    layer: int
    experts: int
    uniform: str
    has_intervals: bool
    weightings: tuple[Weighting, ...]
    views: tuple[PlotView, ...]
    rows: tuple[Row, ...]
    marks: tuple[tuple[Mark, int], ...]


# a layer page, its drawing and an explore page show the same card, in two languages
@lru_cache(maxsize=1024)
def card(
    charts: tuple[LayerLoadChart, ...],
    counts_E: tuple[int, ...] | None = None,
    gate_mass_E: tuple[float, ...] | None = None,
) -> ChartCard:
    """Card of `charts`: one layer under different weightings. Raises ValueError otherwise."""
    first = charts[0]
    for chart in charts[1:]:
        if (chart.layer, chart.domain, chart.experts) != (first.layer, first.domain, first.experts):
            raise ValueError(
                f"card: expected charts of layer {first.layer}, domain {first.domain}, "
                f"found layer {chart.layer}, domain {chart.domain}"
            )
    if len({chart.weighting for chart in charts}) != len(charts):
        raise ValueError("card: expected one chart per weighting")
    top = max(chart.highest for chart in charts)
    marks = first.marks_E
    return ChartCard(
        layer=first.layer,
        experts=first.experts,
        uniform=SHARE.text(first.uniform),
        has_intervals=first.has_intervals,
        weightings=tuple(chart.weighting for chart in charts),
        views=tuple(draw(chart, order, top) for chart in charts for order in ORDERS),
        rows=tuple(
            Row(
                name=expert_name(first.layer, e),
                cells=tuple(_cell(chart, e) for chart in charts),
                count=COUNT.text(counts_E[e]) if counts_E is not None else "",
                gate_mass=WEIGHT.text(gate_mass_E[e]) if gate_mass_E is not None else "",
            )
            for e in range(first.experts)
        ),
        marks=tuple((m, marks.count(m)) for m in ("above", "holds", "below") if m in marks),
    )


def layer_card(layer: CorpusLayer, domain: str) -> ChartCard:
    """Card of one layer and domain of a corpus, prompt-balanced first."""
    charts = tuple(chart_of(layer, domain, weighting) for weighting in WEIGHTINGS)
    return card(charts, gate_mass_E=domain_of(layer, domain).gate_mass_E)


def _cell(chart: LayerLoadChart, expert: int) -> Cell:
    share = chart.shares_E[expert]
    return Cell(
        share=SHARE.text(share),
        low=SHARE.text(chart.low_E[expert]) if chart.low_E is not None else "",
        high=SHARE.text(chart.high_E[expert]) if chart.high_E is not None else "",
        multiple=MULTIPLE.text(share * chart.experts),
        mark=chart.mark(expert),
    )
