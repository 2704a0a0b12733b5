"""Expert load of one layer, and the measures of its dispersion.

Axes: E routed expert, P prompt; `...` any leading axes (replicates, layers, domains).
A load is a vector [..., E] of non-negative numbers, selection counts or shares. The measures
do not depend on its scale, so either may be given; every vector is of ONE layer, since expert
e of one layer and expert e of another are different parameters.

Sources: the routing-corpus note (two weightings, CV, Gini, effective experts, JSD); Lin 1991
for the Jensen-Shannon divergence. Zero shares follow the definition, 0·log 0 = 0; nothing is
added to them. None of these measures says what an expert is for.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas.canonical import rounded
from atlas.contract.trace import LoadSummary

FloatArray = NDArray[np.float64]
LN_2 = math.log(2.0)


def normalized(loads: ArrayLike) -> FloatArray:
    """Shares [..., E] in float64, summing to 1 along the last axis.

    loads: [..., E], non-negative, finite. Raises ValueError for anything else, an all-zero
    vector included: a layer in which nothing was selected has no shares.
    """
    loads_E = np.asarray(loads, dtype=np.float64)
    if loads_E.ndim == 0 or loads_E.shape[-1] == 0:
        raise ValueError(f"load: expected [..., experts], found shape {loads_E.shape}")
    totals = loads_E.sum(axis=-1, keepdims=True)
    if not np.isfinite(totals).all() or (loads_E < 0).any():
        raise ValueError("load: expected finite, non-negative numbers, found others")
    if not (totals > 0).all():
        raise ValueError("load: expected at least one selection, found an all-zero layer")
    shares: FloatArray = loads_E / totals
    return shares


class Dispersion(NamedTuple):
    """The four measures of how unevenly a load [..., E] is spread, each [...].

    cv: coefficient of variation, population standard deviation over mean; 0 for a uniform
    load, sqrt(E - 1) when one expert takes all.
    gini: mean absolute difference of two experts over twice the mean; 0 and (E - 1) / E.
    effective_experts: exp of the entropy of the shares, as many uniformly used experts have
    that entropy; E and 1.
    top_share: the largest share; 1 / E and 1.
    """

    cv: FloatArray
    gini: FloatArray
    effective_experts: FloatArray
    top_share: FloatArray


def dispersion(loads: ArrayLike) -> Dispersion:
    """All four measures of loads [..., E] in float64. Raises ValueError as `normalized` does."""
    return dispersion_of_shares(normalized(loads))


def dispersion_of_shares(shares: FloatArray) -> Dispersion:
    """`dispersion` of what `normalized` gave, [..., E]. Nothing is checked again."""
    experts = shares.shape[-1]
    deviations = shares - 1.0 / experts
    ascending = np.sort(shares, axis=-1)
    # the double sum over pairs, collected by rank: rank i is the larger one i times
    rank_weights_E = np.arange(1 - experts, experts, 2, dtype=np.float64)
    return Dispersion(
        cv=np.sqrt(np.vecdot(deviations, deviations) * experts),
        gini=_clipped(ascending @ rank_weights_E / experts, 0.0, (experts - 1) / experts),
        effective_experts=_clipped(np.exp(entropy_of_shares(shares)), 1.0, float(experts)),
        top_share=ascending[..., -1],
    )


def cv(loads: ArrayLike) -> FloatArray:
    """Coefficient of variation [...] of loads [..., E]; see Dispersion."""
    return dispersion(loads).cv


def gini(loads: ArrayLike) -> FloatArray:
    """Gini coefficient [...] of loads [..., E]; see Dispersion."""
    return dispersion(loads).gini


def effective_experts(loads: ArrayLike) -> FloatArray:
    """Effective experts [...] of loads [..., E]; see Dispersion."""
    return dispersion(loads).effective_experts


def top_share(loads: ArrayLike) -> FloatArray:
    """Largest share [...] of loads [..., E]; see Dispersion."""
    return dispersion(loads).top_share


def jensen_shannon(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Jensen-Shannon divergence [...] in nats of two loads of the same layer.

    first, second: [..., E], broadcast against each other. 0 for equal shares, ln 2 for loads
    without a common expert. Raises ValueError when the numbers of experts differ.
    """
    p, q = normalized(first), normalized(second)
    if p.shape[-1] != q.shape[-1]:
        raise ValueError(
            f"divergence: expected the same experts, found {p.shape[-1]} and {q.shape[-1]}"
        )
    return divergence_of_shares(p, q, entropy_of_shares(p), entropy_of_shares(q))


def divergence_of_shares(
    p: FloatArray, q: FloatArray, entropy_p: FloatArray, entropy_q: FloatArray
) -> FloatArray:
    """`jensen_shannon` of what `normalized` gave, [..., E], with entropies [...] at hand.

    The entropy of the mean minus the mean of the entropies. Nothing is checked again.
    """
    middle = entropy_of_shares((p + q) / 2.0)
    return _clipped(middle - (entropy_p + entropy_q) / 2.0, 0.0, LN_2)


def entropy_of_shares(shares: FloatArray) -> FloatArray:
    """Entropy [...] in nats of what `normalized` gave, [..., E].

    A zero share meets log 1 and adds 0·0. Nothing is checked again.
    """
    logs = np.where(shares > 0.0, shares, 1.0)
    np.log(logs, out=logs)
    return np.asarray(-np.vecdot(shares, logs))


def token_weighted(counts_PE: ArrayLike) -> FloatArray:
    """Shares [E] of the summed counts [P, E]: a long prompt weighs more."""
    return normalized(_count_matrix(counts_PE).sum(axis=0))


