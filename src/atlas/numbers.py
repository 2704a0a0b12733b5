"""The one number formatter, for charts, tables, CSV and prose.

A measure has one number of decimals everywhere: 1.70 stays 1.70. Rounding is Python's own
(half to even on the stored binary value), so the same value is the same text on any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from atlas.contract.base import Estimate, Interval


@dataclass(frozen=True)
class Measure:
    """How one kind of number is written: `decimals` after scaling, then `suffix`."""

    decimals: int
    scale: float = 1.0
    prefix: str = ""
    suffix: str = ""

    @cached_property
    def _digits(self) -> str:
        return f".{self.decimals}f"

    @cached_property
    def _grouped(self) -> str:
        return f",.{self.decimals}f"

    def bare(self, value: float) -> str:
        """The digits alone, as CSV wants them: no thousands separator, no sign of the unit."""
        return _without_negative_zero(format(value * self.scale, self._digits))

    def text(self, value: float) -> str:
        """As a reader sees it: thousands separated, unit attached, true minus sign."""
        digits = _without_negative_zero(format(value * self.scale, self._grouped))
        if digits.startswith("-"):
            return f"\u2212{self.prefix}{digits[1:]}{self.suffix}"
        return f"{self.prefix}{digits}{self.suffix}"

    def signed(self, value: float) -> str:
        """Like `text`, with a plus sign for a positive value."""
        text = self.text(value)
        return f"+{text}" if float(self.bare(value)) > 0 else text

    def interval(self, interval: Interval) -> str:
        """`[38.3, 39.5]`, both ends with the measure's decimals."""
        return f"[{self.text(interval.low)}, {self.text(interval.high)}]"

    def span(self, interval: Interval) -> str:
        """`38.3–39.5`, for a heading."""
        return f"{self.text(interval.low)}\u2013{self.text(interval.high)}"

    def estimate(self, estimate: Estimate) -> str:
        """Point and percentile interval: `38.9 [38.3, 39.5]`."""
        return f"{self.text(estimate.point)} {self.interval(estimate.percentile)}"


def _without_negative_zero(digits: str) -> str:
    return digits[1:] if digits[0] == "-" and not digits.strip("-0.") else digits


COUNT = Measure(0)
SHARE = Measure(2, scale=100.0, suffix="%")
EFFECTIVE = Measure(1)
CV = Measure(2)
GINI = Measure(2)
JSD = Measure(3)
MULTIPLE = Measure(2, prefix="×")
WEIGHT = Measure(4)
MARGIN = Measure(4)
RATIO = Measure(4, suffix="×")
PERCENT = Measure(2, scale=100.0, suffix="%")
WHOLE_PERCENT = Measure(0, scale=100.0, suffix="%")
JACCARD = Measure(3)

MEASURES = {
    "effective_experts": EFFECTIVE,
    "cv": CV,
    "gini": GINI,
    "top_share": SHARE,
    "jsd": JSD,
}
"""The measure of each statistic, by the name of its field in the data contract."""

_KINDS: dict[str, Callable[[float], str]] = {
    "count": COUNT.text,
    "share": SHARE.text,
    "weight": WEIGHT.text,
    "margin": MARGIN.text,
    "ratio": RATIO.text,
    "percent": PERCENT.text,
    "whole_percent": WHOLE_PERCENT.text,
    "jaccard": JACCARD.text,
    **{name: measure.text for name, measure in MEASURES.items()},
}


def text(value: float, kind: str) -> str:
    """`value` as text of a named kind; the filter `number` of the templates. Raises KeyError."""
    return _KINDS[kind](value)


def expert_name(layer: int, expert: int) -> str:
    """`L4·E29`: an expert is never named without its layer."""
    return f"L{layer}·E{expert}"


def coordinate(value: float) -> str:
    """A coordinate of a drawing, one decimal at most: `12`, `3.5`."""
    digits = f"{value:.1f}"
    digits = digits.removesuffix(".0")
    return "0" if digits == "-0" else digits
