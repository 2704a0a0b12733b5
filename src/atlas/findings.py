"""Which figures of a corpus the front pages show first, by a fixed rule.

All are prompt-balanced points with their percentile interval over prompts. Of every kind
there is one; ties go to the lower layer, then to the domain that the file names first:

- concentrated: the layer and domain with the fewest effective experts;
- even: the layer and domain with the most;
- far: the layer and pair of domains with the largest Jensen-Shannon divergence;
- consistent: the domain that has the fewest effective experts in the most layers.

They describe extremes of one record: the largest of many figures is large partly by chance,
and nothing here is a test.
"""

from __future__ import annotations

from dataclasses import dataclass

from atlas.contract import RoutingCorpus
from atlas.contract.base import Estimate
from atlas.contract.corpus import CorpusLayer, DomainLoad


@dataclass(frozen=True)
class LoadFinding:
    """An extreme of effective experts."""

    layer: int
    domain: str
    estimate: Estimate


@dataclass(frozen=True)
class FarFinding:
    """The largest divergence of two domains in one layer."""

    layer: int
    first: str
    second: str
    estimate: Estimate


@dataclass(frozen=True)
class ConsistentFinding:
    """In how many layers `domain` has the fewest effective experts, and in how many of those
    its interval ends below the interval of every other domain."""

    domain: str
    layers: int
    apart: int
    of_layers: int


@dataclass(frozen=True)
class Findings:
    """What the front pages show of one corpus; the last two need two domains."""

    concentrated: LoadFinding
    even: LoadFinding
    far: FarFinding | None
    consistent: ConsistentFinding | None


def find(corpus: RoutingCorpus) -> Findings:
    """Findings of `corpus` by the rule of this module."""
    loads = [
        LoadFinding(layer.layer, d.domain, d.prompt_balanced.effective_experts)
        for layer in corpus.layers
        for d in layer.domains
    ]
    pairs = [
        FarFinding(layer.layer, d.first, d.second, d.prompt_balanced)
        for layer in corpus.layers
        for d in layer.divergences
    ]
    return Findings(
        concentrated=min(loads, key=lambda f: f.estimate.point),
        even=max(loads, key=lambda f: f.estimate.point),
        far=max(pairs, key=lambda f: f.estimate.point) if pairs else None,
        consistent=_consistent(corpus) if len(corpus.domains) > 1 else None,
    )


def _effective(domain: DomainLoad) -> float:
    return domain.prompt_balanced.effective_experts.point


def _lowest(layer: CorpusLayer) -> DomainLoad:
    return min(layer.domains, key=_effective)


def _stands_apart(layer: CorpusLayer, domain: DomainLoad) -> bool:
    high = domain.prompt_balanced.effective_experts.percentile.high
    return all(
        other.prompt_balanced.effective_experts.percentile.low > high
        for other in layer.domains
        if other.domain != domain.domain
    )


def _consistent(corpus: RoutingCorpus) -> ConsistentFinding:
    winners = [(layer, _lowest(layer)) for layer in corpus.layers]
    names = [d.domain for d in corpus.domains]
    won = {name: [w for w in winners if w[1].domain == name] for name in names}
    name = max(names, key=lambda n: len(won[n]))
    apart = sum(_stands_apart(layer, domain) for layer, domain in won[name])
    return ConsistentFinding(name, len(won[name]), apart, len(corpus.layers))
