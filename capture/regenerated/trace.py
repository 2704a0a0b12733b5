"""Quantities that a trace records: prompts, the MLA cache, the load of each MoE layer."""

from __future__ import annotations

import math
from collections.abc import Callable

from atlas.contract.published import PublishedFigure
from atlas.contract.trace import LayerTrace, LoadSummary, MoeTrace, Trace
from capture.regenerated.base import NO_EXPERT, NO_LAYER, NO_PROMPT, Found, Value, need, the_one

Read = Callable[[Trace, PublishedFigure], Value]


def layers(file: Trace) -> dict[int, MoeTrace]:
    return {layer.layer: layer.moe for layer in file.layers if layer.moe is not None}


def layer_of(file: Trace, figure: PublishedFigure) -> MoeTrace:
    return need(layers(file).get(need(figure.layer, NO_LAYER)), NO_LAYER)


def load_of(file: Trace, figure: PublishedFigure) -> tuple[LoadSummary, tuple[int, ...]]:
    """Summary and counts [E] of the figure's layer, or of its prompt there. Raises Missing."""
    layer = layer_of(file, figure)
    if figure.prompt is None:
        return layer.summary, layer.counts_E
    own = {prompt.prompt_id: prompt for prompt in layer.prompts}
    prompt = need(own.get(figure.prompt), NO_PROMPT)
    return prompt.summary, prompt.counts_E


def sample_cv(summary: LoadSummary) -> float:
    """CV with the sample standard deviation, which the trace document's figures turn out to
    use; the atlas stores the population one. The two differ by sqrt(E / (E - 1))."""
    experts = summary.used + summary.zero
    return summary.cv * math.sqrt(experts / (experts - 1))


def summaries(file: Trace) -> list[LoadSummary]:
    found = [layer.summary for layer in layers(file).values()]
    return need(found or None, NO_LAYER)


def _summary(name: str) -> Read:
    def read(file: Trace, figure: PublishedFigure) -> Value:
        value: Value = getattr(load_of(file, figure)[0], name)
        return value

    return read


def _selections(file: Trace, figure: PublishedFigure) -> Value:
    if figure.layer is None:
        return the_one({summary.selections for summary in summaries(file)})
    return load_of(file, figure)[0].selections


def _expert_count(file: Trace, figure: PublishedFigure) -> Value:
    counts_E, expert = load_of(file, figure)[1], need(figure.expert, NO_EXPERT)
    return need(counts_E[expert] if expert < len(counts_E) else None, NO_EXPERT)


def _prompt_tokens(file: Trace, figure: PublishedFigure) -> Value:
    lengths = {prompt.prompt_id: len(prompt.token_ids_T) for prompt in file.prompts}
    return need(lengths.get(figure.prompt or ""), NO_PROMPT)


def _shape(of: Callable[[LayerTrace], tuple[int, ...]]) -> Read:
    return lambda file, figure: the_one({of(layer) for layer in file.layers})


READ: dict[str, Read] = {
    "prompt_count": lambda file, figure: len(file.prompts),
    "trace_prompt_count": lambda file, figure: len(file.prompts),
    "token_count": lambda file, figure: file.valid_tokens,
    "trace_token_count": lambda file, figure: file.valid_tokens,
    "prompt_tokens": _prompt_tokens,
    "batch_shape": lambda file, figure: file.batch.shape,
    "selections": _selections,
    "selections_total": lambda file, figure: sum(s.selections for s in summaries(file)),
    "projection_shape": _shape(lambda layer: layer.mla.projection),
    "projection_width": lambda file, figure: the_one(
        {layer.mla.projection[2] for layer in file.layers}
    ),
    "key_shape": _shape(lambda layer: layer.mla.key),
    "value_shape": _shape(lambda layer: layer.mla.value),
    "element_bytes": lambda file, figure: file.cache_ledger.element_bytes,
    "eager_elements": lambda file, figure: file.cache_ledger.eager_elements,
    "latent_elements": lambda file, figure: file.cache_ledger.latent_elements,
    "eager_bytes": lambda file, figure: file.cache_ledger.eager_bytes,
    "latent_bytes": lambda file, figure: file.cache_ledger.latent_bytes,
    "cache_ratio": lambda file, figure: file.cache_ledger.ratio,
    "cache_reduction": lambda file, figure: 100.0 * file.cache_ledger.reduction,
    "used_lowest": lambda file, figure: min(s.used for s in summaries(file)),
    "used_highest": lambda file, figure: max(s.used for s in summaries(file)),
    "cv_sample_lowest": lambda file, figure: min(sample_cv(s) for s in summaries(file)),
    "cv_sample_highest": lambda file, figure: max(sample_cv(s) for s in summaries(file)),
    "gini_lowest": lambda file, figure: min(s.gini for s in summaries(file)),
    "gini_highest": lambda file, figure: max(s.gini for s in summaries(file)),
    **{
        name: _summary(name)
        for name in ("used", "zero", "gini", "effective_experts", "top_expert", "top_count")
    },
    "cv_sample": lambda file, figure: sample_cv(load_of(file, figure)[0]),
    "expert_count": _expert_count,
    "mean_weight_sum": lambda file, figure: layer_of(file, figure).mean_topk_weight_sum,
}


def trace(file: Trace, figure: PublishedFigure) -> Found:
    """The figure's value. Raises Missing; the quantity must be one of READ."""
    return Found(READ[figure.quantity](file, figure))
