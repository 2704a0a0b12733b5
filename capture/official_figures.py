"""The official file: all that config, index, tokenizer and pinned corpora settle, no weights.

Parameters are products of the tensor shapes that config.json implies; `inspect` and the capture
check that the index names exactly these tensors. Bytes are those of bfloat16 elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from atlas.canonical import rounded
from atlas.contract.base import Bilingual
from atlas.contract.identity import Architecture, ArtifactFile, StopLine
from atlas.contract.official import (
    CharactersPerToken,
    CorpusTokens,
    LayerParts,
    MlaLedger,
    Official,
    ParameterPart,
    Parameters,
    PublishedCount,
    ShardPart,
    SubsetStop,
    TracePrompts,
)
from capture.artifacts import INDEX, Artifact
from capture.corpus.selection import select, selection_record
from capture.corpus.sources import Reading
from capture.errors import Refusal
from capture.ledger import cache_ledger
from capture.prompts import PROMPTS, FixedPrompt, encoded_prompt
from capture.tensors import EMBEDDING, FINAL_NORM, HEAD, checkpoint_shapes, layer_shapes
from capture.tokenizer import Tokenizer

ELEMENT_BYTES = 2
"""bfloat16, which `read_architecture` requires."""

PartName = str
PARTS: tuple[PartName, ...] = (
    "embedding",
    "head",
    "norms",
    "attention",
    "dense feed-forward",
    "gates",
    "shared experts",
    "routed experts",
)

ACTIVE_RULE = Bilingual(
    en="Active for one token: the norms, the whole attention, the dense feed-forward of the "
    "layers that have one, every gate, all shared experts, and of each MoE layer's routed "
    "experts the top-k that the gate selects. `active` also counts the embedding and the head "
    "in whole; the two other sums leave out the embedding, a look-up of one row, or both.",
    zh="单个 token 的激活参数：全部归一化层、全部 attention、dense 层的前馈网络、全部 gate、"
    "全部 shared expert，以及每个 MoE 层中 gate 选中的 top-k 个 routed expert。"
    "`active` 还计入完整的 embedding 与 head；"
    "另外两个合计分别去掉 embedding（每个 token 只查一行）或二者都去掉。",
)

PUBLISHED_COUNTS: dict[str, tuple[PublishedCount, ...]] = {
    "deepseek-v2-lite": (
        PublishedCount(
            quantity="parameters_total",
            printed="15.7B",
            figure_id="trace.config.parameters_total",
        ),
        PublishedCount(
            quantity="parameters_active",
            printed="2.4B",
            figure_id="trace.config.parameters_active",
        ),
    )
}
"""What a publisher states, by model; a test holds this equal to the published file."""


@dataclass(frozen=True)
class _Located:
    """One tensor of the index."""

    name: str
    shard: str
    parameters: int


def official(
    artifact: Artifact,
    files: tuple[ArtifactFile, ...],
    tokenizer: Tokenizer | None,
    readings: Sequence[Reading],
    prompts: Sequence[FixedPrompt] = PROMPTS,
) -> Official:
    """The file. `files` are those that were read and hashed; `tokenizer` None leaves the
    prompts and corpora out. Raises Refusal: an index that lacks a tensor of the architecture,
    a corpus without a tokenizer."""
    if readings and tokenizer is None:
        raise Refusal(
            where="corpora", what="tokenizer missing", expected="--tokenizer FILE", found="none"
        )
    a = artifact.architecture
    located = _located(artifact)
    layers = tuple(_layer(a, layer, located) for layer in range(a.num_hidden_layers))
    outside = [located[name] for name in (EMBEDDING, FINAL_NORM, HEAD)]
    return Official(
        schema_="llm-atlas/official@1",
        evidence="demo" if artifact.model.evidence == "demo" else "official",
        model=artifact.model.identity,
        artifacts=files,
        architecture=a,
        tensors=len(located),
        tensor_bytes=sum(t.parameters for t in located.values()) * ELEMENT_BYTES,
        shards=_by_shard(located.values()),
        outside_layers=_by_shard(outside),
        layers=layers,
        stop_lines=stop_lines(artifact),
        parameters=parameters(a, PUBLISHED_COUNTS.get(artifact.model.slug, ())),
        mla=mla_ledger(a),
        trace_prompts=None if tokenizer is None else _trace_prompts(prompts, tokenizer),
        corpora=_corpora(readings, tokenizer) if readings and tokenizer is not None else None,
    )


def _located(artifact: Artifact) -> dict[str, _Located]:
    shapes = checkpoint_shapes(artifact.architecture)
    lacking = sorted(shapes.keys() - artifact.shard_of.keys())
    if lacking:
        raise Refusal(
            where=INDEX,
            what="tensor missing",
            expected=lacking[0],
            found=f"{len(shapes) - len(lacking)} of {len(shapes)} tensors",
        )
    return {
        name: _Located(name, artifact.shard_of[name], math.prod(shape))
        for name, shape in shapes.items()
    }


def _by_shard(tensors: Iterable[_Located]) -> tuple[ShardPart, ...]:
    by: dict[str, list[int]] = {}
    for tensor in tensors:
        by.setdefault(tensor.shard, []).append(tensor.parameters)
    return tuple(
        ShardPart(shard=shard, tensors=len(by[shard]), bytes=sum(by[shard]) * ELEMENT_BYTES)
        for shard in sorted(by)
    )


def _layer(a: Architecture, layer: int, located: dict[str, _Located]) -> LayerParts:
    shapes = layer_shapes(a, layer)
    return LayerParts(
        layer=layer,
        kind="moe" if layer in a.moe_layers else "dense",
        parameters=sum(located[name].parameters for name in shapes),
        active_parameters=sum(_active(a, name, located[name].parameters) for name in shapes),
        parts=_by_shard(located[name] for name in shapes),
    )


def stop_lines(artifact: Artifact) -> tuple[SubsetStop, ...]:
    """How far the layers run with each subset of the shards, fewest shards first."""
    sizes = range(len(artifact.shards) + 1)
    subsets = (s for size in sizes for s in itertools.combinations(artifact.shards, size))
    return tuple(SubsetStop(shards=s, stop_line=_stop_line(artifact, s)) for s in subsets)


def _stop_line(artifact: Artifact, shards: tuple[str, ...]) -> StopLine | None:
    try:
        return replace(artifact, present=shards).stop_line()
    except Refusal:
        # no embedding or no layer 0: the index itself was found whole before
        return None


def part_of(name: str) -> PartName:
    """Which part of the model a tensor belongs to, by its name."""
    rules: tuple[tuple[PartName, Callable[[str], bool]], ...] = (
        ("embedding", lambda n: n == EMBEDDING),
        ("head", lambda n: n == HEAD),
        ("norms", lambda n: n.endswith("norm.weight")),
        ("attention", lambda n: ".self_attn." in n),
        ("gates", lambda n: n.endswith(".mlp.gate.weight")),
        ("shared experts", lambda n: ".shared_experts." in n),
        ("routed experts", lambda n: ".experts." in n),
    )
    return next((part for part, holds in rules if holds(name)), "dense feed-forward")


def _active(a: Architecture, name: str, parameters: int) -> int:
    """Parameters of a tensor that one token uses. Experts of a layer have one size, so each
    may stand for the top-k of them: k of E times its parameters, whole over the layer."""
    if part_of(name) != "routed experts":
        return parameters
    expert = int(name.split(".experts.")[1].split(".")[0])
    return parameters if expert < a.num_experts_per_tok else 0


def parameters(a: Architecture, published: tuple[PublishedCount, ...]) -> Parameters:
    """Total and active parameters, by part; ACTIVE_RULE says what is active."""
    total = dict.fromkeys(PARTS, 0)
    active = dict.fromkeys(PARTS, 0)
    for name, shape in checkpoint_shapes(a).items():
        size = math.prod(shape)
        total[part_of(name)] += size
        active[part_of(name)] += _active(a, name, size)
    edge = total["embedding"] + total["head"]
    all_active = sum(active.values())
    return Parameters(
        parts=tuple(
            ParameterPart.model_validate({"part": p, "total": total[p], "active": active[p]})
            for p in PARTS
        ),
        total=sum(total.values()),
        total_without_embedding_and_head=sum(total.values()) - edge,
        active=all_active,
        active_without_embedding=all_active - active["embedding"],
        active_without_embedding_and_head=all_active - active["embedding"] - active["head"],
        rule=ACTIVE_RULE,
        published=published,
    )


def mla_ledger(a: Architecture) -> MlaLedger:
    """Both accounts of the cache from shapes: expanded keys and values per head, and the latent
    with its RoPE key (DeepSeek-V2, section 2.1.3)."""
    key = (a.num_attention_heads, a.qk_nope_head_dim + a.qk_rope_head_dim)
    value = (a.num_attention_heads, a.v_head_dim)
    eager, latent = math.prod(key) + math.prod(value), a.kv_lora_rank + a.qk_rope_head_dim
    return MlaLedger(
        key=key,
        value=value,
        latent=(latent,),
        layer=cache_ledger(eager, latent, ELEMENT_BYTES),
        layers=a.num_hidden_layers,
        eager_bytes_all_layers=eager * ELEMENT_BYTES * a.num_hidden_layers,
        latent_bytes_all_layers=latent * ELEMENT_BYTES * a.num_hidden_layers,
    )


def _trace_prompts(prompts: Sequence[FixedPrompt], tokenizer: Tokenizer) -> TracePrompts:
    made = tuple(encoded_prompt(prompt, tokenizer) for prompt in prompts)
    lengths = [len(p.token_ids_T) for p in made]
    return TracePrompts(prompts=made, tokens=sum(lengths), shape=(len(lengths), max(lengths)))


def _corpora(readings: Sequence[Reading], tokenizer: Tokenizer) -> CorpusTokens:
    picks = select(readings, tokenizer.encode)
    by_domain = {reading.domain: reading for reading in readings}
    return CorpusTokens(
        selection=selection_record(),
        domains=tuple(pick.record for pick in picks),
        prompts=tuple(prompt.record for pick in picks for prompt in pick.prompts),
        characters_per_token=tuple(
            _characters_per_token(by_domain[pick.rule.domain], tokenizer) for pick in picks
        ),
    )


def _characters_per_token(reading: Reading, tokenizer: Tokenizer) -> CharactersPerToken:
    texts = [candidate.text for candidate in reading.texts()]
    characters = sum(map(len, texts))
    tokens = sum(len(tokenizer.encode(text)) - 1 for text in texts)  # without BOS
    return CharactersPerToken(
        domain=reading.domain,
        texts=len(texts),
        characters=characters,
        tokens=tokens,
        ratio=rounded(characters / tokens),
    )
