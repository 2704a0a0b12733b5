"""The corpus experiment: fixed batches through every complete layer, counts per prompt.

Each layer is read once for all batches. Only valid positions are counted, and every count is
checked where it is made: a prompt's selections are its tokens times top-k, in every layer.

Axes: P prompt in file order, E routed expert, T token, K selected expert, N token of a domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from atlas.contract.corpus import CorpusLayer, Prompt, RoutingCorpus
from atlas.resample import Resampling
from atlas.statistics import describe, layer_statistics
from capture.corpus.batches import PromptBatch
from capture.corpus.docs import DOCS
from capture.corpus.plan import Plan
from capture.corpus.selection import PickedPrompt
from capture.engine import Engine
from capture.errors import Refusal
from capture.observe import RouterObservation
from capture.session import Session
from capture.stream import LayerResult, Streamer, TokenBatch
from capture.workdir import WorkDir, run_layers


def run_corpus(
    session: Session,
    plan: Plan,
    resampling: Resampling,
    *,
    captured_at: str | None,
    work_dir: Path | None = None,
    resume: bool = False,
    engine: Engine | None = None,
) -> RoutingCorpus:
    """Run `plan` up to the session's stop line, in this process or with `engine`.

    `work_dir` keeps each whole layer, `resume` goes on from the last one. Raises Refusal.
    """
    batches = plan.batches(session.pad_token_id)
    tokens = [TokenBatch(torch.from_numpy(b.input_ids_BT.copy()), b.lengths_B) for b in batches]
    streamer = engine or Streamer(session.artifact, session.code, session.device)
    numbers = session.stop_line.executed_layers
    defined = {**session.definition, "experiment": "corpus", "plan": plan.definition}
    work = WorkDir(work_dir, defined, resume=resume) if work_dir else None
    steps = run_layers(streamer, tokens, numbers, work)
    hashes = {prompt.prompt_id: sha256() for prompt in plan.prompts}
    layers: list[CorpusLayer] = []
    for result in session.progress(steps, len(numbers)):
        if result.layer not in session.artifact.architecture.moe_layers:
            continue
        routes = dict(_routes(result, batches))
        for prompt in plan.prompts:
            ids_TK = routes[prompt.prompt_id].expert_ids_TK.numpy()
            hashes[prompt.prompt_id].update(ids_TK.astype("<u2").tobytes())
        layers.append(_statistics(result.layer, routes, plan, session, resampling))
    batch_of = {p.prompt_id: batch.number for batch in batches for p in batch.prompts}
    return RoutingCorpus(
        schema_="llm-atlas/routing-corpus@1",
        evidence=session.artifact.model.evidence,
        model=session.artifact.model.identity,
        artifacts=session.files,
        routing=session.artifact.architecture.routing,
        architecture=session.artifact.architecture,
        stop_line=session.stop_line,
        environment=session.environment,
        record=None,
        captured_at=captured_at,
        selection=plan.selection,
        statistics=describe(resampling),
        docs=DOCS,
        domains=tuple(pick.record for pick in plan.picks),
        prompts=tuple(
            Prompt(
                prompt_id=prompt.prompt_id,
                domain=prompt.domain,
                tokens=prompt.tokens,
                source_id=prompt.source_id,
                rank=prompt.rank,
                batch=batch_of[prompt.prompt_id],
                characters=prompt.characters,
                text_sha256=prompt.text_sha256,
                route_sha256=hashes[prompt.prompt_id].hexdigest(),
            )
            for prompt in plan.prompts
        ),
        layers=tuple(layers),
    )


def _routes(
    result: LayerResult, batches: Sequence[PromptBatch]
) -> Iterator[tuple[str, RouterObservation]]:
    for batch, observation in zip(batches, result.observations, strict=True):
        assert observation.router is not None
        for prompt, routes in zip(batch.prompts, observation.router, strict=True):
            yield prompt.prompt_id, routes


def _statistics(
    layer: int,
    routes: dict[str, RouterObservation],
    plan: Plan,
    session: Session,
    resampling: Resampling,
) -> CorpusLayer:
    experts = session.artifact.architecture.n_routed_experts
    k = session.artifact.architecture.num_experts_per_tok
    counts_PE = np.stack([_counts(layer, p, routes[p.prompt_id], experts, k) for p in plan.prompts])
    token_ids, gate_mass = {}, {}
    for pick in plan.picks:
        own = [routes[prompt.prompt_id] for prompt in pick.prompts]
        ids_NK = np.concatenate([r.expert_ids_TK.numpy() for r in own])
        weights_NK = np.concatenate([r.weights_TK.double().numpy() for r in own])
        token_ids[pick.rule.domain] = ids_NK
        mass_E = np.bincount(ids_NK.ravel(), weights=weights_NK.ravel(), minlength=experts)
        gate_mass[pick.rule.domain] = mass_E / len(ids_NK)
    require_total(layer, counts_PE, sum(p.tokens for p in plan.prompts), k)
    return layer_statistics(
        layer,
        counts_PE,
        [prompt.domain for prompt in plan.prompts],
        [pick.rule.domain for pick in plan.picks],
        resampling,
        token_ids=token_ids,
        gate_mass=gate_mass,
    )


def _counts(
    layer: int, prompt: PickedPrompt, routes: RouterObservation, experts: int, k: int
) -> NDArray[np.int64]:
    ids_TK = routes.expert_ids_TK.numpy()
    if ids_TK.shape != (prompt.tokens, k):
        raise Refusal(
            where=f"layer {layer}, {prompt.prompt_id}",
            what="routes [tokens, top-k]",
            expected=[prompt.tokens, k],
            found=list(ids_TK.shape),
        )
    return np.bincount(ids_TK.ravel(), minlength=experts)


def require_total(layer: int, counts_PE: NDArray[np.int64], tokens: int, k: int) -> None:
    """Raise Refusal unless the layer's selections are all valid tokens times top-k."""
    if int(counts_PE.sum()) != tokens * k:
        raise Refusal(
            where=f"layer {layer}",
            what="selections of all prompts",
            expected=tokens * k,
            found=int(counts_PE.sum()),
        )
