"""Places for figures in notes: `::figure kind=load dataset=esft layer=4 domain=law`.

A figure shows one layer, or rows of layers in which no expert has a place: there is no kind
with two layers of experts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

FigureKind = Literal["load", "ranks", "metrics", "divergences", "routes", "mla"]
"""load: the load of a layer's experts. ranks: one row per layer, its columns are ranks.
metrics: one measure per layer and domain, dots that are not joined. divergences: domains
against each other in one layer. routes: the experts of each token in one layer. mla: the two
byte ledgers."""

NEEDED: Mapping[FigureKind, tuple[str, ...]] = {
    "load": ("dataset", "layer", "domain"),
    "ranks": ("dataset", "domain"),
    "metrics": ("dataset", "measure"),
    "divergences": ("dataset", "layer"),
    "routes": ("dataset", "layer"),
    "mla": ("dataset",),
}
"""Keys of every kind; all of them, and no others."""

MEASURES = ("cv", "effective_experts", "gini", "jsd", "top_share")

_PAIR = re.compile(r"(?P<key>[a-z]+)=(?P<value>[A-Za-z0-9_-]+)")


@dataclass(frozen=True)
class Figure:
    """A figure that a note asks for; fields that its kind does not need are None."""

    kind: FigureKind
    dataset: str
    layer: int | None = None
    domain: str | None = None
    measure: str | None = None


def figure_of(line: str) -> Figure:
    """The figure of a `::figure` line. Raises ValueError: expected, found."""
    values: dict[str, str] = {}
    for word in line.removeprefix("::figure").split():
        pair = _PAIR.fullmatch(word)
        if pair is None or pair["key"] in values:
            raise ValueError(f"expected key=value, each key once, found {word[:40]!r}")
        values[pair["key"]] = pair["value"]
    kind = next((k for k in get_args(FigureKind) if k == values.get("kind")), None)
    if kind is None:
        raise ValueError(f"expected kind= one of {', '.join(NEEDED)}, found {values.get('kind')!r}")
    needed = NEEDED[kind]
    if sorted(values) != sorted(("kind", *needed)):
        raise ValueError(f"expected kind={kind} with {', '.join(needed)}, found {sorted(values)}")
    layer, measure = values.get("layer"), values.get("measure")
    if layer is not None and not layer.isdecimal():
        raise ValueError(f"expected one layer number, found {layer!r}")
    if measure is not None and measure not in MEASURES:
        raise ValueError(f"expected measure= one of {', '.join(MEASURES)}, found {measure!r}")
    return Figure(
        kind=kind,
        dataset=values["dataset"],
        layer=int(layer) if layer is not None else None,
        domain=values.get("domain"),
        measure=measure,
    )
