"""Chart data out of a corpus: the only way from a dataset to a `LayerLoadChart`."""

from __future__ import annotations

from atlas.charts.load import LayerLoadChart
from atlas.contract.base import Estimate
from atlas.contract.corpus import CorpusLayer, Divergence, DomainLoad, Load, Weighting
from atlas.contract.trace import LayerTrace

WEIGHTINGS: tuple[Weighting, ...] = ("prompt_balanced", "token_weighted")
"""Prompt-balanced first: it is what pages show unless a reader chooses otherwise."""


def load_of(domain: DomainLoad, weighting: Weighting) -> Load:
    """The load of a domain under one weighting."""
    return domain.prompt_balanced if weighting == "prompt_balanced" else domain.token_weighted


def divergence_of(pair: Divergence, weighting: Weighting) -> Estimate:
    """The divergence of a pair under one weighting."""
    return pair.prompt_balanced if weighting == "prompt_balanced" else pair.token_weighted


def domain_of(layer: CorpusLayer, name: str) -> DomainLoad:
    """The domain `name` of a layer. Raises StopIteration for a stranger."""
    return next(d for d in layer.domains if d.domain == name)


def chart_of(layer: CorpusLayer, domain: str, weighting: Weighting) -> LayerLoadChart:
    """Chart of one layer and domain."""
    shares = load_of(domain_of(layer, domain), weighting).shares
    return LayerLoadChart(
        layer=layer.layer,
        domain=domain,
        weighting=weighting,
        shares_E=shares.point_E,
        low_E=shares.low_E,
        high_E=shares.high_E,
    )


def trace_chart(layer: LayerTrace) -> LayerLoadChart:
    """Chart of one MoE layer of a trace: token-weighted, without intervals. Raises ValueError
    for a dense layer."""
    if layer.moe is None:
        raise ValueError(f"layer {layer.layer}: expected a MoE layer, found a dense one")
    total = sum(layer.moe.counts_E)
    return LayerLoadChart(
        layer=layer.layer,
        domain=None,
        weighting="token_weighted",
        shares_E=tuple(count / total for count in layer.moe.counts_E),
        low_E=None,
        high_E=None,
    )
