"""Quantities that the official file settles without weights."""

from __future__ import annotations

from collections.abc import Callable

from atlas.contract.identity import StopLine
from atlas.contract.official import CorpusTokens, Official, TracePrompts
from atlas.contract.published import PublishedFigure
from capture.regenerated.base import NO_FIELD, NO_LAYER, NO_PROMPT, Found, Value, need
from capture.regenerated.common import GIB
from capture.regenerated.corpus import DOMAIN, SELECTION, domain_named

Read = Callable[[Official, PublishedFigure], Value]


def first_shard_stop(file: Official) -> StopLine | None:
    """The stop line with the first shard alone, which is what the documents ran on."""
    first = (file.shards[0].shard,)
    return next(s.stop_line for s in file.stop_lines if s.shards == first)


def _prompts(file: Official) -> TracePrompts:
    return need(file.trace_prompts, NO_FIELD)


def _corpora(file: Official) -> CorpusTokens:
    return need(file.corpora, NO_FIELD)


def _prompt_tokens(file: Official, figure: PublishedFigure) -> Value:
    lengths = {p.prompt_id: len(p.token_ids_T) for p in _prompts(file).prompts}
    return need(lengths.get(figure.prompt or ""), NO_PROMPT)


def _shards_of_layer(file: Official, figure: PublishedFigure) -> Value:
    names = [shard.shard for shard in file.shards]
    own = {layer.layer: layer for layer in file.layers}
    layer = need(own.get(need(figure.layer, NO_LAYER)), NO_LAYER)
    return tuple(names.index(part.shard) + 1 for part in layer.parts)


def _selections(file: Official, figure: PublishedFigure) -> Value:
    return _prompts(file).tokens * file.architecture.num_experts_per_tok


def _of_domain(name: str) -> Read:
    return lambda file, figure: DOMAIN[name](domain_named(_corpora(file).domains, figure))


def _of_rules(name: str) -> Read:
    return lambda file, figure: SELECTION[name](_corpora(file).selection)


READ: dict[str, Read] = {
    "checkpoint_tensor_bytes": lambda file, figure: file.tensor_bytes,
    "checkpoint_gib": lambda file, figure: file.tensor_bytes / GIB,
    "shards_of_layer": _shards_of_layer,
    "parameters_total": lambda file, figure: file.parameters.total / 1e9,
    # the head is a product for every token, the embedding a look-up of one row
    "parameters_active": lambda file, figure: file.parameters.active_without_embedding / 1e9,
    "element_bytes": lambda file, figure: file.mla.layer.element_bytes,
    "eager_elements": lambda file, figure: file.mla.layer.eager_elements,
    "latent_elements": lambda file, figure: file.mla.layer.latent_elements,
    "projection_width": lambda file, figure: file.mla.latent[0],
    "eager_bytes": lambda file, figure: file.mla.layer.eager_bytes,
    "latent_bytes": lambda file, figure: file.mla.layer.latent_bytes,
    "cache_ratio": lambda file, figure: file.mla.layer.ratio,
    "cache_reduction": lambda file, figure: 100.0 * file.mla.layer.reduction,
    "trace_prompt_count": lambda file, figure: len(_prompts(file).prompts),
    "trace_token_count": lambda file, figure: _prompts(file).tokens,
    "prompt_tokens": _prompt_tokens,
    **{name: _of_domain(name) for name in DOMAIN},
    **{name: _of_rules(name) for name in SELECTION},
}

OF_TRACE: dict[str, Read] = {
    "prompt_count": READ["trace_prompt_count"],
    "token_count": READ["trace_token_count"],
    "batch_shape": lambda file, figure: _prompts(file).shape,
    "selections": _selections,
}
"""Quantities whose names both documents use, here of the trace's four prompts."""


def official(file: Official, figure: PublishedFigure) -> Found:
    """The figure's value. Raises Missing; the quantity must be one of READ or OF_TRACE."""
    read = READ.get(figure.quantity) or OF_TRACE[figure.quantity]
    return Found(read(file, figure))
