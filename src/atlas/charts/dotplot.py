"""Dots of one measure, layer by layer: a column per layer, a place in it per domain.

Every layer is a group of its own, grid lines included, and nothing reaches from one column
into the next: values of two layers are never joined. Nothing here knows an expert.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atlas.numbers import coordinate

HEIGHT = 300
MARGIN = 14
"""Space below the axis, so that a dot on it is whole."""
COLUMN = 10
"""Width of a layer's column in units of the drawing."""


@dataclass(frozen=True)
class DotValue:
    """A value with its interval, if it has one, and what a reader sees on pointing at it."""

    point: float
    low: float | None
    high: float | None
    label: str


@dataclass(frozen=True)
class DotMark:
    """One dot. `place` is its domain's place, which also says how it looks."""

    place: int
    dot: str
    whisker: str
    label: str


@dataclass(frozen=True)
class DotColumn:
    """One layer: its part of the grid, of the line that a uniform load would give, its dots."""

    layer: int
    middle: str
    grid: str
    uniform: str
    marks: tuple[DotMark, ...]


@dataclass(frozen=True)
class DotTick:
    """A tick of the value axis."""

    at: str
    text: str


@dataclass(frozen=True)
class DotPlot:
    """The drawing: columns side by side, the value axis, the size of both in drawing units."""

    width: int
    height: int
    ticks: tuple[DotTick, ...]
    columns: tuple[DotColumn, ...]


@dataclass(frozen=True)
class Axis:
    """A value axis from `start` to `end` with a tick at every `step`, and the uniform value."""

    start: float
    end: float
    step: float
    uniform: float
    decimals: int

    def y(self, value: float) -> str:
        """Place of a value; one beyond the axis stays on its end."""
        share = (value - self.start) / (self.end - self.start)
        return coordinate(HEIGHT * (1 - min(1.0, max(0.0, share))))

    @property
    def ticks(self) -> tuple[DotTick, ...]:
        count = math.floor((self.end - self.start) / self.step + 1e-9)
        values = [self.start + i * self.step for i in range(count + 1)]
        return tuple(DotTick(self.y(v), f"{v:.{self.decimals}f}") for v in values)


def dot_plot(
    values: Mapping[tuple[int, str], DotValue],
    layers: Sequence[int],
    domains: Sequence[str],
    axis: Axis,
) -> DotPlot:
    """Dots of `values[layer, domain]`; a pair without a value has no dot."""
    columns = []
    for number, layer in enumerate(layers):
        left, right = COLUMN * number + 0.6, COLUMN * (number + 1) - 0.6
        marks = []
        for place, domain in enumerate(domains):
            value = values.get((layer, domain))
            if value is None:
                continue
            x = coordinate(COLUMN * (number + (place + 1) / (len(domains) + 1)))
            whisker = (
                f"M{x} {axis.y(value.low)}V{axis.y(value.high)}"
                if value.low is not None and value.high is not None
                else ""
            )
            marks.append(DotMark(place, f"M{x} {axis.y(value.point)}h.01", whisker, value.label))
        span = f"H{coordinate(right)}"
        columns.append(
            DotColumn(
                layer=layer,
                middle=f"{coordinate(100 * (number + 0.5) / len(layers))}%",
                grid="".join(f"M{coordinate(left)} {tick.at}{span}" for tick in axis.ticks),
                uniform=f"M{coordinate(left)} {axis.y(axis.uniform)}{span}",
                marks=tuple(marks),
            )
        )
    return DotPlot(COLUMN * len(layers), HEIGHT + MARGIN, axis.ticks, tuple(columns))
