"""Quantities that a routing corpus records: selection, statistics, loads and divergences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from atlas.contract.base import Estimate
from atlas.contract.corpus import (
    CorpusLayer,
    Divergence,
    Domain,
    DomainLoad,
    DomainSelection,
    Load,
    RoutingCorpus,
    Selection,
    Source,
)
from atlas.contract.published import PublishedFigure
from capture.regenerated.base import (
    NO_DOMAIN,
    NO_FIELD,
    NO_LAYER,
    NOT_HASHED,
    Found,
    Value,
    need,
    the_one,
)

Read = Callable[[RoutingCorpus, PublishedFigure], Value | Found]


def layer_of(file: RoutingCorpus, figure: PublishedFigure) -> CorpusLayer:
    own = {layer.layer: layer for layer in file.layers}
    return need(own.get(need(figure.layer, NO_LAYER)), NO_LAYER)


def load_of(file: RoutingCorpus, figure: PublishedFigure) -> Load:
    """The load at the figure's layer, domain and weighting. Raises Missing."""
    own = {domain.domain: domain for domain in layer_of(file, figure).domains}
    return _weighted(need(own.get(figure.domain or ""), NO_DOMAIN), figure)


def domain_named(domains: tuple[Domain, ...], figure: PublishedFigure) -> Domain:
    return need({d.domain: d for d in domains}.get(figure.domain or ""), NO_DOMAIN)


def _weighted(domain: DomainLoad, figure: PublishedFigure) -> Load:
    if figure.weighting == "token_weighted":
        return domain.token_weighted
    return domain.prompt_balanced


def found(estimate: Estimate, scale: float = 1.0) -> Found:
    """Point and percentile interval of an estimate, both times `scale`."""
    ends = estimate.percentile
    return Found(estimate.point * scale, (ends.low * scale, ends.high * scale))


def _largest(layer: CorpusLayer, figure: PublishedFigure) -> tuple[Estimate, Divergence]:
    """The largest divergence of a layer; of equal ones the first pair."""
    token = figure.weighting == "token_weighted"
    pairs = [(d.token_weighted if token else d.prompt_balanced, d) for d in layer.divergences]
    return need(max(pairs, key=lambda pair: pair[0].point) if pairs else None, NO_DOMAIN)


def _jsd_pair(file: RoutingCorpus, figure: PublishedFigure) -> Value:
    pair = _largest(layer_of(file, figure), figure)[1]
    return (pair.first, pair.second)


def _jsd_fraction(file: RoutingCorpus, figure: PublishedFigure) -> Value:
    largest = max(_largest(layer, figure)[0].point for layer in file.layers)
    return 100.0 * largest / math.log(2.0)


def _differences(file: RoutingCorpus) -> Iterator[tuple[float, str]]:
    for layer in file.layers:
        for domain in layer.domains:
            difference = domain.token_weighted.cv.point - domain.prompt_balanced.cv.point
            yield abs(difference), f"layer-{layer.layer}.{domain.domain}"


def _over_domains(name: str, choose: Callable[[list[float]], float]) -> Read:
    def read(file: RoutingCorpus, figure: PublishedFigure) -> Value:
        loads = [_weighted(domain, figure) for domain in layer_of(file, figure).domains]
        return choose([getattr(load, name).point for load in loads])

    return read


def _selections(file: RoutingCorpus, figure: PublishedFigure) -> Value:
    return the_one({sum(map(sum, layer.counts_PE)) for layer in file.layers})


def of_source(read: Callable[[Source], Value]) -> Callable[[Domain], Value]:
    return lambda domain: read(need(domain.source, NO_FIELD))


def of_selection(name: str) -> Callable[[Domain], Value]:
    def read(domain: Domain) -> Value:
        selection: DomainSelection = need(domain.selection, NO_FIELD)
        value: int = getattr(selection, name)
        return value

    return read


def _hash(archive: bool) -> Callable[[Source], Value]:
    def read(source: Source) -> Value:
        own = [f for f in source.files if f.name.endswith(".zip") == archive]
        return need(own[0].sha256 if own else None, NOT_HASHED)

    return read


DOMAIN: dict[str, Callable[[Domain], Value]] = {
    "source_field": of_source(lambda source: source.field),
    "source_revision": of_source(lambda source: source.revision.split(" ")[0]),
    "source_sha256": of_source(_hash(False)),
    "source_archive_sha256": of_source(_hash(True)),
    "minimum_tokens": of_selection("minimum_tokens"),
    "candidates": of_selection("candidates"),
    "long_enough": of_selection("long_enough"),
    "picked": of_selection("picked"),
    "domain_tokens": lambda domain: domain.tokens,
}
"""Quantities of one domain."""

SELECTION: dict[str, Callable[[Selection], Value]] = {
    "salt": lambda selection: selection.salt,
    "per_domain": lambda selection: selection.per_domain,
    "maximum_tokens": lambda selection: selection.maximum_tokens,
    "batch_size": lambda selection: selection.batch_size,
}
"""Quantities of the selection's rules."""


def _of_domain(read: Callable[[Domain], Value]) -> Read:
    return lambda file, figure: read(domain_named(file.domains, figure))


def _of_rules(read: Callable[[Selection], Value]) -> Read:
    return lambda file, figure: read(need(file.selection, NO_FIELD))


READ: dict[str, Read] = {
    "domain_count": lambda file, figure: len(file.domains),
    "prompt_count": lambda file, figure: len(file.prompts),
    "token_count": lambda file, figure: sum(domain.tokens for domain in file.domains),
    "selections": _selections,
    "selections_total": lambda file, figure: sum(
        sum(map(sum, layer.counts_PE)) for layer in file.layers
    ),
    **{name: _of_domain(read) for name, read in DOMAIN.items()},
    **{name: _of_rules(read) for name, read in SELECTION.items()},
    "replicates": lambda file, figure: file.statistics.replicates,
    "seed": lambda file, figure: file.statistics.seed,
    "interval_ends": lambda file, figure: file.statistics.interval.removeprefix("percentile "),
    # the contract knows no other interval
    "interval_level": lambda file, figure: 95,
    "cv": lambda file, figure: found(load_of(file, figure).cv),
    "effective_experts": lambda file, figure: found(load_of(file, figure).effective_experts),
    "top_expert": lambda file, figure: load_of(file, figure).top_expert,
    "top_share": lambda file, figure: found(load_of(file, figure).top_share, 100.0),
    "jsd": lambda file, figure: found(_largest(layer_of(file, figure), figure)[0]),
    "jsd_pair": _jsd_pair,
    "largest_jsd_fraction": _jsd_fraction,
    "largest_cv_difference": lambda file, figure: max(_differences(file))[0],
    "largest_cv_difference_place": lambda file, figure: max(_differences(file))[1],
    "cv_of_domains_lowest": _over_domains("cv", min),
    "cv_of_domains_highest": _over_domains("cv", max),
    "effective_of_domains_lowest": _over_domains("effective_experts", min),
    "effective_of_domains_highest": _over_domains("effective_experts", max),
}


def corpus(file: RoutingCorpus, figure: PublishedFigure) -> Found:
    """The figure's value. Raises Missing; the quantity must be one of READ."""
    value = READ[figure.quantity](file, figure)
    return value if isinstance(value, Found) else Found(value)
