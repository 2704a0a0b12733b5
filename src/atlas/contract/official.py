"""`llm-atlas/official@1`: what a model's config, index and tokenizer settle without weights.

Parameters are counted from the tensor shapes that the config implies and the index names; bytes
are those of bfloat16 tensors, without file headers. Parts that need a file which was not given
are null.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from atlas.contract.base import (
    CONTRACT_VERSION,
    Bilingual,
    Count,
    Evidence,
    LayerNumber,
    Positive,
    Slug,
    Strict,
)
from atlas.contract.corpus import Domain, Selection
from atlas.contract.identity import Architecture, ArtifactFile, ModelIdentity, StopLine
from atlas.contract.selection import SelectedPrompt
from atlas.contract.trace import CacheLedger, TracePrompt


class ShardPart(Strict):
    """Tensors of something that lie in one shard."""

    shard: str
    tensors: Positive
    bytes: Positive


class LayerParts(Strict):
    """One decoder layer: its parameters, and where its tensors lie."""

    layer: LayerNumber
    kind: Literal["dense", "moe"]
    parameters: Positive
    active_parameters: Positive
    parts: tuple[ShardPart, ...] = Field(min_length=1)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)


class SubsetStop(Strict):
    """How far the layers run with exactly these shards; `stop_line` is null where none can."""

    shards: tuple[str, ...]
    stop_line: StopLine | None


class ParameterPart(Strict):
    """One part of the model; `active` are the parameters that one token uses."""

    part: Literal[
        "embedding",
        "head",
        "norms",
        "attention",
        "dense feed-forward",
        "gates",
        "shared experts",
        "routed experts",
    ]
    total: Count
    active: Count

    @model_validator(mode="after")
    def _part_of(self) -> ParameterPart:
        if self.active > self.total:
            raise ValueError(f"{self.part}: expected at most {self.total} active parameters")
        return self


class Parameters(Strict):
    """Counts from shapes. `rule` says what counts as active. The embedding is a look-up of one
    row and the head a product with all of its matrix, and authors differ in whether they count
    either: so all three sums are given."""

    parts: tuple[ParameterPart, ...]
    total: Positive
    total_without_embedding_and_head: Positive
    active: Positive
    active_without_embedding: Positive
    active_without_embedding_and_head: Positive
    rule: Bilingual
    published: tuple[PublishedCount, ...]

    @model_validator(mode="after")
    def _sums(self) -> Parameters:
        by = {part.part: part for part in self.parts}
        total, active = sum(p.total for p in self.parts), sum(p.active for p in self.parts)
        edge = [by[name] for name in ("embedding", "head")]
        expected = (
            total,
            total - sum(p.total for p in edge),
            active,
            active - by["embedding"].active,
            active - sum(p.active for p in edge),
        )
        found = (
            self.total,
            self.total_without_embedding_and_head,
            self.active,
            self.active_without_embedding,
            self.active_without_embedding_and_head,
        )
        if found != expected:
            raise ValueError(f"parameters: expected sums of the parts {expected}, found {found}")
        return self


class PublishedCount(Strict):
    """A parameter count that the publisher states, as the published file holds it; never
    computed here."""

    quantity: Literal["parameters_total", "parameters_active"]
    printed: str
    figure_id: str


class MlaLedger(Strict):
    """The cache per token and layer, from shapes, and per token in all layers.

    key [heads, nope + rope], value [heads, v], latent [kv_lora_rank + rope]. What an
    implementation really keeps is for a trace to observe.
    """

    key: tuple[Positive, Positive]
    value: tuple[Positive, Positive]
    latent: tuple[Positive]
    layer: CacheLedger
    layers: Positive
    eager_bytes_all_layers: Positive
    latent_bytes_all_layers: Positive

    @model_validator(mode="after")
    def _arithmetic(self) -> MlaLedger:
        eager = self.key[0] * self.key[1] + self.value[0] * self.value[1]
        found = (self.layer.eager_elements, self.layer.latent_elements)
        if found != (eager, self.latent[0]):
            raise ValueError(f"mla: expected elements {(eager, self.latent[0])}, found {found}")
        bytes_ = (self.layer.eager_bytes * self.layers, self.layer.latent_bytes * self.layers)
        if (self.eager_bytes_all_layers, self.latent_bytes_all_layers) != bytes_:
            raise ValueError(f"mla: expected bytes of {self.layers} layers {bytes_}")
        return self


class TracePrompts(Strict):
    """The trace's fixed prompts as the tokenizer cuts them; `shape` is [B, T]."""

    prompts: tuple[TracePrompt, ...] = Field(min_length=1)
    tokens: Positive
    shape: tuple[Positive, Positive]

    @model_validator(mode="after")
    def _adds_up(self) -> TracePrompts:
        lengths = [len(prompt.token_ids_T) for prompt in self.prompts]
        if self.tokens != sum(lengths) or self.shape != (len(lengths), max(lengths)):
            raise ValueError(f"trace prompts: expected tokens and shape of lengths {lengths}")
        return self