def prompt_balanced(counts_PE: ArrayLike) -> FloatArray:
    """Shares [E]: the mean over prompts of each prompt's own shares; one prompt, one vote.

    counts_PE: integers [P, E], every prompt with at least one selection. Each share is the
    float nearest to the exact ratio, so no order of summation shows in it.
    """
    exact_E = prompt_balanced_loads(counts_PE)
    total = sum(exact_E)
    return np.array([load / total for load in exact_E], dtype=np.float64)


def prompt_balanced_loads(counts_PE: ArrayLike) -> list[int]:
    """Prompt-balanced shares [E] as exact integers over a common denominator (their sum).

    Ties and coverage thresholds are decided on these, where floats would let rounding decide.
    """
    counts = _count_matrix(counts_PE)
    selections_P = [int(total) for total in counts.sum(axis=1)]
    if min(selections_P) == 0:
        row = selections_P.index(0)
        raise ValueError(f"load: expected at least one selection per prompt, found 0 in row {row}")
    common = math.lcm(*selections_P)
    weights_P = np.array([common // selections for selections in selections_P], dtype=object)
    loads_E: list[int] = (weights_P @ counts.astype(object)).tolist()
    return loads_E


def top_expert(loads_E: ArrayLike) -> int:
    """Id of the expert with the largest load; of equal ones the lowest id."""
    return int(np.argmax(np.asarray(loads_E)))


def coverage(loads_E: ArrayLike, share: float) -> tuple[int, ...]:
    """The smallest set of experts that holds at least `share` of the load.

    loads_E: integers [E], counts or `prompt_balanced_loads`; or floats [E], which are shares.
    share: 0 to 1. Ids by falling load, then rising id; experts without load never belong.

    Decided in exact arithmetic, so a threshold that is met exactly is met: integers as they
    are, floats as the decimal number that they print as (0.2 is one fifth). Shares printed to
    a few decimals decide on what is printed: equal after rounding is equal, and they are
    compared with `share` as they stand, whatever their sum. If they do not reach it, all used
    experts are given. Raises ValueError for an all-zero layer.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"coverage: expected a share from 0 to 1, found {share}")
    exact_E = _exact_loads(loads_E)
    whole = 1 if any(isinstance(load, Fraction) for load in exact_E) else sum(exact_E)
    wanted = Fraction(repr(float(share))) * whole
    chosen: list[int] = []
    held: int | Fraction = 0
    for expert in sorted(range(len(exact_E)), key=lambda e: (-exact_E[e], e)):
        if held >= wanted or exact_E[expert] == 0:
            break
        chosen.append(expert)
        held += exact_E[expert]
    return tuple(chosen)


def jaccard(counts_a_E: ArrayLike, counts_b_E: ArrayLike) -> float:
    """Overlap, 0 to 1, of the sets of experts that two counts [E] of one layer used."""
    used_a, used_b = np.asarray(counts_a_E) > 0, np.asarray(counts_b_E) > 0
    if used_a.shape != used_b.shape or used_a.ndim != 1:
        raise ValueError(
            f"jaccard: expected two vectors of one length, found {used_a.shape}, {used_b.shape}"
        )
    union = int((used_a | used_b).sum())
    if union == 0:
        raise ValueError("jaccard: expected at least one selection, found an all-zero layer")
    return int((used_a & used_b).sum()) / union


def summarize(counts_E: ArrayLike) -> LoadSummary:
    """Contract summary of integer counts [E] of one layer, rounded as it is stored.

    Raises ValueError for an all-zero layer.
    """
    counts = _count_matrix([np.asarray(counts_E)])[0]
    used = int((counts > 0).sum())
    expert = top_expert(counts)
    measured = dispersion(counts)
    return LoadSummary(
        selections=int(counts.sum()),
        used=used,
        zero=len(counts) - used,
        cv=rounded(float(measured.cv)),
        gini=rounded(float(measured.gini)),
        effective_experts=rounded(float(measured.effective_experts)),
        top_expert=expert,
        top_count=int(counts[expert]),
    )


def _count_matrix(counts_PE: Any) -> NDArray[np.int64]:
    counts = np.asarray(counts_PE)
    if counts.ndim != 2 or 0 in counts.shape:
        raise ValueError(f"counts: expected [prompts, experts], found shape {counts.shape}")
    if not np.issubdtype(counts.dtype, np.integer):
        raise ValueError(f"counts: expected integers, found {counts.dtype}")
    if (counts < 0).any():
        raise ValueError(f"counts: expected none below 0, found {counts.min()}")
    return counts.astype(np.int64)


def _clipped(values: FloatArray, low: float, high: float) -> FloatArray:
    """The values inside the measure's bounds, which only rounding can have crossed."""
    return np.clip(values, low, high)


def _exact_loads(loads_E: ArrayLike) -> list[int | Fraction]:
    loads = np.asarray(loads_E)
    if loads.ndim != 1:
        raise ValueError(f"load: expected one load per expert, found shape {loads.shape}")
    try:
        exact = [Fraction(repr(x)) if isinstance(x, float) else int(x) for x in loads.tolist()]
    except ValueError as error:
        raise ValueError("load: expected finite numbers, found NaN or infinity") from error
    if min(exact, default=0) < 0:
        raise ValueError("load: expected non-negative numbers, found others")
    if sum(exact) == 0:
        raise ValueError("load: expected at least one selection, found an all-zero layer")
    return exact
