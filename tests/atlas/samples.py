"""Small valid files of every kind, as JSON values that a test may change before parsing them.

Eight experts, top-2, layer 0 dense, layers 1 and 2 MoE, layer 3 without its tensors. Every
number that depends on others is computed; routes are made up, and so is everything that is
named "sample".
"""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Any

import numpy as np

from atlas.canonical import canonical_json, rounded
from atlas.load import jaccard, summarize
from atlas.resample import Resampling
from atlas.statistics import describe, layer_statistics

EXPERTS, TOP_K = 8, 2
MOE_LAYERS = (1, 2)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def routes(prompt: int, layer: int, tokens: int) -> list[list[int]]:
    """Ids [T, K] of one prompt: two different experts a token."""
    starts = [(3 * prompt + 5 * layer + token * token) % EXPERTS for token in range(tokens)]
    return [[start, (start + 1 + prompt) % EXPERTS] for start in starts]


def counts(ids_TK: list[list[int]]) -> list[int]:
    return np.bincount(np.ravel(ids_TK), minlength=EXPERTS).tolist()


def _identity() -> dict[str, Any]:
    return {
        "model": {
            "slug": "sample-model",
            "title": "Sample model",
            "repository": "example/sample-model",
            "revision": "0" * 40,
            "licence": "MIT",
        },
        "artifacts": [
            {
                "name": "config.json",
                "role": "config",
                "bytes": 1_234,
                "sha256": _hash("config"),
                "pinned": True,
            },
            {
                "name": "model-00001-of-00002.safetensors",
                "role": "shard",
                "bytes": 99,
                "sha256": None,
                "pinned": False,
            },
        ],
        "architecture": {
            "vocab_size": 100,
            "hidden_size": 16,
            "num_hidden_layers": 4,
            "intermediate_size": 32,
            "moe_intermediate_size": 8,
            "n_routed_experts": EXPERTS,
            "n_shared_experts": 2,
            "num_experts_per_tok": TOP_K,
            "first_k_dense_replace": 1,
            "moe_layer_freq": 1,
            "norm_topk_prob": False,
            "scoring_func": "softmax",
            "topk_method": "greedy",
            "routed_scaling_factor": 1.0,
            "num_attention_heads": 2,
            "q_lora_rank": None,
            "kv_lora_rank": 8,
            "qk_nope_head_dim": 8,
            "qk_rope_head_dim": 4,
            "v_head_dim": 8,
            "max_position_embeddings": 128,
            "rope_theta": 10_000.0,
            "rope_scaling": {"type": "yarn", "factor": 40.0},
            "torch_dtype": "bfloat16",
        },
        "stop_line": {
            "executed_layers": [0, 1, 2],
            "reason": "tensors_missing",
            "first_missing_layer": 3,
            "missing_files": ["model-00002-of-00002.safetensors"],
        },
        "environment": {
            "python": "3.11",
            "torch": "2.13.0",
            "cuda": None,
            "transformers": "4.41.2",
            "tokenizers": "0.19.1",
            "safetensors": "0.8.0",
            "numpy": "2.4.6",
            "device": "cpu",
            "instruction_set": "sample",
            "threads": 1,
            "dtype": "bfloat16",
            "tf32": False,
            "deterministic_algorithms": True,
            "attention": "eager",
        },
        "captured_at": "2026-07-29T07:45:00+00:00",
        "evidence": "demo",
        "contract": "1",
    }


def trace() -> dict[str, Any]:
    """A valid `llm-atlas/trace@1`: prompts of 3 and 2 tokens."""
    lengths = {"zh": 3, "code": 2}
    texts = {"zh": "你好<b>", "code": "a = 1\n"}
    eager, latent = 2 * (8 + 4 + 8), 8 + 4

    def moe(layer: int) -> dict[str, Any]:
        ids = {name: routes(p, layer, n) for p, (name, n) in enumerate(lengths.items())}
        own = {name: counts(ids_TK) for name, ids_TK in ids.items()}
        total = [a + b for a, b in zip(own["zh"], own["code"], strict=True)]
        return {
            "counts_E": total,
            "summary": summarize(total).model_dump(mode="json"),
            "mean_topk_weight_sum": 0.75,
            "smallest_margin": 0.125,
            "near_ties": [{"margin": 0.001, "share_at_or_above": 1.0}],
            "prompts": [
                {
                    "prompt_id": name,
                    "counts_E": own[name],
                    "summary": summarize(own[name]).model_dump(mode="json"),
                }
                for name in lengths
            ],
            "jaccard": [
                {
                    "first": "zh",
                    "second": "code",
                    "jaccard": rounded(jaccard(own["zh"], own["code"])),
                }
            ],
            "routes": [
                {
                    "prompt_id": name,
                    "expert_ids_TK": ids[name],
                    "weights_TK": [[0.5, 0.25]] * n,
                    "margin_T": [0.125] * n,
                }
                for name, n in lengths.items()
            ],
        }

    return {
        **_identity(),
        "schema": "llm-atlas/trace@1",
        "prompts": [
            {
                "prompt_id": name,
                "label": {"en": name, "zh": name},
                "text": texts[name],
                "text_sha256": _hash(texts[name]),
                "token_ids_T": list(range(1, n + 1)),
                "pieces_T": list("abc"[:n]),
            }
            for name, n in lengths.items()
        ],
        "batch": {
            "shape": [2, 3],
            "padding": "right",
            "pad_token_id": 0,
            "input_ids_sha256": _hash("ids"),
        },
        "initial_hidden_sha256": _hash("initial"),
        "final_hidden_sha256": _hash("final"),
        "cache_ledger": {
            "element_bytes": 2,
            "eager_elements": eager,
            "latent_elements": latent,
            "eager_bytes": 2 * eager,
            "latent_bytes": 2 * latent,
            "ratio": rounded(eager / latent),
            "reduction": rounded(1 - latent / eager),
        },
        "layers": [
            {
                "layer": layer,
                "kind": "moe" if layer in MOE_LAYERS else "dense",
                "hidden_sha256": _hash(f"hidden {layer}"),
                "mla": {
                    "projection": [2, 3, 12],
                    "key": [2, 2, 3, 12],
                    "value": [2, 2, 3, 8],
                    "cache_dtype": "bfloat16",
                },
                "moe": moe(layer) if layer in MOE_LAYERS else None,
            }
            for layer in range(3)
        ],
        "timing": {"layer_seconds": [0.1, 0.2, 0.3], "total_seconds": 0.7},
    }