class CorpusTokens(Strict):
    """The selection of the corpora at hand; domains whose pinned file was not are missing."""

    selection: Selection
    domains: tuple[Domain, ...] = Field(min_length=1)
    prompts: tuple[SelectedPrompt, ...] = Field(min_length=1)
    characters_per_token: tuple[CharactersPerToken, ...]

    @model_validator(mode="after")
    def _adds_up(self) -> CorpusTokens:
        for domain in self.domains:
            own = [p.tokens for p in self.prompts if p.domain == domain.domain]
            if (len(own), sum(own)) != (domain.prompts, domain.tokens):
                raise ValueError(f"domain {domain.domain}: expected its prompts to add up")
        return self


class CharactersPerToken(Strict):
    """Code points over tokens of every candidate of a domain, whole texts, without the
    begin-of-sentence token."""

    domain: Slug
    texts: Positive
    characters: Positive
    tokens: Positive
    ratio: float


class Official(Strict):
    """The file."""

    schema_: Literal["llm-atlas/official@1"] = Field(alias="schema")
    contract: Literal["1"] = CONTRACT_VERSION
    evidence: Evidence
    model: ModelIdentity
    artifacts: tuple[ArtifactFile, ...]
    architecture: Architecture
    tensors: Positive = Field(description="names in the index")
    tensor_bytes: Positive
    shards: tuple[ShardPart, ...] = Field(min_length=1)
    outside_layers: tuple[ShardPart, ...] = Field(
        description="embedding, final norm and head: one entry per shard that holds any of them"
    )
    layers: tuple[LayerParts, ...] = Field(min_length=1)
    stop_lines: tuple[SubsetStop, ...]
    parameters: Parameters
    mla: MlaLedger
    trace_prompts: TracePrompts | None
    corpora: CorpusTokens | None

    @model_validator(mode="after")
    def _whole(self) -> Official:
        if self.evidence not in ("official", "demo"):
            raise ValueError(f"evidence: expected official or demo, found {self.evidence}")
        if [x.layer for x in self.layers] != list(range(self.architecture.num_hidden_layers)):
            raise ValueError("layers: expected every layer of the architecture, in order")
        parts = [part for layer in self.layers for part in layer.parts] + [*self.outside_layers]
        for shard in self.shards:
            own = [part for part in parts if part.shard == shard.shard]
            found = (sum(p.tensors for p in own), sum(p.bytes for p in own))
            if found != (shard.tensors, shard.bytes):
                raise ValueError(f"{shard.shard}: expected tensors and bytes {found}")
        totals = (sum(s.tensors for s in self.shards), sum(s.bytes for s in self.shards))
        if totals != (self.tensors, self.tensor_bytes):
            raise ValueError(f"tensors: expected {totals}, found {self.tensors} in the index")
        if len(self.stop_lines) != 2 ** len(self.shards):
            raise ValueError(f"stop_lines: expected {2 ** len(self.shards)} subsets of shards")
        return self


Parameters.model_rebuild()
CorpusTokens.model_rebuild()
