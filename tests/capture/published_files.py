"""A trace and a routing corpus made up to carry the published values.

Whole numbers are built from the bottom: counts, and routes that add up to them, such that used,
zero and top experts come out as printed. Dispersion measures, intervals and weights stand in
fields that the contract does not derive from counts, and are set to the printed values. So
these files show that the comparison finds every figure, and nothing about the model.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

from atlas.contract import Official, Published, RoutingCorpus, Trace, read
from atlas.contract.base import Estimate, Interval
from atlas.contract.corpus import (
    CorpusLayer,
    Divergence,
    Docs,
    Domain,
    DomainLoad,
    DomainSelection,
    Load,
    Prompt,
    Shares,
    Source,
)
from atlas.contract.identity import ArtifactFile, Environment, StopLine
from atlas.contract.trace import (
    Batch,
    CacheLedger,
    LayerTrace,
    MlaShapes,
    MoeTrace,
    PairJaccard,
    PromptLoad,
    PromptRoutes,
    Timing,
)
from atlas.load import jaccard, summarize
from atlas.resample import Resampling
from atlas.statistics import describe
from capture.corpus.selection import DOMAINS, selection_record
from capture.pins import model_called

DATA = Path(__file__).parents[2] / "src" / "data"
PUBLISHED = DATA / "deepseek-v2-lite-published.json"
OFFICIAL = DATA / "deepseek-v2-lite-official.json"
EXPERTS, LAYERS = 64, range(1, 7)
NO_HASH = "0" * 64


def published() -> Published:
    dataset = read(PUBLISHED)
    assert isinstance(dataset, Published)
    return dataset


def official() -> Official:
    dataset = read(OFFICIAL)
    assert isinstance(dataset, Official)
    return dataset


def _value(figures: Published, identity: str, default: Any = None) -> Any:
    figure = figures.by_id.get(identity)
    return default if figure is None else figure.value


def _identity(figures: Published) -> dict[str, Any]:
    value = {f.quantity: f.value for f in figures.figures if "environment" in f.id}
    return {
        "evidence": "captured",
        "model": figures.model,
        "artifacts": tuple(
            ArtifactFile(name=f.name, role=f.role, bytes=f.bytes, sha256=f.sha256, pinned=True)
            for f in model_called("deepseek-v2-lite").files
        ),
        "architecture": official().architecture,
        "stop_line": StopLine(
            executed_layers=tuple(range(7)),
            reason="tensors_missing",
            first_missing_layer=7,
            missing_files=("model-00002-of-000004.safetensors",),
        ),
        "environment": Environment(
            python=value["python"],
            torch=value["torch"],
            cuda=value["cuda"],
            transformers=value["transformers"],
            tokenizers="made up",
            safetensors=value["safetensors"],
            numpy="made up",
            device=value["gpu"],
            instruction_set="made up",
            threads=1,
            dtype="bfloat16",
            tf32=value["tf32"],
            deterministic_algorithms=True,
            attention="eager",
        ),
        "captured_at": None,
    }


# --- trace ---


def routes(counts_E: list[int], tokens: int) -> list[list[int]]:
    """Ids [T, K] that add up to the counts: an expert's selections go to different tokens."""
    selected = [expert for expert, n in enumerate(counts_E) for _ in range(n)]
    assert max(counts_E) <= tokens
    return [sorted(selected[token::tokens]) for token in range(tokens)]


def spread(counts_E: list[int], experts: list[int], left: int, most: int, start: int) -> None:
    """Add `left` selections to `experts` in turn, from `start` on, none above `most`."""
    for step in itertools.count(start):
        if left == 0:
            return
        expert = experts[step % len(experts)]
        if counts_E[expert] < most:
            counts_E[expert] += 1
            left -= 1


def layer_counts(figures: Published, layer: int, lengths: dict[str, int]) -> dict[str, list[int]]:
    """Counts [E] of each prompt such that used, zero and top of layer and prompts are right."""
    at = f"trace.layer-{layer}"
    top, top_count = _value(figures, f"{at}.top_expert"), _value(figures, f"{at}.top_count")
    used = _value(figures, f"{at}.used")
    fixed = {top: {p: _value(figures, f"{at}.{p}.expert-{top}.count") for p in lengths}}
    own_top = {p: _value(figures, f"{at}.{p}.top_expert") for p in lengths}
    always = [top, *(e for e in own_top.values() if e is not None)]
    experts = always + [e for e in range(EXPERTS) if e not in always][: used - len(always)]
    counts: dict[str, list[int]] = {}
    open_prompts = [p for p in lengths if fixed[top][p] is None]
    left_top = top_count - sum(n for n in fixed[top].values() if n is not None)
    for number, (prompt, tokens) in enumerate(lengths.items()):
        share = fixed[top][prompt]
        if share is None:
            weight = sum(lengths[p] for p in open_prompts[open_prompts.index(prompt) :])
            limit = tokens if own_top[prompt] is None else 5
            share = min(limit, math.ceil(left_top * tokens / weight))
            left_top -= share
        row = [0] * EXPERTS
        row[top] = share
        wanted = _value(figures, f"{at}.{prompt}.used") or used
        others = [e for e in experts if e != top]
        # rotated, so that together the prompts use all experts
        others = [others[(number * 17 + i) % len(others)] for i in range(wanted - 1)]
        most = tokens
        if own_top[prompt] is not None:
            row[own_top[prompt]] = _value(figures, f"{at}.{prompt}.top_count")
            others = [e for e in others if e != own_top[prompt]]
            most = row[own_top[prompt]] - 1
        spread(row, others, tokens * 6 - sum(row), most, 0)
        counts[prompt] = row
    assert left_top == 0
    return counts


