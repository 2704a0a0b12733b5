"""`llm-atlas/routing-corpus@1`: expert loads of text domains, two weightings, intervals.

One kind for a captured corpus, the embedded checkpoint's probes, and an imported record:
what a record does not know is null, never guessed.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from atlas.contract.base import (
    CONTRACT_VERSION,
    SHARE_TOLERANCE,
    Bilingual,
    Count,
    Estimate,
    Evidence,
    ExpertId,
    LayerNumber,
    NonNegative,
    Positive,
    Sha256,
    Share,
    Slug,
    Strict,
    require_shares,
)
from atlas.contract.identity import (
    Architecture,
    ArtifactFile,
    Environment,
    ModelIdentity,
    Routing,
    StopLine,
)

Weighting = Literal["token_weighted", "prompt_balanced"]


class Source(Strict):
    """Where a domain's text comes from, and which of its fields was read."""

    name: str
    url: str
    revision: str
    licence: str
    field: str
    source_id: str = Field(description="how a source_id of this source is spelled")
    files: tuple[ArtifactFile, ...]


class DomainSelection(Strict):
    """Candidates after text filtering, those long enough, those picked, and their tokens."""

    minimum_tokens: Count
    candidates: Count
    long_enough: Count
    picked: Count
    tokens: Count


class Domain(Strict):
    """One text domain. `selection` is null where someone else selected the text."""

    domain: Slug
    title: Bilingual
    prompts: Positive
    tokens: Positive
    source: Source | None
    selection: DomainSelection | None


class Prompt(Strict):
    """One prompt; its place in `prompts` is its row (P) in every count matrix.

    `text_sha256` is null where the record does not hold the text; `route_sha256` is over the
    prompt's expert ids as little-endian uint16 [layer, token, k], sorted by weight, then id.
    """

    prompt_id: str
    domain: Slug
    tokens: Positive
    source_id: str | None
    rank: Count | None = Field(description="selection rank within the domain, from 0")
    batch: Count | None
    characters: Count | None
    text_sha256: Sha256 | None
    route_sha256: Sha256


class Selection(Strict):
    """How prompts were picked and batched; see DomainSelection for the counts."""

    salt: str
    order: str
    per_domain: Positive
    maximum_tokens: Positive
    special_tokens: bool
    truncation: Literal["right"]
    batch_size: Positive
    batch_order: str
    padding: Literal["right"]


class Statistics(Strict):
    """How intervals were made."""

    replicates: Positive
    seed: Count
    unit: Literal["prompt"]
    stratified_by: Literal["domain"]
    interval: Literal["percentile 2.5 to 97.5"]
    weightings: tuple[Weighting, ...]
    decimals: Count = Field(description="statistics are rounded to this many decimals")


class Coverage(Strict):
    """The smallest set of experts that holds at least `share` of the load; ties by id."""

    share: Share
    expert_ids: tuple[ExpertId, ...]


class Shares(Strict):
    """Share of selections per routed expert [E], with 95 % percentile bounds over prompts."""

    point_E: tuple[Share, ...]
    low_E: tuple[Share, ...]
    high_E: tuple[Share, ...]


class Load(Strict):
    """Load of one layer and domain under one weighting."""

    used: Count
    zero: Count
    top_expert: ExpertId
    cv: Estimate
    gini: Estimate
    effective_experts: Estimate
    top_share: Estimate
    coverage: tuple[Coverage, ...]
    shares: Shares


class DomainLoad(Strict):
    """One domain in one layer. `gate_mass_E` is the mean gate weight per token and expert
    (not a load: it does not sum to 1), null where weights were not recorded."""

    domain: Slug
    token_weighted: Load
    prompt_balanced: Load
    gate_mass_E: tuple[NonNegative, ...] | None


class Divergence(Strict):
    """Jensen-Shannon divergence of two domains in the same layer, in nats, 0 to ln 2."""

    first: Slug
    second: Slug
    token_weighted: Estimate
    prompt_balanced: Estimate


class CorpusLayer(Strict):
    """One MoE layer: counts [P, E] of every prompt, loads of every domain, divergences."""

    layer: LayerNumber
    counts_PE: tuple[tuple[Count, ...], ...]
    domains: tuple[DomainLoad, ...]
    divergences: tuple[Divergence, ...]


class PublisherCheck(Strict):
    """Figures of the publisher that were recomputed here: how many there are, how many agree."""

    name: str
    rule: str
    total: Count
    agreeing: Count


class ImportedRecord(Strict):
    """A routing record that someone else made and published."""

    publisher: str
    repository: str
    commit: str
    paper: str
    licence: str
    files: tuple[ArtifactFile, ...]
    not_recorded: tuple[Bilingual, ...]
    checks: tuple[PublisherCheck, ...]


class Docs(Strict):
    """What the figures of this file answer, and what they do not."""

    answers: tuple[Bilingual, ...]
    does_not_answer: tuple[Bilingual, ...]