def comparison() -> dict[str, Any]:
    """A valid `llm-atlas/comparison@1` with one check that is not exact."""
    return {
        "schema": "llm-atlas/comparison@1",
        "contract": "1",
        "evidence": "demo",
        "first": {"sha256": _hash("first"), "captured_at": "2026-07-29T05:55:35+00:00"},
        "second": {"sha256": _hash("second"), "captured_at": None},
        "timing_compared": False,
        "exact": 1,
        "total": 2,
        "checks": [
            {"name": "provenance", "layer": None, "exact": True, "first": "a", "second": "a"},
            {"name": "layer 1 load", "layer": 1, "exact": False, "first": "b", "second": "c"},
        ],
    }


def corpus() -> dict[str, Any]:
    """A valid `llm-atlas/routing-corpus@1`: two domains of three and two prompts."""
    sizes = {"zh": [3, 5, 4], "code": [6, 2]}
    prompts = [
        {
            "prompt_id": f"{domain}-{rank}",
            "domain": domain,
            "tokens": tokens,
            "source_id": f"sample/{rank}",
            "rank": rank,
            "batch": 0,
            "characters": 9,
            "text_sha256": _hash(f"{domain} {rank}"),
            "route_sha256": _hash(f"routes {domain} {rank}"),
        }
        for domain, lengths in sizes.items()
        for rank, tokens in enumerate(lengths)
    ]
    resampling = Resampling(20)
    layers = []
    for layer in MOE_LAYERS:
        ids = [routes(p, layer, prompt["tokens"]) for p, prompt in enumerate(prompts)]
        statistics = layer_statistics(
            layer,
            np.array([counts(ids_TK) for ids_TK in ids]),
            [prompt["domain"] for prompt in prompts],
            list(sizes),
            resampling,
            token_ids={"zh": np.concatenate(ids[:3]), "code": np.concatenate(ids[3:])},
            gate_mass={domain: [0.0625] * EXPERTS for domain in sizes},
        )
        layers.append(statistics.model_dump(mode="json"))
    return {
        **_identity(),
        "schema": "llm-atlas/routing-corpus@1",
        "routing": {
            "moe_layers": [1, 2, 3],
            "n_routed_experts": EXPERTS,
            "num_experts_per_tok": TOP_K,
        },
        "record": None,
        "selection": {
            "salt": "sample-salt",
            "order": "sha256",
            "per_domain": 3,
            "maximum_tokens": 96,
            "special_tokens": True,
            "truncation": "right",
            "batch_size": 16,
            "batch_order": "tokens, domain, source_id",
            "padding": "right",
        },
        "statistics": describe(resampling).model_dump(mode="json"),
        "docs": {
            "answers": [{"en": "sample", "zh": "样例"}],
            "does_not_answer": [{"en": "sample", "zh": "样例"}],
        },
        "domains": [
            {
                "domain": domain,
                "title": {"en": domain, "zh": domain},
                "prompts": len(lengths),
                "tokens": sum(lengths),
                "source": None,
                "selection": {
                    "minimum_tokens": 2,
                    "candidates": 9,
                    "long_enough": 5,
                    "picked": len(lengths),
                    "tokens": sum(lengths),
                },
            }
            for domain, lengths in sizes.items()
        ],
        "prompts": prompts,
        "layers": layers,
    }


def ordered_routes() -> dict[str, Any]:
    """A valid `llm-atlas/routes@1`: one prompt of four tokens, three of them shown."""
    identity = _identity()
    return {
        "schema": "llm-atlas/routes@1",
        "contract": "1",
        "evidence": "demo",
        "model": identity["model"],
        "artifacts": identity["artifacts"],
        "routing": {
            "moe_layers": [1, 2, 3],
            "n_routed_experts": EXPERTS,
            "num_experts_per_tok": TOP_K,
        },
        "record": None,
        "weight_decimals": None,
        "choice": "sample",
        "docs": {"answers": [], "does_not_answer": []},
        "prompts": [
            {
                "prompt_id": "zh-0",
                "domain": "zh",
                "tokens": 4,
                "positions": 3,
                "route_sha256": _hash("routes zh 0"),
            }
        ],
        "layers": [
            {
                "layer": layer,
                "prompts": [
                    {
                        "prompt_id": "zh-0",
                        "expert_ids_TK": routes(0, layer, 3),
                        "weights_TK": [[0.5, 0.25]] * 3,
                        "weight_sum_T": [math.fsum((0.5, 0.25))] * 3,
                    }
                ],
            }
            for layer in MOE_LAYERS
        ],
    }


KINDS = {
    "trace": trace,
    "comparison": comparison,
    "corpus": corpus,
    "ordered_routes": ordered_routes,
}


def written(content: dict[str, Any]) -> bytes:
    """The bytes of a file with that content."""
    return canonical_json(content)
