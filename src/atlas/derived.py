"""Figures that follow from a dataset and are no field of it: sums, ranges, counts of intervals.

Their names are those of the printed figures, so that one path of a note finds the printed and
the captured one; see `atlas.fields`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atlas.contract import RoutingCorpus, Trace
from atlas.contract.base import Estimate
from atlas.contract.corpus import CorpusLayer, Domain
from atlas.contract.trace import LoadSummary
from atlas.findings import find

MEASURES_OF_LOAD = ("cv", "gini", "effective_experts", "top_share")


@dataclass(frozen=True)
class TokenUnit:
    """How many intervals with the token as the unit are narrower or wider than the percentile
    interval over prompts: token-weighted, every layer, the four measures of a load."""

    narrower: int
    wider: int
    of: int


@dataclass(frozen=True)
class Expert:
    """An expert of one layer."""

    layer: int
    expert: int


@dataclass(frozen=True)
class Gap:
    """Largest difference that the weighting makes to a CV, over layers and domains."""

    largest_cv_difference: float
    layer: int
    domain: str


@dataclass(frozen=True)
class Range:
    """The lowest and highest point of one measure over the domains of a layer."""

    lowest: Estimate
    highest: Estimate
    measure: str


@dataclass(frozen=True)
class Weighted:
    """A layer under one weighting."""

    layer: CorpusLayer
    weighting: str


@dataclass(frozen=True)
class Counted:
    """Selections of one expert."""

    count: int


@dataclass(frozen=True)
class PromptTokens:
    """A prompt of a trace: how many valid tokens it has."""

    tokens: int


@dataclass(frozen=True)
class TraceRange:
    """The layers of a trace, for the lowest and highest of a measure."""

    summaries: tuple[LoadSummary, ...]


@dataclass(frozen=True)
class DomainOf:
    """A domain together with the corpus that holds its loads."""

    corpus: RoutingCorpus
    domain: Domain

    @property
    def token_unit(self) -> TokenUnit:
        return _token_unit(self.corpus, [self.domain.domain])

    @property
    def tokens(self) -> int:
        return self.domain.tokens

    @property
    def prompts(self) -> int:
        return self.domain.prompts


def of_corpus(corpus: RoutingCorpus, name: str) -> Any:
    """What a corpus answers to `name` beside its own fields; None if nothing."""
    if name == "found":
        return find(corpus)
    if name in ("prompts", "tokens"):
        return sum(getattr(d, name) for d in corpus.domains)
    if name == "selections":
        return sum(sum(map(sum, layer.counts_PE)) for layer in corpus.layers)
    if name == "selections_per_layer":
        return sum(map(sum, corpus.layers[0].counts_PE))
    if name == "token_unit":
        return _token_unit(corpus, [d.domain for d in corpus.domains])
    if name == "weighting":
        return max(
            (
                Gap(abs(d.token_weighted.cv.point - d.prompt_balanced.cv.point), x.layer, d.domain)
                for x in corpus.layers
                for d in x.domains
            ),
            key=lambda gap: gap.largest_cv_difference,
        )
    known = {d.domain: d for d in corpus.domains}
    return DomainOf(corpus, known[name]) if name in known else None


def _token_unit(corpus: RoutingCorpus, domains: Sequence[str]) -> TokenUnit:
    narrower = wider = of = 0
    for layer in corpus.layers:
        for load in layer.domains:
            for name in MEASURES_OF_LOAD if load.domain in domains else ():
                estimate: Estimate = getattr(load.token_weighted, name)
                if estimate.token_unit is None:
                    continue
                width = estimate.percentile.high - estimate.percentile.low
                token = estimate.token_unit.high - estimate.token_unit.low
                narrower, wider, of = narrower + (token < width), wider + (token > width), of + 1
    return TokenUnit(narrower, wider, of)


def of_trace(trace: Trace, name: str) -> Any:
    """What a trace answers to `name` beside its own fields; None if nothing."""
    if name == "tokens":
        return trace.valid_tokens
    summaries = [x.moe.summary for x in trace.layers if x.moe is not None]
    if name == "prompts":
        return len(trace.prompts)
    if name == "selections":
        return sum(summary.selections for summary in summaries)
    if name == "selections_per_layer":
        return summaries[0].selections
    if name == "range":
        return TraceRange(tuple(summaries))
    known = {p.prompt_id: PromptTokens(len(p.token_ids_T)) for p in trace.prompts}
    ways = {"config": trace.architecture, "mla": trace.cache_ledger, **known}
    return ways.get(name)
