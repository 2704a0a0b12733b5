"""`llm-atlas/verification@1`: a regenerated file against the published figures, one by one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from atlas.contract.base import CONTRACT_VERSION, Bilingual, Count, Evidence, Sha256, Strict
from atlas.contract.identity import ModelIdentity
from atlas.contract.published import FigureId, Input

Outcome = Literal["equal", "differs", "absent"]
Part = Literal["value", "low", "high"]


class VerifiedFile(Strict):
    """One of the two files, by name and bytes."""

    name: str
    schema_: str = Field(alias="schema")
    sha256: Sha256


class VerificationCounts(Strict):
    """`differs` splits into figures that need an input which was not published, those that
    name the environment, and the rest, which have no such excuse."""

    equal: Count
    differs: Count
    absent: Count
    total: Count
    differs_with_unpublished_inputs: Count
    differs_in_environment: Count
    differs_otherwise: Count


class VerifiedFigure(Strict):
    """One printed figure, or one end of its interval (`part`).

    `regenerated` is the file's value at the printed decimals, null where the file has none;
    `difference` is regenerated minus printed, at those decimals, null where there is nothing to
    subtract. `reason` says why the figure is absent. `depends_on` is the figure's, and an
    interval's end depends on the random stream too; `unpublished_inputs` are those of them that
    the documents do not give.
    """

    id: FigureId
    part: Part
    outcome: Outcome
    printed: str
    regenerated: str | None
    difference: float | None
    reason: Bilingual | None
    depends_on: tuple[Input, ...]
    unpublished_inputs: tuple[Input, ...]

    @model_validator(mode="after")
    def _consistent(self) -> VerifiedFigure:
        absent = self.outcome == "absent"
        if absent != (self.regenerated is None) or absent != (self.reason is not None):
            raise ValueError(f"{self.id}: expected a regenerated value or a reason why not")
        if self.outcome != "differs" and self.difference is not None:
            raise ValueError(f"{self.id}: difference: expected null unless it differs")
        return self


class Verification(Strict):
    """The file. `evidence` and `model` are those of the regenerated file."""

    schema_: Literal["llm-atlas/verification@1"] = Field(alias="schema")
    contract: Literal["1"] = CONTRACT_VERSION
    evidence: Evidence
    model: ModelIdentity
    data: VerifiedFile
    against: VerifiedFile
    counts: VerificationCounts
    figures: tuple[VerifiedFigure, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _counts(self) -> Verification:
        if self.counts != count(self.figures):
            raise ValueError("verification: expected counts that the figures add up to")
        return self


def count(figures: tuple[VerifiedFigure, ...]) -> VerificationCounts:
    """Counts of the outcomes."""
    differing = [figure for figure in figures if figure.outcome == "differs"]
    unpublished = sum(bool(figure.unpublished_inputs) for figure in differing)
    environment = sum(
        "environment" in figure.depends_on and not figure.unpublished_inputs for figure in differing
    )
    return VerificationCounts(
        equal=sum(figure.outcome == "equal" for figure in figures),
        differs=len(differing),
        absent=sum(figure.outcome == "absent" for figure in figures),
        total=len(figures),
        differs_with_unpublished_inputs=unpublished,
        differs_in_environment=environment,
        differs_otherwise=len(differing) - unpublished - environment,
    )
