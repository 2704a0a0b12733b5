"""Train the embedded checkpoint: `python -m capture.demo.train --help`.

Real text of four domains, a byte-level BPE of its own, AdamW, and the balance loss of
the architecture. Writes an artifact folder in the official file layout and a model card.
Needs the training texts, which are not part of the project; the result is committed.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from capture.demo.layout import write_checkpoint
from capture.demo.texts import Domain, load_domains
from capture.official import CONFIGURATION, MODELING, load_official_code

BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
SEQUENCES_PER_DOMAIN = {"en_encyclopedia": 8, "zh_news": 9, "code": 8, "math": 7}
LENGTH = 128
PEAK_LEARNING_RATE, FLOOR, WARMUP = 2e-3, 0.05, 100
EVALUATION_WINDOWS = 128


def train_tokenizer(domains: list[Domain], vocab_size: int) -> Tokenizer:
    """Byte-level BPE over the training texts; the two special tokens get the last ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # equal bytes of every domain, so that no domain owns the vocabulary
    budget = 1_500_000
    texts = []
    for domain in domains:
        used = 0
        for text in domain.train:
            if used > budget:
                break
            texts.append(text)
            used += len(text.encode())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([BOS, EOS])
    return tokenizer


def token_stream(tokenizer: Tokenizer, documents: list[str]) -> np.ndarray:
    """All documents, each between BOS and EOS, as one int64 array [J]."""
    bos, eos = tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS)
    ids: list[int] = []
    for encoding in tokenizer.encode_batch(documents):
        ids += [bos, *encoding.ids, eos]
    return np.asarray(ids, dtype=np.int64)


def unigram_entropy(ids_J: np.ndarray) -> float:
    """Entropy in nats of the tokens' own frequencies: no unigram model does better."""
    counts = np.bincount(ids_J)
    p = counts[counts > 0] / len(ids_J)
    return float(-(p * np.log(p)).sum())


@torch.no_grad()
def evaluate(model: Any, streams: dict[str, np.ndarray]) -> dict[str, Any]:
    """Held-out loss per domain, and the router's use and CV per MoE layer over all domains."""
    model.eval()
    loads = {}
    hooks = []
    for index, layer in enumerate(model.model.layers):
        if hasattr(layer.mlp, "gate"):
            loads[index] = torch.zeros(model.config.n_routed_experts, dtype=torch.int64)

            def count(_m: Any, _i: Any, out: Any, index: int = index) -> None:
                loads[index] += torch.bincount(out[0].flatten(), minlength=len(loads[index]))

            hooks.append(layer.mlp.gate.register_forward_hook(count))
    domains = {}
    for name, stream in streams.items():
        windows = min(EVALUATION_WINDOWS, (len(stream) - 1) // LENGTH)
        total, tokens = 0.0, 0
        for start in range(0, windows, 16):
            rows = [
                stream[i * LENGTH : i * LENGTH + LENGTH + 1]
                for i in range(start, min(start + 16, windows))
            ]
            batch = torch.from_numpy(np.stack(rows))
            logits = model(batch[:, :-1]).logits
            total += F.cross_entropy(
                logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum"
            ).item()
            tokens += batch[:, 1:].numel()
        entropy = unigram_entropy(stream[: windows * LENGTH])
        domains[name] = {
            "tokens": tokens,
            "loss": round(total / tokens, 4),
            "unigram_entropy": round(entropy, 4),
            "under_unigram": round(entropy - total / tokens, 4),
        }
    for hook in hooks:
        hook.remove()
    router = {
        str(index): {
            "used": int((load > 0).sum()),
            "cv": round(float(load.double().std(correction=0) / load.double().mean()), 4),
        }
        for index, load in loads.items()
    }
    model.train()
    return {"domains": domains, "router": router}


def learning_rate(step: int, steps: int) -> float:
    if step < WARMUP:
        return PEAK_LEARNING_RATE * (step + 1) / WARMUP
    progress = (step - WARMUP) / max(1, steps - WARMUP)
    return PEAK_LEARNING_RATE * (FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * progress)))


