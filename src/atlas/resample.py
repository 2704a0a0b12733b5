"""Bootstrap of loads: what is drawn, the replicates, and the intervals made of them.

Axes: R replicate, P prompt of one domain, N token of one domain, K selected expert,
E routed expert, J left-out prompt of the jackknife, M measure.

A replicate draws as many units as there are, with replacement, within one domain. It is kept
as how often each unit was drawn, so that all replicates of a load are one matrix product.

The unit is the prompt: tokens of one prompt share topic, prefix and format. The token as the
unit is here too, so that a reader sees how wrong it is (mostly too narrow, now and then too wide).

An interval from here answers: how would the statistic move if other prompts of the same
source were picked in the same way? It is no significance test, and says nothing of a
population that the prompts were not drawn from.

Sources: Efron and Tibshirani 1993, chapters 13 (percentile) and 14 (BCa).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from atlas.load import (
    Dispersion,
    FloatArray,
    dispersion_of_shares,
    divergence_of_shares,
    normalized,
)

REPLICATES = 2_000
SEED = 20_260_729
TAIL = 0.025
"""Probability left out on either side of a 95 % interval."""

Unit = Literal["prompt", "token"]
Bounds = tuple[float, float]

_NORMAL = NormalDist()
_BLOCK_ELEMENTS = 1 << 20
_CACHED_ELEMENTS = 1 << 15
_KEPT_BYTES = 96 << 20
_TIE = 1e-12
"""Replicates this near to the point are the point: only the order of a sum tells them apart."""


def generator(seed: int, unit: Unit, domain: str) -> np.random.Generator:
    """Random stream of one domain: PCG64 seeded with [seed, a, b].

    a and b are the first eight bytes of SHA-256("unit|domain") as two little-endian uint32.
    A domain's draws depend on its own name and size, never on the other domains of a file or
    on their order, and the streams of two domains are independent of each other.
    """
    digest = sha256(f"{unit}|{domain}".encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in (0, 4)]
    return np.random.Generator(np.random.PCG64([seed, *words]))


def draw_blocks(
    rng: np.random.Generator, replicates: int, units: int
) -> Iterator[NDArray[np.uint8]]:
    """How often each unit is drawn, a few replicates at a time: uint8 [rows, units].

    Rows sum to `units`. Over all blocks the draws are those of
    `rng.integers(0, units, size=(replicates, units))`; blocks bound the memory. Raises
    ValueError without units, or if one unit were drawn more than 255 times in a replicate.
    """
    if units < 1:
        raise ValueError(f"resample: expected at least one unit, found {units}")
    rows = max(1, _BLOCK_ELEMENTS // units)
    for start in range(0, replicates, rows):
        indices = rng.integers(0, units, size=(min(rows, replicates - start), units))
        indices += np.arange(len(indices))[:, None] * units
        times = np.bincount(indices.ravel(), minlength=indices.size)
        if times.max() > np.iinfo(np.uint8).max:
            raise ValueError(f"resample: expected a unit at most 255 times, found {times.max()}")
        yield times.astype(np.uint8).reshape(indices.shape)


class Resampling:
    """The draws of every domain, made once and used for all layers and both weightings.

    replicates, seed: of the bootstrap. The same (seed, replicates, unit, domain, size) gives
    the same draws, whatever else was asked before.
    """

    def __init__(self, replicates: int = REPLICATES, seed: int = SEED) -> None:
        if replicates < 1 or seed < 0:
            raise ValueError(
                f"resample: expected replicates >= 1 and seed >= 0, found {replicates} and {seed}"
            )
        self.replicates, self.seed = replicates, seed
        self._kept: dict[tuple[Unit, str, int], list[NDArray[np.uint8]]] = {}
        self._room = _KEPT_BYTES

    def blocks(self, unit: Unit, domain: str, units: int) -> Iterable[NDArray[np.uint8]]:
        """Draws of one domain in blocks, uint8 [rows, units]; see `draw_blocks`.

        They are kept for the next layer while there is room, and drawn again where not.
        """
        key = (unit, domain, units)
        if key in self._kept:
            return self._kept[key]
        drawn = draw_blocks(generator(self.seed, unit, domain), self.replicates, units)
        if self.replicates * units > self._room:
            return drawn
        self._room -= self.replicates * units
        self._kept[key] = list(drawn)
        for block in self._kept[key]:
            block.setflags(write=False)
        return self._kept[key]


def replicate_shares(blocks: Iterable[NDArray[np.uint8]], loads_PE: FloatArray) -> FloatArray:
    """Shares of every replicate with the prompt as the unit, float64 [R, E].

    blocks: how often each prompt counts, [rows, P] each. loads_PE: the prompts' counts for
    the token-weighted load, their shares for the prompt-balanced one.
    """
    return _joined(
        _by_rows(lambda rows: normalized(rows.astype(np.float64) @ loads_PE), block)
        for block in blocks
    )


def jackknife_shares(loads_PE: FloatArray) -> FloatArray | None:
    """Shares with one prompt left out, float64 [J, E], J = P; None for a single prompt.

    Made by summing the others, not by subtracting from the total: zero shares stay zero.
    """
    prompts = len(loads_PE)
    if prompts < 2:
        return None
    rows = max(1, _BLOCK_ELEMENTS // prompts)
    return _joined(
        normalized((1.0 - np.eye(min(rows, prompts - start), prompts, k=start)) @ loads_PE)
        for start in range(0, prompts, rows)
    )


def token_replicate_shares(
    blocks: Iterable[NDArray[np.uint8]], expert_ids_NK: NDArray[np.integer], experts: int
) -> FloatArray:
    """Shares of every replicate with the token, all its K routes, as the unit: float64 [R, E].

    blocks: how often each token counts, [rows, N] each. Selections are summed in float32,
    which is exact below 2^24 tokens; more are refused. Raises ValueError, too, for ids
    outside 0 to E - 1 or an expert twice in one token.
    """
    tokens, k = expert_ids_NK.shape
    if not 1 <= tokens < 1 << 24:
        raise ValueError(f"token ids: expected 1 to {(1 << 24) - 1} tokens, found {tokens}")
    if expert_ids_NK.min() < 0 or expert_ids_NK.max() >= experts:
        raise ValueError(f"token ids: expected 0 to {experts - 1}, found others")
    selected_NE = np.zeros((tokens, experts), dtype=np.float32)
    selected_NE[np.arange(tokens)[:, None], expert_ids_NK] = 1.0
    if np.count_nonzero(selected_NE) != tokens * k:
        raise ValueError(f"token ids: expected {k} different experts in each token")
    return _joined(normalized(block.astype(np.float32) @ selected_NE) for block in blocks)


@dataclass(frozen=True)
class Replicates:
    """Shares of replicates (or of a jackknife) of one load, and what is measured of them.

    shares_RE: [R, E]. dispersion_RM: [R, M], columns as in `load.Dispersion`. entropy_R: nats.
    """

    shares_RE: FloatArray
    dispersion_RM: FloatArray
    entropy_R: FloatArray

    @classmethod
    def of(cls, shares_RE: FloatArray) -> Replicates:
        dispersion_RM = _by_rows(
            lambda rows: np.stack(dispersion_of_shares(rows), axis=-1), shares_RE
        )
        effective_R = dispersion_RM[:, Dispersion._fields.index("effective_experts")]
        return cls(shares_RE, dispersion_RM, np.log(effective_R))

    def divergence(self, other: Replicates) -> FloatArray:
        """Jensen-Shannon divergence [R], replicate by replicate."""
        return _by_rows(
            divergence_of_shares, self.shares_RE, other.shares_RE, self.entropy_R, other.entropy_R
        )


def _by_rows(measure: Callable[..., FloatArray], *arrays: NDArray[Any]) -> FloatArray:
    """`measure` of arrays [R, ...], a few rows at a time; its results are joined along R.

    Blocks that the cache and the allocator hold are three times as fast as whole arrays,
    whose temporaries are new pages.
    """
    replicates, width = arrays[0].shape
    rows = max(1, _CACHED_ELEMENTS // width)
    return _joined(
        measure(*(array[start : start + rows] for array in arrays))
        for start in range(0, replicates, rows)
    )


def _joined(parts: Iterable[FloatArray]) -> FloatArray:
    held = list(parts)
    return held[0] if len(held) == 1 else np.concatenate(held)


def percentile_bounds(values_R: FloatArray) -> Bounds:
    """The 2.5th and 97.5th percentile of the replicates [R], linear between order statistics."""
    low, high = np.quantile(values_R, [TAIL, 1.0 - TAIL])
    return float(low), float(high)


def bias(values_R: FloatArray, point: float) -> float:
    """Mean of the replicates [R] minus the point.

    Above 0 for measures of dispersion: drawing prompts twice disperses a load further.
    """
    return float(np.mean(values_R)) - point


def bca_bounds(
    values_R: FloatArray, point: float, jackknives: Sequence[FloatArray]
) -> Bounds | None:
    """Bias-corrected and accelerated 95 % interval.

    values_R: replicates. jackknives: per sample the statistic [J] with one of its prompts
    left out; one sample, or two for a divergence (multi-sample acceleration).

    None where BCa is not defined, beside a sample of one prompt, which has no jackknife:
    jackknife values that are all equal (no acceleration), all replicates on one side of the
    point (no bias correction; it happens when few prompts resample to more dispersion), or an
    acceleration so large that the adjusted level leaves its branch. The percentile interval
    then stands alone.
    """
    correction = _bias_correction(values_R, point)
    acceleration = _acceleration(jackknives)
    if correction is None or acceleration is None:
        return None
    levels = []
    for z in (_NORMAL.inv_cdf(TAIL), -_NORMAL.inv_cdf(TAIL)):
        shifted = correction + z
        denominator = 1.0 - acceleration * shifted
        if denominator <= 0.0:
            return None
        levels.append(_normal_cdf(correction + shifted / denominator))
    low, high = np.quantile(values_R, levels)
    return float(low), float(high)


def _bias_correction(values_R: FloatArray, point: float) -> float | None:
    """z0: the normal quantile of the share of replicates below the point, ties by half."""
    tie = _TIE * max(1.0, abs(point))
    below = np.count_nonzero(values_R < point - tie) + np.count_nonzero(values_R <= point + tie)
    share = float(below) / (2 * len(values_R))
    spread = float(values_R.max() - values_R.min())
    return _NORMAL.inv_cdf(share) if 0.0 < share < 1.0 and spread > tie else None


def _acceleration(jackknives: Sequence[FloatArray]) -> float | None:
    """a: skewness of the jackknife influence values, summed over independent samples."""
    cubes = squares = 0.0
    for values_J in jackknives:
        size = len(values_J)
        influence_J = (size - 1) * (values_J.mean() - values_J)
        cubes += float((influence_J**3).sum()) / size**3
        squares += float((influence_J**2).sum()) / size**2
    return cubes / (6.0 * squares**1.5) if squares > _TIE**2 else None


def _normal_cdf(z: float) -> float:
    # erfc keeps its digits in the lower tail, where 1 + erf would cancel
    return 0.5 * math.erfc(-z / math.sqrt(2.0))
