"""How much of what was published a file of this project gives back, from its verification."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.contract.base import Evidence
from atlas.contract.verification import VerifiedFigure
from atlas.numbers import COUNT
from atlas.pages.frame import Link, Writer
from atlas.shelf import Held, Model
from atlas.urls import URLS


@dataclass(frozen=True)
class Verified:
    """One verification: `n of m`, what the rest is, and the report."""

    evidence: Evidence
    line: str
    detail: str
    report: Link


def verified(
    writer: Writer, model: Model, path: str, only: Held | None = None
) -> tuple[Verified, ...]:
    """Lines of a model's verifications, or of those of one of its files."""
    t, found = writer.t, []
    for held in model.verifications:
        if only is not None and held.verification.data.sha256 != only.file.sha256:
            continue
        c = held.verification.counts
        line = t(
            "verified.line",
            equal=COUNT.text(c.equal),
            compared=COUNT.text(c.equal + c.differs),
            file=held.verification.data.name,
        )
        absent = t("verified.absent", absent=COUNT.text(c.absent), total=COUNT.text(c.total))
        differs = t(
            "verified.differs",
            differs=COUNT.text(c.differs),
            unpublished=COUNT.text(c.differs_with_unpublished_inputs),
            environment=COUNT.text(c.differs_in_environment),
            otherwise=COUNT.text(c.differs_otherwise),
        )
        found.append(
            Verified(
                held.verification.evidence,
                line,
                absent + (t("site.gap") + differs if c.differs else ""),
                Link(URLS.link(path, URLS.dataset(held.file.name)), t("verified.report")),
            )
        )
    return tuple(found)


def outcomes(writer: Writer, model: Model) -> dict[str, tuple[str, ...]]:
    """What became of each printed figure, by its id: one line per file that holds it."""
    found: dict[str, tuple[str, ...]] = {}
    for held in model.verifications:
        for figure in held.verification.figures:
            if figure.part == "value" and figure.outcome != "absent":
                found[figure.id] = (*found.get(figure.id, ()), _outcome(writer, figure))
    return found


def _outcome(writer: Writer, figure: VerifiedFigure) -> str:
    if figure.outcome == "equal":
        return writer.t("verified.equal")
    return writer.t("verified.other", regenerated=figure.regenerated or "–")
