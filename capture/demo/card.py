"""The model card of the embedded checkpoint, written from its training record.

Every figure in MODEL_CARD.md is one of training.json, which the training run wrote; a test
holds the two together.
"""

from __future__ import annotations

import json
from typing import Any

from atlas.contract.identity import Architecture

DOMAIN_TITLES = {
    "en_encyclopedia": "English",
    "zh_news": "Chinese headlines",
    "code": "Python code",
    "math": "mathematics",
}
CARD, RECORD = "MODEL_CARD.md", "training.json"


def model_card(record: dict[str, Any], architecture: Architecture) -> str:
    """Markdown of the card. `record` is training.json, `architecture` of config.json."""
    recipe, made = record["recipe"], record["made_with"]
    sequences = sum(recipe["sequences_per_step"].values())
    tokens = recipe["steps"] * sequences * recipe["length"]
    return f"""# Model card: the embedded checkpoint

A language model of DeepSeek-V2's architecture, small enough to be part of this repository. It
exists so that the capture can be run, seen and tested without a download. **It is not
DeepSeek-V2-Lite, and nothing that its router does says anything about that model.**

| | |
|---|---|
{_facts(record, architecture)}

The modeling code in this folder was written for this project, with the class, module and
parameter names of the official file. `make test-peer` runs the same weights in transformers'
native `deepseek_v2`; `tests/official` compares with the official file itself where one has it.

## Training

`python -m capture.demo.train --data-dir DIR --output DIR --steps {recipe["steps"]}`, then
`python -m capture.demo.seal`. {recipe["steps"]:,} steps of {sequences} sequences of
{recipe["length"]} tokens ({tokens:,} tokens), {recipe["optimizer"]}, peak learning rate
{recipe["peak_learning_rate"]}, {recipe["schedule"]}; sequence-wise balance loss
{recipe["balance_loss_alpha"]}; seed {recipe["seed"]}; {recipe["dtype"]}. Made with Python
{made["python"]}, torch {made["torch"]}, {made["threads"]} thread(s).

| domain | source | training tokens | held-out tokens | SHA-256 of the source bytes |
|---|---|---:|---:|---|
{_data_rows(record)}

The texts are not part of this repository. Held out is {recipe["held_out"]}.

## What it learnt

Measured on held-out text with the weights as committed. The unigram entropy is that of the
held-out tokens themselves: no model that ignores context can do better.

| domain | tokens | loss (nats) | unigram entropy | under it by |
|---|---:|---:|---:|---:|
{_loss_rows(record)}

Its router over the same held-out text of all domains:

| layer | experts used | CV of the load |
|---:|---:|---:|
{_router_rows(record, architecture.n_routed_experts)}

## Loss curve

Mean training loss over the 50 steps up to each point; all points are in `{RECORD}`.

| step | training loss | {" | ".join(f"held-out {t}" for t in DOMAIN_TITLES.values())} |
|---:|---:|{"---:|" * len(DOMAIN_TITLES)}
{_curve_rows(record)}
"""


def _facts(record: dict[str, Any], a: Architecture) -> str:
    last = a.num_hidden_layers - 1
    rows = {
        "parameters": f"{record['parameters']:,}, stored as bfloat16",
        "layers": f"{a.num_hidden_layers}: layer 0 dense, layers 1–{last} MoE; "
        f"layer {last} lies in both shards",
        "router": f"softmax, greedy top-{a.num_experts_per_tok} of {a.n_routed_experts} routed "
        f"experts, weights not renormalised; {a.n_shared_experts} shared experts",
        "attention": f"MLA: latent {a.kv_lora_rank}, decoupled RoPE key {a.qk_rope_head_dim}, "
        f"{a.num_attention_heads} heads, YaRN fields as in the official config",
        "hidden, dense and expert width": f"{a.hidden_size}, {a.intermediate_size} and "
        f"{a.moe_intermediate_size}",
        "tokenizer": f"its own byte-level BPE, {a.vocab_size:,} ids",
        "licence": "MIT",
    }
    return "\n".join(f"| {name} | {text} |" for name, text in rows.items())


def _data_rows(record: dict[str, Any]) -> str:
    return "\n".join(
        f"| {DOMAIN_TITLES[d['domain']]} | {d['source']} | {d['train_tokens']:,} | "
        f"{d['held_out_tokens']:,} | `{d['sha256']}` |"
        for d in record["data"]
    )


def _loss_rows(record: dict[str, Any]) -> str:
    found = record["held_out"]["domains"]
    return "\n".join(
        f"| {title} | {found[d]['tokens']:,} | {found[d]['loss']:.3f} | "
        f"{found[d]['unigram_entropy']:.3f} | {found[d]['under_unigram']:.3f} |"
        for d, title in DOMAIN_TITLES.items()
    )


def _router_rows(record: dict[str, Any], experts: int) -> str:
    layers = sorted(record["held_out"]["router"].items(), key=lambda item: int(item[0]))
    return "\n".join(f"| {n} | {row['used']} of {experts} | {row['cv']:.3f} |" for n, row in layers)


def _curve_rows(record: dict[str, Any]) -> str:
    rows = []
    for point in record["loss_curve"]:
        if "held_out" in point:
            found = point["held_out"]["domains"]
            cells = " | ".join(f"{found[d]['loss']:.3f}" for d in DOMAIN_TITLES)
            rows.append(f"| {point['step']:,} | {point['loss']:.3f} | {cells} |")
    return "\n".join(rows)


def card_of(record_bytes: bytes, architecture: Architecture) -> bytes:
    """The card's bytes from the record's."""
    return model_card(json.loads(record_bytes), architecture).encode("utf-8")
