"""Building blocks of every dataset: the strict model, its scalar types, evidence classes.

Axes in field names: T token, K selected expert (k of top-k), E routed expert, P prompt,
L layer, B prompt of a batch.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

CONTRACT_VERSION: Literal["1"] = "1"

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([-_][a-z0-9]+)*$", max_length=64)]
LayerNumber = Annotated[int, Field(ge=0, le=10_000)]
ExpertId = Annotated[int, Field(ge=0, le=65_535)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
NonNegative = Annotated[float, Field(ge=0.0)]

Evidence = Literal["captured", "imported", "official", "published", "demo"]
"""captured: run here from pinned official weights. official: computed from official
config, index or tokenizer, no weights. imported: computed here from a record that someone
else published. published: printed in a source document, not re-run. demo: run here from
the embedded checkpoint."""

SHARE_TOLERANCE = 1e-8
"""A share that is rounded to 8 decimals may be off by this much."""
SHARE_SUM_TOLERANCE = 1e-6


class Strict(BaseModel):
    """Immutable, no unknown keys, no coercion, no NaN or infinity."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )


class Bilingual(Strict):
    """One text in both languages of the site."""

    en: str
    zh: str


class Interval(Strict):
    """A 95 % interval. What it was resampled over is said by the field that holds it."""

    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> Interval:
        if self.low > self.high:
            raise ValueError(f"interval: expected low <= high, found {self.low} > {self.high}")
        return self


class Estimate(Strict):
    """A statistic with its prompt-level bootstrap.

    `percentile` and `bca` are 95 % intervals with the prompt as the unit; `bias` is the mean
    of the replicates minus the point. `token_unit` treats tokens as if they were independent,
    which tokens of one prompt are not: it is the wrong interval, mostly too narrow and now and
    then too wide, kept so that a reader sees how wrong it is.
    """

    point: float
    percentile: Interval
    bias: float
    bca: Interval | None = None
    token_unit: Interval | None = None


def require_shares(values: tuple[float, ...], what: str) -> None:
    """Raise ValueError unless `values` sum to 1 (up to rounding to 8 decimals)."""
    total = math.fsum(values)
    # each share may be off by its own rounding: 512 times 1/512 is 2.6e-6 away from 1
    if abs(total - 1.0) > max(SHARE_SUM_TOLERANCE, len(values) * SHARE_TOLERANCE):
        raise ValueError(f"{what}: expected shares that sum to 1, found {total!r}")
