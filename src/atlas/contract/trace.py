"""`llm-atlas/trace@1`: a few fixed prompts, every route, the MLA cache."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from atlas.contract.base import (
    CONTRACT_VERSION,
    Bilingual,
    Count,
    Evidence,
    ExpertId,
    LayerNumber,
    NonNegative,
    Positive,
    Sha256,
    Share,
    Slug,
    Strict,
)
from atlas.contract.identity import (
    Architecture,
    ArtifactFile,
    Environment,
    ModelIdentity,
    StopLine,
)


class TracePrompt(Strict):
    """One prompt. `token_ids_T` are its valid tokens, special tokens included."""

    prompt_id: Slug
    label: Bilingual
    text: str
    text_sha256: Sha256
    token_ids_T: tuple[Count, ...] = Field(min_length=1)
    pieces_T: tuple[str, ...] = Field(description="decoded text of each token [T]")

    @model_validator(mode="after")
    def _same_length(self) -> TracePrompt:
        if len(self.pieces_T) != len(self.token_ids_T):
            raise ValueError(f"{self.prompt_id}: one piece per token expected")
        return self


class Batch(Strict):
    """How prompts were laid out; part of the contract, since bf16 is not batch-invariant."""

    shape: tuple[Positive, Positive] = Field(description="[B, T]")
    padding: Literal["right"]
    pad_token_id: Count
    input_ids_sha256: Sha256


class CacheLedger(Strict):
    """Bytes of MLA state per token and layer: what has to be kept, and what was kept.

    eager: key [heads, nope + rope] and value [heads, v] as the code really returned them.
    latent: kv_lora_rank + rope elements (DeepSeek-V2, section 2.1, equations 9 to 19).
    """

    element_bytes: Positive
    eager_elements: Positive
    latent_elements: Positive
    eager_bytes: Positive
    latent_bytes: Positive
    ratio: float
    reduction: Share

    @model_validator(mode="after")
    def _arithmetic(self) -> CacheLedger:
        for kind in ("eager", "latent"):
            elements, size = getattr(self, f"{kind}_elements"), getattr(self, f"{kind}_bytes")
            if elements * self.element_bytes != size:
                raise ValueError(
                    f"{kind}_bytes: expected {elements * self.element_bytes}, found {size}"
                )
        return self


class MlaShapes(Strict):
    """What attention produced in one layer, as observed."""

    projection: tuple[Positive, Positive, Positive] = Field(
        description="[B, T, kv_lora_rank + rope], output of kv_a_proj_with_mqa"
    )
    key: tuple[Positive, Positive, Positive, Positive] = Field(
        description="[B, heads, T, nope + rope], in the returned cache"
    )
    value: tuple[Positive, Positive, Positive, Positive] = Field(
        description="[B, heads, T, v], in the returned cache"
    )
    cache_dtype: str


class LoadSummary(Strict):
    """Dispersion of one load vector within one layer."""

    selections: Count
    used: Count
    zero: Count
    cv: NonNegative
    gini: NonNegative
    effective_experts: NonNegative
    top_expert: ExpertId
    top_count: Count


def require_summary(summary: LoadSummary, counts_E: tuple[int, ...], where: str) -> None:
    """Raise ValueError unless the summary's whole numbers are those of the counts."""
    found = (summary.selections, summary.used, summary.zero, summary.top_expert, summary.top_count)
    used, top = sum(n > 0 for n in counts_E), max(counts_E)
    expected = (sum(counts_E), used, len(counts_E) - used, counts_E.index(top), top)
    if found != expected:
        raise ValueError(
            f"{where}: expected selections, used, zero, top expert and its count {expected}, "
            f"found {found}"
        )


class PromptLoad(Strict):
    """One prompt's load in one layer."""

    prompt_id: Slug
    counts_E: tuple[Count, ...]
    summary: LoadSummary


class PairJaccard(Strict):
    """Overlap of the sets of experts that two prompts used in one layer."""

    first: Slug
    second: Slug
    jaccard: Share


class PromptRoutes(Strict):
    """Every route of one prompt in one layer, sorted by weight, then expert id.

    `margin_T` is the score of the k-th expert minus that of the next one: a small margin is a
    near tie, which other hardware may decide otherwise.
    """

    prompt_id: Slug
    expert_ids_TK: tuple[tuple[ExpertId, ...], ...]
    weights_TK: tuple[tuple[Share, ...], ...]
    margin_T: tuple[NonNegative, ...]


class NearTies(Strict):
    """Share of valid tokens whose margin is at least `margin`."""

    margin: NonNegative
    share_at_or_above: Share