def train(
    model: Any, streams: dict[str, np.ndarray], steps: int, seed: int, held: dict[str, np.ndarray]
) -> list[dict[str, Any]]:
    """AdamW over random windows; returns the loss curve, with held-out evaluations."""
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=PEAK_LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.05
    )
    balance: list[torch.Tensor] = []
    for layer in model.model.layers:
        if hasattr(layer.mlp, "gate"):
            layer.mlp.gate.register_forward_hook(lambda _m, _i, out: balance.append(out[2]))
    curve = []
    running = []
    started = time.monotonic()
    for step in range(steps):
        rows = []
        for name, count in SEQUENCES_PER_DOMAIN.items():
            stream = streams[name]
            starts = rng.integers(0, len(stream) - LENGTH - 1, size=count)
            rows += [stream[s : s + LENGTH + 1] for s in starts]
        batch = torch.from_numpy(np.stack(rows))
        balance.clear()
        logits = model(batch[:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        (loss + torch.stack(balance).sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        optimizer.step()
        running.append(loss.item())
        if (step + 1) % 50 == 0:
            entry: dict[str, Any] = {"step": step + 1, "loss": round(float(np.mean(running)), 4)}
            if (step + 1) % 250 == 0 or step + 1 == steps:
                entry["held_out"] = evaluate(model, held)
            curve.append(entry)
            running = []
            seconds = time.monotonic() - started
            speed = (step + 1) * batch[:, :-1].numel() / seconds
            print(f"step {step + 1}/{steps} {speed:,.0f} tokens/s {json.dumps(entry)}", flush=True)
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m capture.demo.train")
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of training texts")
    parser.add_argument("--output", type=Path, required=True, help="artifact folder to complete")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=20260729)
    parser.add_argument("--tokenizer-only", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    own = Path(__file__).parent / "checkpoint"
    pins = {n: sha256((own / n).read_bytes()).hexdigest() for n in (CONFIGURATION, MODELING)}
    code = load_official_code(own, pins)
    fields = json.loads((own / "config.json").read_text())
    config = code.config_class(**fields)
    domains = load_domains(args.data_dir)
    tokenizer = train_tokenizer(domains, config.vocab_size)
    assert tokenizer.token_to_id(BOS) == config.bos_token_id, tokenizer.token_to_id(BOS)
    assert tokenizer.token_to_id(EOS) == config.eos_token_id, tokenizer.token_to_id(EOS)
    streams = {d.name: token_stream(tokenizer, d.train) for d in domains}
    held = {d.name: token_stream(tokenizer, d.held_out) for d in domains}
    print({n: len(s) for n, s in streams.items()}, {n: len(s) for n, s in held.items()})
    args.output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.output / "tokenizer.json"))
    if args.tokenizer_only:
        return
    model = code.causal_lm_class(config)
    model.train()
    curve = train(model, streams, args.steps, args.seed, held)
    # the figures of the card are those of the weights as committed, in bfloat16
    stored = {n: p.detach().to(torch.bfloat16) for n, p in model.state_dict().items()}
    model.load_state_dict({n: p.float() for n, p in stored.items()})
    final = evaluate(model, held)
    write_checkpoint(args.output, stored, config.num_hidden_layers)
    card = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "recipe": {
            "steps": args.steps,
            "sequences_per_step": SEQUENCES_PER_DOMAIN,
            "length": LENGTH,
            "optimizer": "AdamW, betas 0.9 and 0.95, weight decay 0.05, gradient norm 1",
            "peak_learning_rate": PEAK_LEARNING_RATE,
            "schedule": f"warm-up {WARMUP} steps, cosine to {FLOOR} of the peak",
            "balance_loss_alpha": config.aux_loss_alpha,
            "dtype": "float32, stored as bfloat16",
            "seed": args.seed,
            "held_out": "one document in 20 by SHA-256",
        },
        "data": [
            {
                "domain": d.name,
                "source": d.source,
                "sha256": d.source_sha256,
                "train_tokens": len(streams[d.name]),
                "held_out_tokens": len(held[d.name]),
            }
            for d in domains
        ],
        "made_with": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        },
        "held_out": final,
        "loss_curve": curve,
    }
    text = json.dumps(card, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (args.output / "training.json").write_text(text, encoding="utf-8")
    print(json.dumps(final, indent=1))


if __name__ == "__main__":
    main()
