"""Quantities that every kind of file holds: artifacts, configuration, stop line, environment."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from atlas.contract.identity import (
    Architecture,
    ArtifactFile,
    Environment,
    ModelIdentity,
    StopLine,
)
from atlas.contract.published import PublishedFigure
from capture.regenerated.base import (
    NO_FIELD,
    NO_SHARD,
    NOT_HASHED,
    Found,
    Missing,
    Value,
    need,
)

GIB = 2.0**30


@dataclass(frozen=True)
class Common:
    """What the kinds of file have in common; null where a file leaves it empty."""

    model: ModelIdentity
    artifacts: tuple[ArtifactFile, ...]
    architecture: Architecture | None
    stop_line: StopLine | None
    environment: Environment | None


Read = Callable[[Common, PublishedFigure], Value]


def artifact(file: Common, role: str) -> ArtifactFile:
    """The file of that role, of shards the first. Raises Missing."""
    own = sorted((f for f in file.artifacts if f.role == role), key=lambda f: f.name)
    return need(own[0] if own else None, NO_SHARD if role == "shard" else NOT_HASHED)


def digest(role: str) -> Read:
    return lambda file, figure: need(artifact(file, role).sha256, NOT_HASHED)


def field(name: str) -> Read:
    def read(file: Common, figure: PublishedFigure) -> Value:
        value: Value | None = getattr(need(file.architecture, NO_FIELD), name)
        if value is None:
            raise Missing(NO_FIELD)
        return value

    return read


def environment(name: str) -> Read:
    def read(file: Common, figure: PublishedFigure) -> Value:
        value: Value | None = getattr(need(file.environment, NO_FIELD), name)
        if value is None:
            raise Missing(NO_FIELD)
        return value

    return read


def executed(file: Common) -> tuple[int, ...]:
    return need(file.stop_line, NO_FIELD).executed_layers


def _moe(file: Common, figure: PublishedFigure) -> tuple[int, ...]:
    moe = need(file.architecture, NO_FIELD).moe_layers
    return tuple(layer for layer in executed(file) if layer in moe)


def _dense(file: Common, figure: PublishedFigure) -> Value:
    moe = need(file.architecture, NO_FIELD).moe_layers
    return tuple(layer for layer in executed(file) if layer not in moe)


def _missing(file: Common, figure: PublishedFigure) -> Value:
    """Layers that were not run; the trace document lists those behind the first apart."""
    count, ran = need(file.architecture, NO_FIELD).num_hidden_layers, len(executed(file))
    return tuple(range(ran + (figure.document == "trace"), count))


def _rope_scaling(file: Common, figure: PublishedFigure) -> Value:
    scaling = need(need(file.architecture, NO_FIELD).rope_scaling, NO_FIELD)
    return str(need(scaling.get("type"), NO_FIELD))


def _experts(file: Common) -> int:
    return need(file.architecture, NO_FIELD).n_routed_experts


CONFIG_FIELDS = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "kv_lora_rank",
    "n_routed_experts",
    "num_experts_per_tok",
    "n_shared_experts",
    "moe_intermediate_size",
    "first_k_dense_replace",
    "max_position_embeddings",
    "scoring_func",
    "topk_method",
    "norm_topk_prob",
)

READ: dict[str, Read] = {
    "repository": lambda file, figure: file.model.repository,
    "revision": lambda file, figure: file.model.revision,
    "config_sha256": digest("config"),
    "modeling_sha256": digest("modeling"),
    "tokenizer_sha256": digest("tokenizer"),
    "index_sha256": digest("index"),
    "shard_sha256": digest("shard"),
    "shard_bytes": lambda file, figure: artifact(file, "shard").bytes,
    "shard_gib": lambda file, figure: artifact(file, "shard").bytes / GIB,
    **{name: field(name) for name in CONFIG_FIELDS},
    "top_k": field("num_experts_per_tok"),
    "latent_width": field("kv_lora_rank"),
    "rope_width": field("qk_rope_head_dim"),
    "rope_scaling_type": _rope_scaling,
    "expert_id_range": lambda file, figure: (0, _experts(file) - 1),
    "uniform_effective_experts": lambda file, figure: _experts(file),
    "uniform_share": lambda file, figure: 100.0 / _experts(file),
    "ln_2": lambda file, figure: math.log(2.0),
    "executed_layers": lambda file, figure: executed(file),
    "executed_layer_count": lambda file, figure: len(executed(file)),
    "dense_layers": _dense,
    "moe_layers": _moe,
    "moe_layer_count": lambda file, figure: len(_moe(file, figure)),
    "first_missing_layer": lambda file, figure: need(
        need(file.stop_line, NO_FIELD).first_missing_layer, NO_FIELD
    ),
    "missing_layers": _missing,
    "gpu": environment("device"),
    **{
        name: environment(name)
        for name in ("python", "torch", "cuda", "transformers", "safetensors", "tf32")
    },
}


def common(file: Common, figure: PublishedFigure) -> Found:
    """The figure's value. Raises Missing; the quantity must be one of READ."""
    return Found(READ[figure.quantity](file, figure))