class MoeTrace(Strict):
    """Routing of one MoE layer over all valid tokens."""

    counts_E: tuple[Count, ...]
    summary: LoadSummary
    mean_topk_weight_sum: NonNegative
    smallest_margin: NonNegative
    near_ties: tuple[NearTies, ...]
    prompts: tuple[PromptLoad, ...]
    jaccard: tuple[PairJaccard, ...]
    routes: tuple[PromptRoutes, ...]


class LayerTrace(Strict):
    """One executed layer. `hidden_sha256` is of its output, [B, T, hidden] as in `hidden_hash`."""

    layer: LayerNumber
    kind: Literal["dense", "moe"]
    hidden_sha256: Sha256
    mla: MlaShapes
    moe: MoeTrace | None


class Timing(Strict):
    """Seconds of this run. Never compared and never published as performance."""

    layer_seconds: tuple[NonNegative, ...]
    total_seconds: NonNegative


class Trace(Strict):
    """The file. Hidden states are hashed as little-endian bytes of [B, T, hidden], padding too."""

    schema_: Literal["llm-atlas/trace@1"] = Field(alias="schema")
    contract: Literal["1"] = CONTRACT_VERSION
    evidence: Evidence
    model: ModelIdentity
    artifacts: tuple[ArtifactFile, ...]
    architecture: Architecture
    stop_line: StopLine
    environment: Environment
    captured_at: str | None
    prompts: tuple[TracePrompt, ...] = Field(min_length=1)
    batch: Batch
    initial_hidden_sha256: Sha256
    final_hidden_sha256: Sha256
    cache_ledger: CacheLedger
    layers: tuple[LayerTrace, ...]
    timing: Timing

    @property
    def valid_tokens(self) -> int:
        return sum(len(p.token_ids_T) for p in self.prompts)

    @property
    def moe_layers(self) -> tuple[LayerTrace, ...]:
        return tuple(layer for layer in self.layers if layer.moe is not None)

    @model_validator(mode="after")
    def _cross_fields(self) -> Trace:
        if tuple(x.layer for x in self.layers) != self.stop_line.executed_layers:
            raise ValueError("layers: expected those of stop_line.executed_layers, in order")
        if self.batch.shape[0] != len(self.prompts):
            raise ValueError(f"batch: expected {len(self.prompts)} rows, found {self.batch.shape}")
        moe = set(self.architecture.moe_layers)
        for layer in self.layers:
            if (layer.layer in moe) != (layer.moe is not None) or (
                (layer.kind == "moe") != (layer.moe is not None)
            ):
                raise ValueError(f"layer {layer.layer}: routing where the config says so, only")
            if layer.moe is not None:
                self._check_moe(layer.layer, layer.moe)
        return self

    def _check_moe(self, layer: int, moe: MoeTrace) -> None:
        experts, k = self.architecture.n_routed_experts, self.architecture.num_experts_per_tok
        lengths = {p.prompt_id: len(p.token_ids_T) for p in self.prompts}
        if [p.prompt_id for p in moe.prompts] != list(lengths) or [
            r.prompt_id for r in moe.routes
        ] != list(lengths):
            raise ValueError(f"layer {layer}: expected the prompts in order")
        total = [0] * experts
        for prompt, routes in zip(moe.prompts, moe.routes, strict=True):
            where, tokens = f"layer {layer}, {prompt.prompt_id}", lengths[prompt.prompt_id]
            if len(prompt.counts_E) != experts:
                raise ValueError(
                    f"{where}: expected {experts} counts, found {len(prompt.counts_E)}"
                )
            if (
                not len(routes.expert_ids_TK)
                == len(routes.weights_TK)
                == len(routes.margin_T)
                == tokens
            ):
                raise ValueError(f"{where}: expected {tokens} routes")
            recount = [0] * experts
            for ids, weights in zip(routes.expert_ids_TK, routes.weights_TK, strict=True):
                if len(ids) != k or len(weights) != k or len(set(ids)) != k or max(ids) >= experts:
                    raise ValueError(f"{where}: expected {k} different experts below {experts}")
                if list(zip(weights, ids, strict=True)) != sorted(
                    zip(weights, ids, strict=True), key=lambda pair: (-pair[0], pair[1])
                ):
                    raise ValueError(f"{where}: expected routes sorted by weight, then id")
                for expert in ids:
                    recount[expert] += 1
            if tuple(recount) != prompt.counts_E or sum(recount) != tokens * k:
                raise ValueError(f"{where}: expected counts that its routes add up to")
            require_summary(prompt.summary, prompt.counts_E, where)
            total = [a + b for a, b in zip(total, recount, strict=True)]
        if tuple(total) != moe.counts_E:
            raise ValueError(f"layer {layer}: expected counts that its prompts add up to")
        require_summary(moe.summary, moe.counts_E, f"layer {layer}")
