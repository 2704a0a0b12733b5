"""What a dataset was made from: model, artifact files, architecture, stop line, environment."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from atlas.contract.base import Count, ExpertId, LayerNumber, Positive, Sha256, Slug, Strict


class ModelIdentity(Strict):
    """Which model; `repository` and `revision` locate it at its publisher."""

    slug: Slug
    title: str
    repository: str
    revision: str
    licence: str


class ArtifactFile(Strict):
    """One file that the run read, by its name inside the artifact folder.

    `pinned` says whether bytes and hash were compared with a pin and found equal; a hash that
    the user skipped is null.
    """

    name: str
    role: Literal[
        "config", "configuration", "modeling", "tokenizer", "index", "shard", "corpus", "record"
    ]
    bytes: Count
    sha256: Sha256 | None
    pinned: bool


class Architecture(Strict):
    """Fields of the model's config.json that the experiments depend on, under their own names."""

    vocab_size: Positive
    hidden_size: Positive
    num_hidden_layers: Positive
    intermediate_size: Positive
    moe_intermediate_size: Positive
    n_routed_experts: Positive
    n_shared_experts: Count
    num_experts_per_tok: Positive
    first_k_dense_replace: Count
    moe_layer_freq: Positive
    norm_topk_prob: bool
    scoring_func: str
    topk_method: str
    routed_scaling_factor: float
    num_attention_heads: Positive
    q_lora_rank: Positive | None
    kv_lora_rank: Positive
    qk_nope_head_dim: Positive
    qk_rope_head_dim: Positive
    v_head_dim: Positive
    max_position_embeddings: Positive
    rope_theta: float
    rope_scaling: dict[str, Any] | None
    torch_dtype: str

    @model_validator(mode="after")
    def _top_k_fits(self) -> Architecture:
        if self.num_experts_per_tok > self.n_routed_experts:
            raise ValueError(
                f"num_experts_per_tok: expected at most n_routed_experts "
                f"({self.n_routed_experts}), found {self.num_experts_per_tok}"
            )
        return self

    @property
    def moe_layers(self) -> tuple[int, ...]:
        """Layers with a router, in the model's own numbering (layer 0 is dense in V2-Lite)."""
        return tuple(
            layer
            for layer in range(self.num_hidden_layers)
            if layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0
        )

    @property
    def routing(self) -> Routing:
        return Routing(
            moe_layers=self.moe_layers,
            n_routed_experts=self.n_routed_experts,
            num_experts_per_tok=self.num_experts_per_tok,
        )


class Routing(Strict):
    """The part of an architecture that a routing record needs."""

    moe_layers: tuple[LayerNumber, ...] = Field(min_length=1)
    n_routed_experts: Positive
    num_experts_per_tok: Positive

    @model_validator(mode="after")
    def _consistent(self) -> Routing:
        if list(self.moe_layers) != sorted(set(self.moe_layers)):
            raise ValueError(f"moe_layers: expected ascending numbers, found {self.moe_layers}")
        if self.num_experts_per_tok > self.n_routed_experts:
            raise ValueError(
                f"num_experts_per_tok: expected at most {self.n_routed_experts}, "
                f"found {self.num_experts_per_tok}"
            )
        return self

    def has_expert(self, expert: ExpertId) -> bool:
        return 0 <= expert < self.n_routed_experts


class StopLine(Strict):
    """Which layers ran, and why the next one did not.

    `first_missing_layer` is the first layer that was not run, null if all ran; `missing_files`
    are the files, by name, that hold the tensors it lacks (empty for another reason).
    """

    executed_layers: tuple[LayerNumber, ...]
    reason: Literal["complete", "tensors_missing", "limit_asked_for"]
    first_missing_layer: LayerNumber | None
    missing_files: tuple[str, ...]

    @model_validator(mode="after")
    def _contiguous(self) -> StopLine:
        if self.executed_layers != tuple(range(len(self.executed_layers))):
            raise ValueError(
                f"executed_layers: expected 0, 1, 2 …, found {list(self.executed_layers)}"
            )
        if (self.reason == "complete") != (self.first_missing_layer is None):
            raise ValueError("stop line: expected a first missing layer unless complete")
        return self


class Environment(Strict):
    """Software and machine of a run. Same environment is the scope of bitwise repetition."""

    python: str
    torch: str
    cuda: str | None
    transformers: str
    tokenizers: str
    safetensors: str
    numpy: str
    device: str
    instruction_set: str
    threads: Positive
    dtype: str
    tf32: bool
    deterministic_algorithms: bool
    attention: Literal["eager"]
