"""Load of the routed experts of one layer: the chart type, and its geometry.

`LayerLoadChart` holds one layer by type: its layer is a number, its shares one axis [E], and
nothing joins two of them. Axes: E routed expert.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from atlas.contract.base import require_shares
from atlas.contract.corpus import Weighting
from atlas.numbers import MULTIPLE, SHARE, coordinate, expert_name

Mark = Literal["above", "holds", "below", "bare"]
Order = Literal["id", "share"]
MARKS: tuple[Mark, ...] = ("above", "holds", "below", "bare")
ORDERS: tuple[Order, ...] = ("share", "id")

STEP = 10
"""Width of one expert in drawing units; the drawing is stretched to the page's width."""
HEIGHT = 300
"""Height of the plot in CSS pixels."""
FOOT = 14
"""Room under the plot for the marks of shape, in CSS pixels."""


@dataclass(frozen=True)
class LayerLoadChart:
    """Share of routed selections per expert, in one layer.

    shares_E: [E], sums to 1. low_E, high_E: [E], 95 % percentile bounds over prompts, or both
    None where there is none (a trace of a few fixed prompts has no interval). Raises ValueError
    for anything that is not exactly one layer.
    """

    layer: int
    domain: str | None
    weighting: Weighting
    shares_E: tuple[float, ...]
    low_E: tuple[float, ...] | None
    high_E: tuple[float, ...] | None

    def __post_init__(self) -> None:
        if type(self.layer) is not int or self.layer < 0:
            raise ValueError(f"layer: expected one layer number, found {self.layer!r}")
        for name in ("shares_E", "low_E", "high_E"):
            values = getattr(self, name)
            if values is None and name != "shares_E":
                continue
            if not isinstance(values, tuple) or not all(type(v) is float for v in values):
                raise ValueError(f"{name}: expected one axis of floats [E]")
            if len(values) != len(self.shares_E):
                raise ValueError(
                    f"{name}: expected {len(self.shares_E)} values, found {len(values)}"
                )
        if (self.low_E is None) != (self.high_E is None):
            raise ValueError("low_E, high_E: expected both or neither")
        require_shares(self.shares_E, f"layer {self.layer}")

    @property
    def experts(self) -> int:
        return len(self.shares_E)

    @property
    def uniform(self) -> float:
        """The share of each expert if all were selected alike."""
        return 1.0 / self.experts

    @property
    def has_intervals(self) -> bool:
        return self.low_E is not None

    def order(self, order: Order) -> tuple[int, ...]:
        """Expert ids as drawn: by id, or by falling share with ties by id."""
        ids = range(self.experts)
        if order == "id":
            return tuple(ids)
        return tuple(sorted(ids, key=lambda e: (-self.shares_E[e], e)))

    def mark(self, expert: int) -> Mark:
        """Where the expert's interval lies against the uniform share; `bare` without one.

        A description of the interval, not a test: nothing is corrected for looking at all.
        """
        if self.low_E is None or self.high_E is None:
            return "bare"
        if self.low_E[expert] > self.uniform:
            return "above"
        return "below" if self.high_E[expert] < self.uniform else "holds"

    @property
    def marks_E(self) -> tuple[Mark, ...]:
        return tuple(self.mark(expert) for expert in range(self.experts))

    @property
    def highest(self) -> float:
        """The highest value that is drawn."""
        return max(self.high_E if self.high_E is not None else self.shares_E)

    def label(self, expert: int) -> str:
        """`L4·E51 7.93% [7.72%, 8.12%] ×5.08`: what a pointer sees on the expert's bar."""
        share = self.shares_E[expert]
        text = f"{expert_name(self.layer, expert)} {SHARE.text(share)}"
        if self.low_E is not None and self.high_E is not None:
            text += f" [{SHARE.text(self.low_E[expert])}, {SHARE.text(self.high_E[expert])}]"
        return f"{text} {MULTIPLE.text(share * self.experts)}"


@dataclass(frozen=True)
class Tick:
    """One label of an axis: `at` in pixels from the top (or percent from the left)."""

    at: str
    text: str
    always: bool = True
    anchor: Literal["start", "middle", "end"] = "middle"


@dataclass(frozen=True)
class Hit:
    """The column of one expert under the pointer."""

    x: int
    label: str