class RoutingCorpus(Strict):
    """The file."""

    schema_: Literal["llm-atlas/routing-corpus@1"] = Field(alias="schema")
    contract: Literal["1"] = CONTRACT_VERSION
    evidence: Evidence
    model: ModelIdentity
    artifacts: tuple[ArtifactFile, ...]
    routing: Routing
    architecture: Architecture | None
    stop_line: StopLine | None
    environment: Environment | None
    record: ImportedRecord | None
    captured_at: str | None
    selection: Selection | None
    statistics: Statistics
    docs: Docs
    domains: tuple[Domain, ...] = Field(min_length=1)
    prompts: tuple[Prompt, ...] = Field(min_length=1)
    layers: tuple[CorpusLayer, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _origin(self) -> RoutingCorpus:
        ran_here = self.evidence in ("captured", "demo")
        for name in ("architecture", "stop_line", "environment", "selection"):
            if ran_here and getattr(self, name) is None:
                raise ValueError(f"{name}: expected with evidence {self.evidence}, found null")
        if (self.evidence == "imported") != (self.record is not None):
            raise ValueError("record: expected with evidence imported, and only then")
        return self

    @model_validator(mode="after")
    def _prompts_and_domains(self) -> RoutingCorpus:
        names = [d.domain for d in self.domains]
        if len(set(names)) != len(names):
            raise ValueError(f"domains: expected different names, found {names}")
        ids = [p.prompt_id for p in self.prompts]
        if len(set(ids)) != len(ids):
            raise ValueError("prompts: expected different prompt ids")
        for domain in self.domains:
            own = [p for p in self.prompts if p.domain == domain.domain]
            found = (len(own), sum(p.tokens for p in own))
            if found != (domain.prompts, domain.tokens):
                raise ValueError(
                    f"domain {domain.domain}: expected {domain.prompts} prompts and "
                    f"{domain.tokens} tokens, found {found[0]} and {found[1]}"
                )
        strangers = {p.domain for p in self.prompts} - set(names)
        if strangers:
            raise ValueError(f"prompts: expected domains {names}, found {sorted(strangers)}")
        return self

    @model_validator(mode="after")
    def _layers(self) -> RoutingCorpus:
        numbers = [x.layer for x in self.layers]
        if numbers != sorted(set(numbers)) or not set(numbers) <= set(self.routing.moe_layers):
            raise ValueError(f"layers: expected ascending MoE layer numbers, found {numbers}")
        if self.stop_line is not None:
            ran = [x for x in self.stop_line.executed_layers if x in self.routing.moe_layers]
            if numbers != ran:
                raise ValueError(f"layers: expected the executed MoE layers {ran}, found {numbers}")
        for layer in self.layers:
            self._check_counts(layer)
            self._check_statistics(layer)
        return self

    def _check_counts(self, layer: CorpusLayer) -> None:
        experts, k = self.routing.n_routed_experts, self.routing.num_experts_per_tok
        if len(layer.counts_PE) != len(self.prompts):
            raise ValueError(f"layer {layer.layer}: expected one row of counts per prompt")
        for prompt, row in zip(self.prompts, layer.counts_PE, strict=True):
            where = f"layer {layer.layer}, {prompt.prompt_id}"
            if len(row) != experts:
                raise ValueError(f"{where}: expected {experts} counts, found {len(row)}")
            if sum(row) != prompt.tokens * k:
                raise ValueError(
                    f"{where}: expected {prompt.tokens * k} selections, found {sum(row)}"
                )
            if max(row) > prompt.tokens:
                raise ValueError(f"{where}: expected at most one selection per token and expert")

    def _check_statistics(self, layer: CorpusLayer) -> None:
        experts, names = self.routing.n_routed_experts, [d.domain for d in self.domains]
        where = f"layer {layer.layer}"
        if [d.domain for d in layer.domains] != names:
            raise ValueError(f"{where}: expected the domains {names} in order")
        for domain in layer.domains:
            for load in (domain.token_weighted, domain.prompt_balanced):
                shares = load.shares
                if not len(shares.point_E) == len(shares.low_E) == len(shares.high_E) == experts:
                    raise ValueError(f"{where}, {domain.domain}: expected {experts} shares")
                require_shares(shares.point_E, f"{where}, {domain.domain}")
                if load.top_expert >= experts or load.used + load.zero != experts:
                    raise ValueError(f"{where}, {domain.domain}: used + zero must be {experts}")
            self._check_against_counts(layer, domain, f"{where}, {domain.domain}")
            mass = domain.gate_mass_E
            if mass is not None and len(mass) != experts:
                raise ValueError(f"{where}, {domain.domain}: expected {experts} gate masses")
        pairs = [(names[i], b) for i in range(len(names)) for b in names[i + 1 :]]
        if [(d.first, d.second) for d in layer.divergences] != pairs:
            raise ValueError(f"{where}: expected one divergence per pair of domains, in order")

    def _check_against_counts(self, layer: CorpusLayer, domain: DomainLoad, where: str) -> None:
        """What the counts settle is what is stored: used experts, token-weighted shares."""
        rows = [
            row
            for prompt, row in zip(self.prompts, layer.counts_PE, strict=True)
            if prompt.domain == domain.domain
        ]
        totals = [sum(column) for column in zip(*rows, strict=True)]
        used, selections = sum(n > 0 for n in totals), sum(totals)
        for load in (domain.token_weighted, domain.prompt_balanced):
            if load.used != used:
                raise ValueError(f"{where}: expected {used} used experts, found {load.used}")
        if domain.token_weighted.top_expert != totals.index(max(totals)):
            raise ValueError(
                f"{where}: expected top expert {totals.index(max(totals))}, "
                f"found {domain.token_weighted.top_expert}"
            )
        for expert, share in enumerate(domain.token_weighted.shares.point_E):
            if abs(share - totals[expert] / selections) > SHARE_TOLERANCE:
                raise ValueError(
                    f"{where}: expected share {totals[expert]}/{selections} of expert {expert}, "
                    f"found {share}"
                )
