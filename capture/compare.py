"""Two traces, check by check: exact or not. Timing and the clock are left out.

3 (provenance, configuration, tokenization) + 2 (initial and final hidden states)
+ 2 per layer (hidden states, MLA shapes) + 2 per MoE layer (load, routes).
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from atlas.canonical import canonical_json
from atlas.contract.comparison import Check, ComparedFile, Comparison
from atlas.contract.trace import LayerTrace, Trace
from capture.errors import Refusal


def compare(first: Trace, second: Trace, first_sha256: str, second_sha256: str) -> Comparison:
    """Named checks of two traces of the same layers. Raises Refusal if the layers differ."""
    if first.stop_line.executed_layers != second.stop_line.executed_layers:
        raise Refusal(
            where="second trace",
            what="other layers",
            expected=list(first.stop_line.executed_layers),
            found=list(second.stop_line.executed_layers),
        )
    checks = [
        _check("provenance", None, _provenance(first), _provenance(second)),
        _check("configuration", None, _configuration(first), _configuration(second)),
        _check("tokenization", None, _tokenization(first), _tokenization(second)),
        _check("initial hidden", None, first.initial_hidden_sha256, second.initial_hidden_sha256),
        _check("final hidden", None, first.final_hidden_sha256, second.final_hidden_sha256),
    ]
    for a, b in zip(first.layers, second.layers, strict=True):
        checks.append(_check("hidden", a.layer, a.hidden_sha256, b.hidden_sha256))
        checks.append(_check("MLA shapes", a.layer, a.mla, b.mla))
    for a, b in zip(first.layers, second.layers, strict=True):
        if a.moe is not None or b.moe is not None:
            checks.append(_check("load", a.layer, _load(a), _load(b)))
            checks.append(_check("routes", a.layer, _routes(a), _routes(b)))
    return Comparison(
        schema_="llm-atlas/comparison@1",
        evidence=first.evidence,
        first=ComparedFile(sha256=first_sha256, captured_at=first.captured_at),
        second=ComparedFile(sha256=second_sha256, captured_at=second.captured_at),
        timing_compared=False,
        exact=sum(c.exact for c in checks),
        total=len(checks),
        checks=tuple(checks),
    )


def _provenance(trace: Trace) -> Any:
    return [
        trace.contract,
        trace.evidence,
        _plain(trace.model),
        [_plain(f) for f in trace.artifacts],
        _plain(trace.environment),
    ]


def _configuration(trace: Trace) -> Any:
    return [_plain(trace.architecture), _plain(trace.stop_line), _plain(trace.cache_ledger)]


def _tokenization(trace: Trace) -> Any:
    return [[_plain(p) for p in trace.prompts], _plain(trace.batch)]


def _load(layer: LayerTrace) -> Any:
    if layer.moe is None:
        return None
    moe = layer.moe
    return [
        list(moe.counts_E),
        _plain(moe.summary),
        [_plain(p) for p in moe.prompts],
        [_plain(j) for j in moe.jaccard],
        moe.mean_topk_weight_sum,
    ]


def _routes(layer: LayerTrace) -> Any:
    if layer.moe is None:
        return None
    return [
        [_plain(r) for r in layer.moe.routes],
        [_plain(n) for n in layer.moe.near_ties],
        layer.moe.smallest_margin,
    ]


def _plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True)


def _check(name: str, layer: int | None, first: Any, second: Any) -> Check:
    digests = [
        x if isinstance(x, str) else sha256(canonical_json(x)).hexdigest() for x in (first, second)
    ]
    return Check(
        name=name,
        layer=layer,
        exact=digests[0] == digests[1],
        first=digests[0],
        second=digests[1],
    )
