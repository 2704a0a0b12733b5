"""Overview of a domain: one row per layer, its columns are ranks and never experts.

Every row is a drawing of its own that holds one layer; nothing in it knows an expert id
except the name of the row's top expert, written with its layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atlas.charts.load import LayerLoadChart
from atlas.numbers import coordinate

CLASSES = 12
"""Steps of lightness. Step 0 is nothing, the last is `TOP_MULTIPLE` × uniform and more."""
TOP_MULTIPLE = 5.5


def lightness(multiple: float) -> int:
    """Step of lightness of a share given as a multiple of the uniform share, by square root:
    differences among small shares stay visible beside a share five times as large."""
    scaled = (max(multiple, 0.0) / TOP_MULTIPLE) ** 0.5
    return min(CLASSES - 1, int(scaled * CLASSES))


@dataclass(frozen=True)
class RankRow:
    """One layer: cells joined by step of lightness, as paths of unit squares."""

    layer: int
    width: int
    paths: tuple[tuple[int, str], ...]


def rank_row(chart: LayerLoadChart) -> RankRow:
    """The layer's experts sorted by share, each a cell whose lightness is its multiple."""
    cells: dict[int, list[str]] = {}
    ids = chart.order("share")
    steps = [lightness(chart.shares_E[e] * chart.experts) for e in ids]
    start = 0
    for place in range(1, len(steps) + 1):
        if place == len(steps) or steps[place] != steps[start]:
            cells.setdefault(steps[start], []).append(
                f"M{start} 0h{place - start}v1h-{place - start}z"
            )
            start = place
    paths = tuple((step, "".join(cells[step])) for step in sorted(cells))
    return RankRow(chart.layer, len(ids), paths)


@dataclass(frozen=True)
class RangeGlyph:
    """A point with its interval on a fixed axis, in percent of the axis' length."""

    low: str
    high: str
    point: str


def range_glyph(point: float, low: float, high: float, start: float, end: float) -> RangeGlyph:
    """Positions of an estimate on the axis [start, end]. Values beyond the axis stay on its end."""

    def at(value: float) -> str:
        share = (value - start) / (end - start)
        return coordinate(100 * min(1.0, max(0.0, share)))

    return RangeGlyph(at(low), at(high), at(point))


@dataclass(frozen=True)
class Mirror:
    """Two domains of one layer by expert id: the first upwards, the second downwards."""

    layer: int
    width: int
    up: str
    down: str


def mirror(first: LayerLoadChart, second: LayerLoadChart, height: int = 64) -> Mirror:
    """Mirrored bars of two charts of the same layer. Raises ValueError for two layers."""
    if (first.layer, first.experts) != (second.layer, second.experts):
        raise ValueError(f"mirror: expected layer {first.layer}, found layer {second.layer}")
    middle = height // 2
    scale = (middle - 1) / max(*first.shares_E, *second.shares_E)

    def bars(chart: LayerLoadChart, sign: int, start: int) -> str:
        return "".join(
            f"M{e} {start}v{coordinate(sign * share * scale)}h.8V{start}z"
            for e, share in enumerate(chart.shares_E)
        )

    return Mirror(first.layer, first.experts, bars(first, -1, middle), bars(second, 1, middle + 1))


@dataclass(frozen=True)
class Dots:
    """A figure of every layer and domain as dots, one domain picked out; no experts in it."""

    width: int
    others: str
    picked: str


def dots(rows: Sequence[Sequence[float]], picked: int, height: int = 64) -> Dots:
    """Dots of `rows[layer][domain]`, the domain at index `picked` apart from the others."""
    values = [v for row in rows for v in row]
    low, width = min(values), (max(values) - min(values)) or 1.0

    def dot(layer: int, value: float) -> str:
        return (
            f"M{layer + 0.5} {coordinate(height - 5 - (height - 10) * (value - low) / width)}h.01"
        )

    others = "".join(
        dot(i, v) for i, row in enumerate(rows) for d, v in enumerate(row) if d != picked
    )
    return Dots(len(rows), others, "".join(dot(i, row[picked]) for i, row in enumerate(rows)))


@dataclass(frozen=True)
class RankCurve:
    """Falling shares of one layer as a small area, for a finding on a front page."""

    layer: int
    width: int
    path: str
    uniform_y: str


def rank_curve(chart: LayerLoadChart, top: float, height: int = 64) -> RankCurve:
    """Bars of `chart` by rank, drawn up to the share `top`."""

    def y(share: float) -> str:
        return coordinate(height * (1 - min(1.0, share / top)))

    bars = "".join(
        f"M{place} {height}V{y(chart.shares_E[e])}h.8V{height}z"
        for place, e in enumerate(chart.order("share"))
    )
    return RankCurve(chart.layer, chart.experts, bars, y(chart.uniform))
