"""A regenerated file against the figures that a source document printed.

Every printed figure is compared: the file's value, rounded to the printed decimals, with the
printed digits. Where a file has no such value the result says why. Nothing is left out because
it is expected to differ: figures that need an input which the documents do not give are
compared like all others, and carry that input's name.
"""

from __future__ import annotations

from hashlib import sha256

from atlas.contract import Published
from atlas.contract.base import Bilingual
from atlas.contract.published import UNPUBLISHED, Input, PrintedInterval, PublishedFigure
from atlas.contract.verification import (
    Outcome,
    Part,
    Verification,
    VerifiedFigure,
    VerifiedFile,
    count,
)
from capture.regenerated import Absent, File, Found, Regenerated, Value, regenerated


def verify(
    dataset: File, data: bytes, data_name: str, published: Published, against: bytes, name: str
) -> Verification:
    """`dataset` (the parsed `data`) against `published` (the parsed `against`)."""
    figures: list[VerifiedFigure] = []
    for figure in published.figures:
        found = regenerated(figure, dataset)
        figures.append(_compared(figure, "value", figure.printed, figure.value, found))
        if figure.interval is not None:
            figures.extend(_interval(figure, figure.interval, found))
    return Verification(
        schema_="llm-atlas/verification@1",
        evidence=dataset.evidence,
        model=dataset.model,
        data=_file(data_name, dataset.schema_, data),
        against=_file(name, published.schema_, against),
        counts=count(tuple(figures)),
        figures=tuple(figures),
    )


def _file(name: str, schema: str, data: bytes) -> VerifiedFile:
    return VerifiedFile(name=name, schema_=schema, sha256=sha256(data).hexdigest())


def _interval(
    figure: PublishedFigure, interval: PrintedInterval, found: Regenerated
) -> list[VerifiedFigure]:
    ends: list[tuple[Part, str, float]] = [
        ("low", interval.printed_low, interval.low),
        ("high", interval.printed_high, interval.high),
    ]
    results = []
    for part, printed, value in ends:
        end: Regenerated = found
        if isinstance(found, Found):
            end = Absent("no interval", "没有区间")
            if found.interval is not None:
                end = Found(found.interval[0] if part == "low" else found.interval[1])
        results.append(_compared(figure, part, printed, value, end))
    return results


def _compared(
    figure: PublishedFigure, part: Part, printed: str, value: Value, found: Regenerated
) -> VerifiedFigure:
    inputs: tuple[Input, ...] = figure.depends_on
    if part != "value" and "random_stream" not in inputs:
        inputs = (*inputs, "random_stream")
    outcome: Outcome = "absent"
    text, difference, reason = None, None, None
    if isinstance(found, Absent):
        reason = Bilingual(en=found.en, zh=found.zh)
    elif isinstance(found.value, int | float) and not isinstance(value, str | tuple | bool):
        text = figure.text(found.value)
        outcome = "equal" if text == figure.text(value) else "differs"
        if outcome == "differs":
            difference = round(float(text) - value, figure.decimals or 0)
    else:
        text = shown(found.value)
        outcome = "equal" if same(value, found.value) else "differs"
    return VerifiedFigure(
        id=figure.id,
        part=part,
        outcome=outcome,
        printed=printed,
        regenerated=text,
        difference=difference,
        reason=reason,
        depends_on=inputs,
        unpublished_inputs=tuple(name for name in UNPUBLISHED if name in inputs),
    )


def same(printed: Value, found: Value) -> bool:
    """Equal, or `printed` is abbreviated (`b08601e…685c3`) and fits both ends of `found`."""
    if isinstance(printed, str) and isinstance(found, str) and "…" in printed:
        start, _, end = printed.partition("…")
        whole = found.startswith(start) and found.endswith(end)
        return found == printed or (whole and len(found) >= len(start) + len(end))
    return type(printed) is type(found) and printed == found


def shown(value: Value) -> str:
    """A value as text for the report."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