def moe(figures: Published, layer: int, lengths: dict[str, int]) -> MoeTrace:
    counts = layer_counts(figures, layer, lengths)
    total = [sum(column) for column in zip(*counts.values(), strict=True)]
    at = f"trace.layer-{layer}"
    # the atlas stores the population CV, the document prints the sample one
    population = math.sqrt((EXPERTS - 1) / EXPERTS)
    summary = summarize(total).model_copy(
        update={
            "cv": _value(figures, f"{at}.cv") * population,
            "gini": _value(figures, f"{at}.gini"),
            "effective_experts": _value(figures, f"{at}.effective_experts"),
        }
    )
    prompts = []
    for prompt, counts_E in counts.items():
        own = summarize(counts_E)
        printed = _value(figures, f"{at}.{prompt}.cv")
        if printed is not None:
            own = own.model_copy(update={"cv": printed * population})
        prompts.append(PromptLoad(prompt_id=prompt, counts_E=tuple(counts_E), summary=own))
    return MoeTrace(
        counts_E=tuple(total),
        summary=summary,
        mean_topk_weight_sum=_value(figures, f"{at}.mean_weight_sum"),
        smallest_margin=0.0,
        near_ties=(),
        prompts=tuple(prompts),
        jaccard=tuple(
            PairJaccard(first=a, second=b, jaccard=jaccard(counts[a], counts[b]))
            for a, b in itertools.combinations(counts, 2)
        ),
        routes=tuple(
            PromptRoutes(
                prompt_id=prompt,
                expert_ids_TK=tuple(map(tuple, routes(counts_E, lengths[prompt]))),
                weights_TK=((0.0625,) * 6,) * lengths[prompt],
                margin_T=(0.0,) * lengths[prompt],
            )
            for prompt, counts_E in counts.items()
        ),
    )


def trace_with(figures: Published) -> Trace:
    """A trace that carries the trace document's figures."""
    prompts = official().trace_prompts
    assert prompts is not None
    lengths = {p.prompt_id: len(p.token_ids_T) for p in prompts.prompts}
    shapes = {
        name: _value(figures, f"trace.mla.{name}_shape") for name in ("projection", "key", "value")
    }
    ledger = {f.id.removeprefix("trace.mla."): f.value for f in figures.figures if ".mla." in f.id}
    return Trace(
        schema_="llm-atlas/trace@1",
        **_identity(figures),
        prompts=prompts.prompts,
        batch=Batch(
            shape=_value(figures, "trace.batch_shape"),
            padding="right",
            pad_token_id=100_001,
            input_ids_sha256=NO_HASH,
        ),
        initial_hidden_sha256=NO_HASH,
        final_hidden_sha256=NO_HASH,
        cache_ledger=CacheLedger(
            element_bytes=ledger["element_bytes"],
            eager_elements=ledger["eager_elements"],
            latent_elements=ledger["latent_elements"],
            eager_bytes=ledger["eager_bytes"],
            latent_bytes=ledger["latent_bytes"],
            ratio=ledger["ratio"],
            reduction=ledger["reduction"] / 100,
        ),
        layers=tuple(
            LayerTrace(
                layer=layer,
                kind="moe" if layer else "dense",
                hidden_sha256=NO_HASH,
                mla=MlaShapes(**shapes, cache_dtype="bfloat16"),
                moe=moe(figures, layer, lengths) if layer else None,
            )
            for layer in range(7)
        ),
        timing=Timing(layer_seconds=(), total_seconds=0.0),
    )


# --- corpus ---


def whole(abbreviated: str) -> str:
    """A hash with both ends of an abbreviated one; what lies between was never printed."""
    start, _, end = abbreviated.partition("…")
    return start + "0" * (64 - len(start) - len(end)) + end


def _estimate(figures: Published, identity: str, default: float, scale: float = 1.0) -> Estimate:
    figure = figures.by_id.get(identity)
    if figure is None:
        return Estimate(point=default, percentile=Interval(low=default, high=default), bias=0.0)
    point = float(str(figure.value)) / scale
    ends = (point, point)
    if figure.interval is not None:
        ends = (figure.interval.low / scale, figure.interval.high / scale)
    return Estimate(point=point, percentile=Interval(low=ends[0], high=ends[1]), bias=0.0)


