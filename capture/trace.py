"""The trace: four fixed prompts, every route, the MLA cache, layer by layer.

Axes: B prompt, T position, K selected expert, E routed expert, D hidden.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from atlas import load
from atlas.canonical import rounded
from atlas.contract.identity import Architecture
from atlas.contract.trace import (
    Batch,
    CacheLedger,
    LayerTrace,
    MlaShapes,
    MoeTrace,
    NearTies,
    PairJaccard,
    PromptLoad,
    PromptRoutes,
    Timing,
    Trace,
    TracePrompt,
)
from capture.ledger import cache_ledger
from capture.observe import RouterObservation
from capture.prompts import PROMPTS, FixedPrompt, encoded_prompt
from capture.session import Session
from capture.stream import LayerResult, Streamer, TokenBatch, tensor_sha256
from capture.workdir import WorkDir, run_layers

NEAR_TIE_MARGINS = (0.0001, 0.001, 0.01)


def trace(
    session: Session,
    *,
    captured_at: str | None,
    prompts: Sequence[FixedPrompt] = PROMPTS,
    work_dir: Path | None = None,
    resume: bool = False,
) -> Trace:
    """Run the prompts through every layer of the session's stop line.

    `work_dir` keeps each whole layer, `resume` goes on from the last one. Raises Refusal.
    """
    encoded = [encoded_prompt(p, session.tokenizer) for p in prompts]
    batch, described = _batch(encoded, session.pad_token_id)
    streamer = Streamer(session.artifact, session.code, session.device)
    initial = tensor_sha256(streamer.embed([batch])[0])
    defined = {**session.definition, "experiment": "trace", "batch": described.model_dump()}
    work = WorkDir(work_dir, defined, resume=resume) if work_dir else None
    layers: list[LayerTrace] = []
    seconds: list[float] = []
    element_bytes = 0
    numbers = session.stop_line.executed_layers
    for result in session.progress(run_layers(streamer, [batch], numbers, work), len(numbers)):
        layers.append(_layer_trace(result, encoded, session.artifact.architecture))
        seconds.append(round(result.seconds, 3))
        element_bytes = result.observations[0].cache_element_bytes
    return Trace(
        schema_="llm-atlas/trace@1",
        evidence=session.artifact.model.evidence,
        model=session.artifact.model.identity,
        artifacts=session.files,
        architecture=session.artifact.architecture,
        stop_line=session.stop_line,
        environment=session.environment,
        captured_at=captured_at,
        prompts=tuple(encoded),
        batch=described,
        initial_hidden_sha256=initial,
        final_hidden_sha256=layers[-1].hidden_sha256,
        cache_ledger=observed_ledger(layers[0].mla, session.artifact.architecture, element_bytes),
        layers=tuple(layers),
        timing=Timing(layer_seconds=tuple(seconds), total_seconds=round(sum(seconds), 3)),
    )


def observed_ledger(mla: MlaShapes, architecture: Architecture, element_bytes: int) -> CacheLedger:
    """The accounts with the eager side as observed: `mla` holds the shapes that were cached."""
    (_, key_heads, _, key_width), (_, value_heads, _, value_width) = mla.key, mla.value
    eager = key_heads * key_width + value_heads * value_width
    latent = architecture.kv_lora_rank + architecture.qk_rope_head_dim
    return cache_ledger(eager, latent, element_bytes)


def _batch(prompts: Sequence[TracePrompt], pad_token_id: int) -> tuple[TokenBatch, Batch]:
    lengths_B = tuple(len(p.token_ids_T) for p in prompts)
    ids_BT = np.full((len(prompts), max(lengths_B)), pad_token_id, dtype="<i8")
    for row, prompt in enumerate(prompts):
        ids_BT[row, : lengths_B[row]] = prompt.token_ids_T
    described = Batch(
        shape=(ids_BT.shape[0], ids_BT.shape[1]),
        padding="right",
        pad_token_id=pad_token_id,
        input_ids_sha256=sha256(ids_BT.tobytes()).hexdigest(),
    )
    return TokenBatch(torch.from_numpy(ids_BT), lengths_B), described


def _layer_trace(
    result: LayerResult, prompts: Sequence[TracePrompt], architecture: Architecture
) -> LayerTrace:
    (observation,) = result.observations
    return LayerTrace(
        layer=result.layer,
        kind="dense" if observation.router is None else "moe",
        hidden_sha256=result.hidden_sha256[0],
        mla=observation.mla,
        moe=None
        if observation.router is None
        else _moe_trace(observation.router, prompts, architecture),
    )


def _moe_trace(
    routes: Sequence[RouterObservation], prompts: Sequence[TracePrompt], architecture: Architecture
) -> MoeTrace:
    experts = architecture.n_routed_experts
    counts_BE = np.stack(
        [np.bincount(r.expert_ids_TK.numpy().ravel(), minlength=experts) for r in routes]
    )
    margins = np.concatenate([r.margin_T.numpy() for r in routes])
    sums = np.concatenate([r.weights_TK.double().sum(dim=1).numpy() for r in routes])
    pairs = itertools.combinations(range(len(prompts)), 2)
    return MoeTrace(
        counts_E=_ints(counts_BE.sum(axis=0)),
        summary=load.summarize(counts_BE.sum(axis=0)),
        mean_topk_weight_sum=rounded(sums.mean()),
        smallest_margin=_float32(margins.min()),
        near_ties=tuple(
            NearTies(margin=m, share_at_or_above=rounded((margins >= m).mean()))
            for m in NEAR_TIE_MARGINS
        ),
        prompts=tuple(
            PromptLoad(prompt_id=p.prompt_id, counts_E=_ints(c), summary=load.summarize(c))
            for p, c in zip(prompts, counts_BE, strict=True)
        ),
        jaccard=tuple(
            PairJaccard(
                first=prompts[a].prompt_id,
                second=prompts[b].prompt_id,
                jaccard=rounded(load.jaccard(counts_BE[a], counts_BE[b])),
            )
            for a, b in pairs
        ),
        routes=tuple(_prompt_routes(p, r) for p, r in zip(prompts, routes, strict=True)),
    )


def _prompt_routes(prompt: TracePrompt, routes: RouterObservation) -> PromptRoutes:
    return PromptRoutes(
        prompt_id=prompt.prompt_id,
        expert_ids_TK=tuple(_ints(row) for row in routes.expert_ids_TK.numpy()),
        weights_TK=tuple(tuple(_float32(w) for w in row) for row in routes.weights_TK.numpy()),
        margin_T=tuple(_float32(m) for m in routes.margin_T.numpy()),
    )


def _ints(values: NDArray[np.integer]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


def _float32(value: np.float32) -> float:
    """The shortest decimal that reads back as the same float32."""
    return float(str(np.float32(value)))
