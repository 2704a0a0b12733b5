"""`llm-atlas/comparison@1`: two traces, field by field, exact or not."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from atlas.contract.base import CONTRACT_VERSION, Count, Evidence, LayerNumber, Sha256, Strict


class ComparedFile(Strict):
    """One of the two traces; its own hash differs from the other's by clock and timing."""

    sha256: Sha256
    captured_at: str | None


class Check(Strict):
    """One named check. `first` and `second` are digests of what was compared."""

    name: str
    layer: LayerNumber | None
    exact: bool
    first: str
    second: str


class Comparison(Strict):
    """The file: 3 + 2 + 2·layers + 2·MoE layers checks."""

    schema_: Literal["llm-atlas/comparison@1"] = Field(alias="schema")
    contract: Literal["1"] = CONTRACT_VERSION
    evidence: Evidence
    first: ComparedFile
    second: ComparedFile
    timing_compared: Literal[False]
    exact: Count
    total: Count
    checks: tuple[Check, ...]

    @model_validator(mode="after")
    def _counts(self) -> Comparison:
        if self.total != len(self.checks) or self.exact != sum(c.exact for c in self.checks):
            raise ValueError("comparison: expected totals that the checks add up to")
        return self