def _loads(figures: Published, layer: int, domain: str, rows: list[list[int]]) -> DomainLoad:
    at = f"corpus.layer-{layer}.{domain}.prompt_balanced"
    totals = [sum(column) for column in zip(*rows, strict=True)]
    shares_E = tuple(n / sum(totals) for n in totals)
    used = sum(n > 0 for n in totals)

    def load(top_expert: int, cv: Estimate) -> Load:
        return Load(
            used=used,
            zero=EXPERTS - used,
            top_expert=top_expert,
            cv=cv,
            gini=_estimate(figures, f"{at}.gini", 0.25),
            effective_experts=_estimate(figures, f"{at}.effective_experts", 60.0),
            top_share=_estimate(figures, f"{at}.top_share", 0.05, scale=100.0),
            coverage=(),
            shares=Shares(point_E=shares_E, low_E=shares_E, high_E=shares_E),
        )

    cv = _estimate(figures, f"{at}.cv", 0.5)
    largest = figures.by_id["corpus.weighting.largest_cv_difference"]
    away = float(str(largest.value)) if (layer, domain) == (largest.layer, largest.domain) else 0.0
    return DomainLoad(
        domain=domain,
        token_weighted=load(
            totals.index(max(totals)), cv.model_copy(update={"point": cv.point + away})
        ),
        prompt_balanced=load(_value(figures, f"{at}.top_expert", 0), cv),
        gate_mass_E=None,
    )


def corpus_with(figures: Published) -> RoutingCorpus:
    """A routing corpus that carries the corpus document's figures."""
    domains, prompts = [], []
    for rule in DOMAINS:
        at = f"corpus.{rule.domain}"
        picked, tokens = _value(figures, f"{at}.picked"), _value(figures, f"{at}.tokens")
        names = [n for n in ("sha256", "archive_sha256") if f"{at}.source.{n}" in figures.by_id]
        domains.append(
            Domain(
                domain=rule.domain,
                title=rule.title,
                prompts=picked,
                tokens=tokens,
                source=Source(
                    name="made up",
                    url="made up",
                    revision=_value(figures, f"{at}.source.revision"),
                    licence="made up",
                    field=_value(figures, f"{at}.source.field"),
                    source_id="made up",
                    files=tuple(
                        ArtifactFile(
                            name="a.zip" if name == "archive_sha256" else "a.json",
                            role="corpus",
                            bytes=1,
                            sha256=whole(_value(figures, f"{at}.source.{name}")),
                            pinned=True,
                        )
                        for name in names
                    ),
                ),
                selection=DomainSelection(
                    minimum_tokens=_value(figures, f"{at}.minimum_tokens"),
                    candidates=_value(figures, f"{at}.candidates"),
                    long_enough=_value(figures, f"{at}.long_enough"),
                    picked=picked,
                    tokens=tokens,
                ),
            )
        )
        prompts += [
            Prompt(
                prompt_id=f"{rule.domain}/{rank:03d}",
                domain=rule.domain,
                tokens=tokens // picked + (rank < tokens % picked),
                source_id=f"made up/{rank}",
                rank=rank,
                batch=0,
                characters=1,
                text_sha256=NO_HASH,
                route_sha256=NO_HASH,
            )
            for rank in range(picked)
        ]
    layers = []
    for layer in LAYERS:
        rows = []
        for number, prompt in enumerate(prompts):
            row = [0] * EXPERTS
            spread(row, list(range(EXPERTS)), prompt.tokens * 6, prompt.tokens, number * 7)
            rows.append(row)
        own = {
            d.domain: [r for p, r in zip(prompts, rows, strict=True) if p.domain == d.domain]
            for d in domains
        }
        jsd = figures.by_id[f"corpus.layer-{layer}.prompt_balanced.jsd"]
        largest = _estimate(figures, jsd.id, 0.0)
        smaller = Estimate(
            point=largest.point / 2, percentile=Interval(low=0.0, high=0.01), bias=0.0
        )
        layers.append(
            CorpusLayer(
                layer=layer,
                counts_PE=tuple(map(tuple, rows)),
                domains=tuple(_loads(figures, layer, d.domain, own[d.domain]) for d in domains),
                divergences=tuple(
                    Divergence(
                        first=a.domain,
                        second=b.domain,
                        token_weighted=smaller,
                        prompt_balanced=largest if (a.domain, b.domain) == jsd.pair else smaller,
                    )
                    for a, b in itertools.combinations(domains, 2)
                ),
            )
        )
    identity = _identity(figures)
    return RoutingCorpus(
        schema_="llm-atlas/routing-corpus@1",
        **identity,
        routing=identity["architecture"].routing,
        record=None,
        selection=selection_record(),
        statistics=describe(Resampling(_value(figures, "corpus.statistics.replicates"))),
        docs=Docs(answers=(), does_not_answer=()),
        domains=tuple(domains),
        prompts=tuple(prompts),
        layers=tuple(layers),
    )