@dataclass(frozen=True)
class PlotView:
    """One drawing of a chart, ready for the template: paths joined by mark, axes, labels."""

    layer: int
    weighting: Weighting
    order: Order
    width: int
    paths: tuple[tuple[str, str], ...]
    hits: tuple[Hit, ...]
    uniform_y: str
    left: tuple[Tick, ...]
    right: tuple[Tick, ...]
    bottom: tuple[Tick, ...]
    height: int = HEIGHT
    full_height: int = HEIGHT + FOOT


_Scale = Callable[[float], str]
_STEPS = (1.0, 2.0, 2.5, 5.0)


def axis_step(highest: float, at_most: int = 6) -> float:
    """The smallest of 1, 2, 2.5, 5 × 10ⁿ that needs `at_most` ticks to pass `highest`."""
    exponent = -4
    while True:
        for base in _STEPS:
            step: float = base * 10.0**exponent
            if highest / step <= at_most:
                return step
        exponent += 1


def draw(chart: LayerLoadChart, order: Order, top: float | None = None) -> PlotView:
    """Geometry of `chart`. `top` is the share at the upper edge, so that views can agree."""
    top = (chart.highest if top is None else top) * 1.04
    if top < chart.highest:
        raise ValueError(f"top: expected at least {chart.highest}, found {top}")
    ids = chart.order(order)

    def y(share: float) -> str:
        return coordinate(HEIGHT * (1 - share / top))

    bars: dict[Mark, list[str]] = {mark: [] for mark in MARKS}
    shapes: dict[Mark, list[str]] = {mark: [] for mark in MARKS}
    whiskers = []
    for place, expert in enumerate(ids):
        x, mark = place * STEP, chart.mark(expert)
        bars[mark].append(f"M{x + 1} {HEIGHT}V{y(chart.shares_E[expert])}h8V{HEIGHT}z")
        if chart.low_E is not None and chart.high_E is not None:
            whiskers.append(f"M{x + 5} {y(chart.low_E[expert])}V{y(chart.high_E[expert])}")
        foot = HEIGHT + FOOT
        if mark == "above":
            shapes[mark].append(f"M{x + 1} {foot - 2}l4-8 4 8z")
        elif mark == "below":
            shapes[mark].append(f"M{x + 1} {foot - 10}l4 8 4-8z")
    paths = [(f"bar {mark}", "".join(bars[mark])) for mark in MARKS if bars[mark]]
    paths += [(f"shape {mark}", "".join(shapes[mark])) for mark in MARKS if shapes[mark]]
    if whiskers:
        paths.append(("whisker", "".join(whiskers)))
    return PlotView(
        layer=chart.layer,
        weighting=chart.weighting,
        order=order,
        width=STEP * chart.experts,
        paths=tuple(paths),
        hits=tuple(Hit(STEP * i, chart.label(e)) for i, e in enumerate(ids)),
        uniform_y=y(chart.uniform),
        left=_share_ticks(top, y),
        right=_multiple_ticks(top, chart.experts, y),
        bottom=_bottom_ticks(chart.layer, ids),
    )


def _share_ticks(top: float, y: _Scale) -> tuple[Tick, ...]:
    step = axis_step(top)
    count = int(top / step)
    decimals = 0 if step >= 0.01 and (step * 100) % 1 == 0 else 1 if step * 100 >= 0.1 else 2
    return tuple(Tick(y(i * step), f"{i * step * 100:.{decimals}f}%") for i in range(count + 1))


def _multiple_ticks(top: float, experts: int, y: _Scale) -> tuple[Tick, ...]:
    highest = top * experts
    step = max(1, round(axis_step(highest)))
    values = [1] + [v for v in range(step, int(highest) + 1, step) if v > 1]
    return tuple(Tick(y(v / experts), f"×{v}") for v in values)


def _bottom_ticks(layer: int, ids: Sequence[int]) -> tuple[Tick, ...]:
    """First, middle and last are named at any width, eighths on a wide page."""
    last = len(ids) - 1
    always = {0, last * 4 // 8, last}
    ticks = []
    for place in sorted({last * i // 8 for i in range(9)}):
        anchor: Literal["start", "middle", "end"] = (
            "start" if place == 0 else "end" if place == last else "middle"
        )
        at = 0.0 if place == 0 else 100.0 if place == last else 100 * (place + 0.5) / (last + 1)
        name = expert_name(layer, ids[place])
        ticks.append(Tick(f"{coordinate(at)}%", name, place in always, anchor))
    return tuple(ticks)
