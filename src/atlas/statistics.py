"""Statistics of one MoE layer, as the routing-corpus contract stores them.

Axes: P prompt, E routed expert, N token of one domain, K selected expert, R replicate.

Both weightings are always given: a load that holds for summed tokens may not hold when every
prompt has one vote. Domains are resampled independently of each other (stratified), each from
its own stream, and a divergence uses the same replicates as the two loads that it compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas import load as measures
from atlas.canonical import DECIMALS, rounded
from atlas.contract.base import Estimate, Interval
from atlas.contract.corpus import (
    CorpusLayer,
    Coverage,
    Divergence,
    DomainLoad,
    Load,
    Shares,
    Statistics,
)
from atlas.load import FloatArray
from atlas.resample import (
    TAIL,
    Bounds,
    Replicates,
    Resampling,
    bca_bounds,
    bias,
    jackknife_shares,
    percentile_bounds,
    replicate_shares,
    token_replicate_shares,
)

COVERED = (0.2, 0.5, 0.9)
"""Shares of the load whose smallest expert sets are stored."""


@dataclass(frozen=True)
class _Sample:
    """One domain's load under one weighting, and everything resampled from it.

    exact_E decides ties and coverage: integers that are proportional to point_E. No jackknife
    where BCa was not asked for or the domain has one prompt.
    """

    exact_E: Sequence[int]
    point_E: FloatArray
    replicates: Replicates
    jackknife: Replicates | None
    token_replicates: Replicates | None


def describe(resampling: Resampling) -> Statistics:
    """The contract's account of how the intervals of a file were made."""
    return Statistics(
        replicates=resampling.replicates,
        seed=resampling.seed,
        unit="prompt",
        stratified_by="domain",
        interval="percentile 2.5 to 97.5",
        weightings=("token_weighted", "prompt_balanced"),
        decimals=DECIMALS,
    )


def layer_statistics(
    layer: int,
    counts_PE: NDArray[np.integer],
    domain_of_P: Sequence[str],
    domains: Sequence[str],
    resampling: Resampling,
    *,
    token_ids: Mapping[str, NDArray[np.integer]] | None = None,
    gate_mass: Mapping[str, ArrayLike] | None = None,
    bca: bool = True,
) -> CorpusLayer:
    """Loads of every domain and divergences of every pair, in one layer.

    layer: the model's own layer number. counts_PE: integers [P, E]. domain_of_P: the domain of
    each row. domains: their order in the result. resampling: one object for all layers of a
    file, so that a replicate means the same prompts in each of them. token_ids: per domain
    the selected experts [N, K] of this layer in any token order that is the same in every
    layer; without it `token_unit` is null. gate_mass: per domain the mean gate weight per
    token [E]. bca: False leaves BCa intervals out.

    Raises ValueError, one line with layer and domain, for a domain without prompts, an
    unknown domain, an all-zero prompt, or token ids that do not add up to the counts.
    """
    counts_PE = np.asarray(counts_PE)
    if len(domain_of_P) != len(counts_PE):
        raise ValueError(
            f"layer {layer}: expected one domain per row, found {len(domain_of_P)} for "
            f"{len(counts_PE)} rows"
        )
    strangers = sorted(set(domain_of_P) - set(domains))
    if strangers or len(set(domains)) != len(domains):
        raise ValueError(f"layer {layer}: expected the domains {list(domains)}, found {strangers}")
    for what, given in (("token ids", token_ids), ("gate mass", gate_mass)):
        lacking = [] if given is None else [domain for domain in domains if domain not in given]
        if lacking:
            raise ValueError(
                f"layer {layer}: {what}: expected one array per domain, lacks {lacking}"
            )
    samples: dict[str, tuple[_Sample, _Sample]] = {}
    for domain in domains:
        own_PE = counts_PE[[name == domain for name in domain_of_P]]
        ids_NK = None if token_ids is None else token_ids[domain]
        try:
            samples[domain] = _samples(domain, own_PE, resampling, ids_NK, bca)
        except ValueError as error:
            raise ValueError(f"layer {layer}, {domain}: {error}") from error
    return CorpusLayer(
        layer=layer,
        counts_PE=tuple(tuple(row) for row in counts_PE.tolist()),
        domains=tuple(
            DomainLoad(
                domain=domain,
                token_weighted=_load(samples[domain][0]),
                prompt_balanced=_load(samples[domain][1]),
                gate_mass_E=None if gate_mass is None else _rounded(gate_mass[domain]),
            )
            for domain in domains
        ),
        divergences=tuple(
            Divergence(
                first=first,
                second=second,
                token_weighted=_divergence(samples[first][0], samples[second][0]),
                prompt_balanced=_divergence(samples[first][1], samples[second][1]),
            )
            for i, first in enumerate(domains)
            for second in domains[i + 1 :]
        ),
    )


