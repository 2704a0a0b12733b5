"""Small valid datasets for tests of the site: made here, measured by nobody.

`corpus` takes integer counts [P, E] per layer and fills in the statistics from their
definitions, with a small bootstrap, so that its figures agree with its counts.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np

from atlas.canonical import canonical_json, rounded
from atlas.contract import Comparison, Routes, RoutingCorpus, Trace

REPLICATES = 50
SEED = 20260729

MODEL = {
    "slug": "sample-model",
    "title": "Sample Model",
    "repository": "example/sample-model",
    "revision": "0123456789abcdef",
    "licence": "MIT",
}
DEMO = MODEL | {"slug": "sample-demo", "title": "Sample demo"}


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _both(text: str) -> dict[str, str]:
    return {"en": text, "zh": f"{text}（中文）"}


def _metrics(p_E: np.ndarray) -> dict[str, float]:
    experts = len(p_E)
    used = p_E[p_E > 0]
    ranks = np.arange(1, experts + 1)
    return {
        "cv": float(p_E.std() / p_E.mean()),
        "gini": float(2 * (ranks * np.sort(p_E)).sum() / experts - (experts + 1) / experts),
        "effective_experts": float(np.exp(-(used * np.log(used)).sum())),
        "top_share": float(p_E.max()),
    }


def _jsd(p_E: np.ndarray, q_E: np.ndarray) -> float:
    m_E = (p_E + q_E) / 2

    def kl(a_E: np.ndarray) -> float:
        on = a_E > 0
        return float((a_E[on] * np.log(a_E[on] / m_E[on])).sum())

    return max(0.0, (kl(p_E) + kl(q_E)) / 2)


def _estimate(point: float, replicates: list[float]) -> dict[str, Any]:
    low, high = np.percentile(replicates, [2.5, 97.5])
    return {
        "point": rounded(point),
        "percentile": {"low": rounded(low), "high": rounded(high)},
        "bias": rounded(float(np.mean(replicates)) - point),
        "bca": None,
        "token_unit": None,
    }


def _shares(counts_PE: np.ndarray, weighting: str) -> np.ndarray:
    if weighting == "token_weighted":
        total_E = counts_PE.sum(axis=0)
        return np.asarray(total_E / total_E.sum())
    return np.asarray((counts_PE / counts_PE.sum(axis=1, keepdims=True)).mean(axis=0))


def _load(counts_PE: np.ndarray, weighting: str, picks_RP: np.ndarray) -> dict[str, Any]:
    p_E = _shares(counts_PE, weighting)
    shares_RE = np.array([_shares(counts_PE[pick], weighting) for pick in picks_RP])
    point = _metrics(p_E)
    resampled = [_metrics(row) for row in shares_RE]
    low_E, high_E = np.percentile(shares_RE, [2.5, 97.5], axis=0)
    order = sorted(range(len(p_E)), key=lambda e: (-p_E[e], e))
    half = int(np.searchsorted(np.cumsum(p_E[order]), 0.5)) + 1
    return {
        "used": int((counts_PE.sum(axis=0) > 0).sum()),
        "zero": int((counts_PE.sum(axis=0) == 0).sum()),
        "top_expert": order[0],
        **{k: _estimate(v, [r[k] for r in resampled]) for k, v in point.items()},
        "coverage": [{"share": 0.5, "expert_ids": order[:half]}],
        "shares": {
            "point_E": [rounded(x) for x in p_E],
            "low_E": [rounded(x) for x in low_E],
            "high_E": [rounded(x) for x in high_E],
        },
    }


def corpus(
    counts: dict[int, dict[str, Any]],
    k: int,
    *,
    evidence: str = "imported",
    model: dict[str, str] | None = None,
    titles: dict[str, dict[str, str]] | None = None,
) -> RoutingCorpus:
    """Corpus of `counts[layer][domain]`, integers [P, E]."""
    layers = sorted(counts)
    names = list(counts[layers[0]])
    arrays = {n: {d: np.asarray(counts[n][d]) for d in names} for n in layers}
    experts = arrays[layers[0]][names[0]].shape[1]
    rng = np.random.default_rng(SEED)
    sizes = {d: arrays[layers[0]][d].shape[0] for d in names}
    picks = {d: rng.integers(0, sizes[d], (REPLICATES, sizes[d])) for d in names}
    tokens = {d: arrays[layers[0]][d].sum(axis=1) // k for d in names}
    prompts = [
        {
            "prompt_id": f"{d}-{i:04d}",
            "domain": d,
            "tokens": int(tokens[d][i]),
            "source_id": None,
            "rank": None,
            "batch": None,
            "characters": None,
            "text_sha256": None,
            "route_sha256": digest(f"{d}{i}"),
        }
        for d in names
        for i in range(sizes[d])
    ]
    content: dict[str, Any] = {
        "schema": "llm-atlas/routing-corpus@1",
        "contract": "1",
        "evidence": evidence,
        "model": model or (DEMO if evidence == "demo" else MODEL),
        "artifacts": [],
        "routing": {
            "moe_layers": layers,
            "n_routed_experts": experts,
            "num_experts_per_tok": k,
        },
        "architecture": None,
        "stop_line": None,
        "environment": None,
        "record": _record() if evidence == "imported" else None,
        "captured_at": None,
        "selection": None,
        "statistics": {
            "replicates": REPLICATES,
            "seed": SEED,
            "unit": "prompt",
            "stratified_by": "domain",
            "interval": "percentile 2.5 to 97.5",
            "weightings": ["token_weighted", "prompt_balanced"],
            "decimals": 8,
        },
        "docs": {
            "answers": [_both("How figures move with other prompts of this sample.")],
            "does_not_answer": [_both("What any expert is for.")],
        },
        "domains": [
            {
                "domain": d,
                "title": (titles or {}).get(d) or {"en": d.title(), "zh": f"{d} 域"},
                "prompts": sizes[d],
                "tokens": int(tokens[d].sum()),
                "source": None,
                "selection": None,
            }
            for d in names
        ],
        "prompts": prompts,
        "layers": [_layer(n, arrays[n], names, picks) for n in layers],
    }
    if evidence in ("demo", "captured"):
        content |= _ran_here(layers, experts, k)
    return RoutingCorpus.model_validate_json(canonical_json(content))


def _layer(
    number: int, counts: dict[str, np.ndarray], names: list[str], picks: dict[str, np.ndarray]
) -> dict[str, Any]:
    domains = [
        {
            "domain": d,
            **{w: _load(counts[d], w, picks[d]) for w in ("token_weighted", "prompt_balanced")},
            "gate_mass_E": None,
        }
        for d in names
    ]
    pairs = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            entry: dict[str, Any] = {"first": a, "second": b}
            for w in ("token_weighted", "prompt_balanced"):
                replicates = [
                    _jsd(_shares(counts[a][p], w), _shares(counts[b][q], w))
                    for p, q in zip(picks[a], picks[b], strict=True)
                ]
                point = _jsd(_shares(counts[a], w), _shares(counts[b], w))
                entry[w] = _estimate(point, replicates)
            pairs.append(entry)
    return {
        "layer": number,
        "counts_PE": [row for d in names for row in counts[d].tolist()],
        "domains": domains,
        "divergences": pairs,
    }


def random_counts(
    layers: tuple[int, ...], domains: tuple[str, ...], experts: int, k: int, prompts: int = 5
) -> dict[int, dict[str, Any]]:
    """Counts of made-up routes: k different experts per token, more skewed in later domains."""
    rng = np.random.default_rng(7)
    lengths = {d: rng.integers(6, 20, prompts) for d in domains}
    result: dict[int, dict[str, Any]] = {}
    for number in layers:
        result[number] = {}
        for skew, d in enumerate(domains):
            taste_E = rng.normal(0, 0.4 + 0.3 * skew, experts)
            rows = []
            for length in lengths[d]:
                scores_TE = rng.gumbel(size=(length, experts)) + taste_E
                chosen_TK = np.argsort(-scores_TE, axis=1)[:, :k]
                rows.append(np.bincount(chosen_TK.ravel(), minlength=experts).tolist())
            result[number][d] = rows
    return result


def _record() -> dict[str, Any]:
    return {
        "publisher": "Example Lab",
        "repository": "https://example.org/record",
        "commit": "579a7711e4b332b4c57b47e378a0cf240d85caa6",
        "paper": "A paper",
        "licence": "MIT",
        "files": [
            {
                "name": "scores.txt",
                "role": "corpus",
                "bytes": 10,
                "sha256": digest("scores"),
                "pinned": True,
            }
        ],
        "not_recorded": [_both("prompt texts")],
        "checks": [{"name": "shares", "rule": "four decimals", "total": 8, "agreeing": 8}],
    }


def _ran_here(layers: list[int], experts: int, k: int) -> dict[str, Any]:
    return {
        "artifacts": [
            _artifact("config.json", "config"),
            _artifact("model-1.safetensors", "shard"),
        ],
        "architecture": architecture(max(layers) + 2, experts, k),
        "stop_line": {
            "executed_layers": list(range(max(layers) + 1)),
            "reason": "tensors_missing",
            "first_missing_layer": max(layers) + 1,
            "missing_files": ["model-2.safetensors"],
        },
        "environment": environment(),
        "selection": {
            "salt": "s",
            "order": "SHA-256",
            "per_domain": 5,
            "maximum_tokens": 96,
            "special_tokens": True,
            "truncation": "right",
            "batch_size": 16,
            "batch_order": "tokens, domain, source_id",
            "padding": "right",
        },
    }


def _artifact(name: str, role: str) -> dict[str, Any]:
    return {"name": name, "role": role, "bytes": 12, "sha256": digest(name), "pinned": True}


def environment() -> dict[str, Any]:
    return {
        "python": "3.11",
        "torch": "2.13.0",
        "cuda": None,
        "transformers": "4.41.2",
        "tokenizers": "0.19.1",
        "safetensors": "0.5",
        "numpy": "2.4",
        "device": "cpu",
        "instruction_set": "AVX2",
        "threads": 1,
        "dtype": "bfloat16",
        "tf32": False,
        "deterministic_algorithms": True,
        "attention": "eager",
    }


def architecture(layers: int, experts: int, k: int) -> dict[str, Any]:
    return {
        "vocab_size": 100,
        "hidden_size": 16,
        "num_hidden_layers": layers,
        "intermediate_size": 32,
        "moe_intermediate_size": 8,
        "n_routed_experts": experts,
        "n_shared_experts": 2,
        "num_experts_per_tok": k,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "norm_topk_prob": False,
        "scoring_func": "softmax",
        "topk_method": "greedy",
        "routed_scaling_factor": 1.0,
        "num_attention_heads": 2,
        "q_lora_rank": None,
        "kv_lora_rank": 8,
        "qk_nope_head_dim": 4,
        "qk_rope_head_dim": 2,
        "v_head_dim": 4,
        "max_position_embeddings": 128,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "torch_dtype": "bfloat16",
    }


def trace(
    *,
    experts: int = 8,
    k: int = 2,
    moe_layers: tuple[int, ...] = (1, 2),
    texts: dict[str, list[str]] | None = None,
    evidence: str = "demo",
) -> Trace:
    """Trace over `texts`: prompt id -> pieces. Its routes are made up, its counts follow."""
    texts = texts or {"zh_explanation": ["路", "由"], "code": ["def", " f", "()"]}
    rng = np.random.default_rng(11)
    longest = max(len(p) for p in texts.values())
    layers = []
    for number in range(max(moe_layers) + 1):
        layers.append(
            {
                "layer": number,
                "kind": "moe" if number in moe_layers else "dense",
                "hidden_sha256": digest(f"hidden{number}"),
                "mla": {
                    "projection": [len(texts), longest, 10],
                    "key": [len(texts), 2, longest, 6],
                    "value": [len(texts), 2, longest, 4],
                    "cache_dtype": "bfloat16",
                },
                "moe": _moe(texts, experts, k, rng) if number in moe_layers else None,
            }
        )
    content = {
        "schema": "llm-atlas/trace@1",
        "contract": "1",
        "evidence": evidence,
        "model": DEMO if evidence == "demo" else MODEL,
        **{
            key: value
            for key, value in _ran_here(list(moe_layers), experts, k).items()
            if key != "selection"
        },
        "captured_at": None,
        "prompts": [
            {
                "prompt_id": prompt.replace("_", "-"),
                "label": _both(prompt),
                "text": "".join(pieces),
                "text_sha256": digest("".join(pieces)),
                "token_ids_T": list(range(len(pieces))),
                "pieces_T": pieces,
            }
            for prompt, pieces in texts.items()
        ],
        "batch": {
            "shape": [len(texts), longest],
            "padding": "right",
            "pad_token_id": 0,
            "input_ids_sha256": digest("ids"),
        },
        "initial_hidden_sha256": digest("initial"),
        "final_hidden_sha256": digest("final"),
        "cache_ledger": {
            "element_bytes": 2,
            "eager_elements": 20,
            "latent_elements": 10,
            "eager_bytes": 40,
            "latent_bytes": 20,
            "ratio": 2.0,
            "reduction": 0.5,
        },
        "layers": layers,
        "timing": {"layer_seconds": [0.1] * len(layers), "total_seconds": 1.0},
    }
    return Trace.model_validate_json(canonical_json(content))


def _summary(counts_E: list[int]) -> dict[str, Any]:
    p_E = np.asarray(counts_E) / sum(counts_E)
    figures = _metrics(p_E)
    return {
        "selections": sum(counts_E),
        "used": sum(c > 0 for c in counts_E),
        "zero": sum(c == 0 for c in counts_E),
        "cv": rounded(figures["cv"]),
        "gini": rounded(figures["gini"]),
        "effective_experts": rounded(figures["effective_experts"]),
        "top_expert": max(range(len(counts_E)), key=lambda e: (counts_E[e], -e)),
        "top_count": max(counts_E),
    }


def _moe(
    texts: dict[str, list[str]], experts: int, k: int, rng: np.random.Generator
) -> dict[str, Any]:
    total, prompts, routes, sums, margins = [0] * experts, [], [], [], []
    for prompt, pieces in texts.items():
        ids_TK, weights_TK, margin_T, counts = [], [], [], [0] * experts
        for _ in pieces:
            score_E = rng.dirichlet(np.ones(experts))
            order = sorted(range(experts), key=lambda e: (-score_E[e], e))
            ids_TK.append(order[:k])
            weights_TK.append([rounded(score_E[e]) for e in order[:k]])
            margin_T.append(rounded(score_E[order[k - 1]] - score_E[order[k]]))
            for e in order[:k]:
                counts[e] += 1
        name = prompt.replace("_", "-")
        total = [a + b for a, b in zip(total, counts, strict=True)]
        prompts.append({"prompt_id": name, "counts_E": counts, "summary": _summary(counts)})
        routes.append(
            {
                "prompt_id": name,
                "expert_ids_TK": ids_TK,
                "weights_TK": weights_TK,
                "margin_T": margin_T,
            }
        )
        sums += [sum(w) for w in weights_TK]
        margins += margin_T
    names = [p["prompt_id"] for p in prompts]
    return {
        "counts_E": total,
        "summary": _summary(total),
        "mean_topk_weight_sum": rounded(float(np.mean(sums))),
        "smallest_margin": min(margins),
        "near_ties": [
            {"margin": m, "share_at_or_above": rounded(float(np.mean([x >= m for x in margins])))}
            for m in (0.0001, 0.001, 0.01)
        ],
        "prompts": prompts,
        "jaccard": [
            {"first": a, "second": b, "jaccard": 0.5}
            for i, a in enumerate(names)
            for b in names[i + 1 :]
        ],
        "routes": routes,
    }


def comparison(first: bytes) -> Comparison:
    """Comparison of the trace file `first` with a rerun."""
    checks = [
        {"name": "configuration", "layer": None, "exact": True, "first": "a", "second": "a"},
        {"name": "routes", "layer": 1, "exact": True, "first": "b", "second": "b"},
    ]
    content = {
        "schema": "llm-atlas/comparison@1",
        "contract": "1",
        "evidence": "demo",
        "first": {"sha256": sha256(first).hexdigest(), "captured_at": None},
        "second": {"sha256": digest("rerun"), "captured_at": None},
        "timing_compared": False,
        "exact": 2,
        "total": 2,
        "checks": checks,
    }
    return Comparison.model_validate_json(canonical_json(content))


def routes(
    *,
    experts: int = 8,
    k: int = 2,
    layers: tuple[int, ...] = (1, 2),
    tokens: int = 4,
    model: dict[str, str] = MODEL,
) -> Routes:
    """Ordered routes of two prompts, weights of four decimals."""
    rng = np.random.default_rng(13)
    prompts = [("alpha-0001", "alpha", tokens), ("beta-0002", "beta", 3)]

    def row() -> tuple[list[int], list[float]]:
        score_E = np.round(rng.dirichlet(np.ones(experts)), 4)
        order = sorted(range(experts), key=lambda e: (-score_E[e], e))[:k]
        return order, [float(score_E[e]) for e in order]

    content = {
        "schema": "llm-atlas/routes@1",
        "contract": "1",
        "evidence": "imported",
        "model": model,
        "artifacts": [],
        "routing": {
            "moe_layers": list(layers),
            "n_routed_experts": experts,
            "num_experts_per_tok": k,
        },
        "record": _record(),
        "weight_decimals": 4,
        "choice": "the two shortest",
        "docs": {
            "answers": [_both("Which experts these tokens went to.")],
            "does_not_answer": [_both("What any expert is for.")],
        },
        "prompts": [
            {
                "prompt_id": p,
                "domain": d,
                "tokens": n + 2,
                "positions": n,
                "route_sha256": digest(p),
            }
            for p, d, n in prompts
        ],
        "layers": [],
    }
    for number in layers:
        entry: dict[str, Any] = {"layer": number, "prompts": []}
        for p, _, n in prompts:
            rows = [row() for _ in range(n)]
            entry["prompts"].append(
                {
                    "prompt_id": p,
                    "expert_ids_TK": [ids for ids, _ in rows],
                    "weights_TK": [weights for _, weights in rows],
                    "weight_sum_T": [rounded(sum(weights)) for _, weights in rows],
                }
            )
        content["layers"].append(entry)
    return Routes.model_validate_json(canonical_json(content))


def folder() -> dict[str, bytes]:
    """A data folder with one dataset of every kind: an imported model and a demo."""
    a_trace = canonical_json(trace())
    counts = random_counts((1, 2), ("alpha", "beta", "gamma"), 8, 2)
    demo = random_counts((1, 2), ("alpha", "beta"), 8, 2)
    return {
        "sample-corpus.json": canonical_json(corpus(counts, 2)),
        "sample-routes.json": canonical_json(routes()),
        "demo-trace.json": a_trace,
        "demo-trace-comparison.json": canonical_json(comparison(a_trace)),
        "demo-corpus.json": canonical_json(corpus(demo, 2, evidence="demo")),
    }