def _samples(
    domain: str,
    counts_PE: NDArray[np.integer],
    resampling: Resampling,
    ids_NK: NDArray[np.integer] | None,
    bca: bool,
) -> tuple[_Sample, _Sample]:
    """The token-weighted and the prompt-balanced sample of one domain."""
    prompts, experts = counts_PE.shape
    balanced_E = measures.prompt_balanced_loads(counts_PE)
    blocks = list(resampling.blocks("prompt", domain, prompts))
    tokens = None
    if ids_NK is not None:
        if np.bincount(np.ravel(ids_NK), minlength=experts).tolist() != counts_PE.sum(0).tolist():
            raise ValueError("token ids: expected those that the counts were made of")
        token_blocks = resampling.blocks("token", domain, len(ids_NK))
        tokens = Replicates.of(token_replicate_shares(token_blocks, ids_NK, experts))

    def sample(
        exact_E: list[int],
        point_E: FloatArray,
        loads_PE: FloatArray,
        token_replicates: Replicates | None,
    ) -> _Sample:
        left_out_JE = jackknife_shares(loads_PE) if bca else None
        return _Sample(
            exact_E=exact_E,
            point_E=point_E,
            replicates=Replicates.of(replicate_shares(blocks, loads_PE)),
            jackknife=None if left_out_JE is None else Replicates.of(left_out_JE),
            token_replicates=token_replicates,
        )

    return (
        sample(
            counts_PE.sum(axis=0).tolist(),
            measures.token_weighted(counts_PE),
            counts_PE.astype(np.float64),
            tokens,
        ),
        # the mistake of taking tokens for the unit is shown where tokens are what is weighed
        sample(
            balanced_E,
            measures.prompt_balanced(counts_PE),
            measures.normalized(counts_PE),
            None,
        ),
    )


def _load(sample: _Sample) -> Load:
    used = sum(load > 0 for load in sample.exact_E)
    jackknife, tokens = sample.jackknife, sample.token_replicates
    cv, gini, effective_experts, top_share = (
        _estimate(
            float(point),
            sample.replicates.dispersion_RM[:, m],
            None if jackknife is None else [jackknife.dispersion_RM[:, m]],
            None if tokens is None else tokens.dispersion_RM[:, m],
        )
        for m, point in enumerate(measures.dispersion(sample.point_E))
    )
    low_E, high_E = np.quantile(sample.replicates.shares_RE, [TAIL, 1.0 - TAIL], axis=0)
    return Load(
        used=used,
        zero=len(sample.exact_E) - used,
        top_expert=measures.top_expert(sample.exact_E),
        cv=cv,
        gini=gini,
        effective_experts=effective_experts,
        top_share=top_share,
        coverage=tuple(
            Coverage(share=share, expert_ids=measures.coverage(sample.exact_E, share))
            for share in COVERED
        ),
        shares=Shares(
            point_E=_rounded(sample.point_E), low_E=_rounded(low_E), high_E=_rounded(high_E)
        ),
    )


def _divergence(first: _Sample, second: _Sample) -> Estimate:
    jackknives = None
    if first.jackknife is not None and second.jackknife is not None:
        jackknives = [
            measures.jensen_shannon(first.jackknife.shares_RE, second.point_E),
            measures.jensen_shannon(first.point_E, second.jackknife.shares_RE),
        ]
    tokens_R = None
    if first.token_replicates is not None and second.token_replicates is not None:
        tokens_R = first.token_replicates.divergence(second.token_replicates)
    return _estimate(
        float(measures.jensen_shannon(first.point_E, second.point_E)),
        first.replicates.divergence(second.replicates),
        jackknives,
        tokens_R,
    )


def _estimate(
    point: float,
    replicates_R: FloatArray,
    jackknives: Sequence[FloatArray] | None,
    token_replicates_R: FloatArray | None,
) -> Estimate:
    accelerated = None if jackknives is None else bca_bounds(replicates_R, point, jackknives)
    return Estimate(
        point=rounded(point),
        percentile=_interval(percentile_bounds(replicates_R)),
        bias=rounded(bias(replicates_R, point)),
        bca=None if accelerated is None else _interval(accelerated),
        token_unit=(
            None if token_replicates_R is None else _interval(percentile_bounds(token_replicates_R))
        ),
    )


def _interval(bounds: Bounds) -> Interval:
    return Interval(low=rounded(bounds[0]), high=rounded(bounds[1]))


def _rounded(values_E: ArrayLike) -> tuple[float, ...]:
    return tuple(rounded(value) for value in np.asarray(values_E, dtype=np.float64).tolist())
