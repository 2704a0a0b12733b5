"""Record what our modeling code does in float32, for the comparison in the peer environment.

    python tests/peer/ours.py OUT.npz [--checkpoint DIR]

Runs under transformers 4.41.2. Fixed token ids [4, 27], right-padded to the lengths of the
trace prompts. Written: input_ids_BT int64, lengths_B int64 and, for layer number l,
projection_l [B,T,C+R] float32 (kv_a_proj_with_mqa) and, in MoE layers, expert_ids_l [B,T,K]
int64 in no particular order. Padded positions are recorded too; whoever compares leaves
them out.

Axes: B batch, T position, K selected expert, C latent, R decoupled RoPE key.
"""

from __future__ import annotations

import argparse
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from capture.demo.layout import SHARDS
from capture.official import CONFIGURATION, MODELING, load_official_code

CHECKPOINT = Path(__file__).parents[2] / "capture/demo/checkpoint"
LENGTHS_B = (26, 18, 19, 27)


def record(checkpoint: Path) -> dict[str, np.ndarray]:
    """Arrays of one forward pass of `checkpoint`, by name."""
    pins = {n: sha256((checkpoint / n).read_bytes()).hexdigest() for n in (CONFIGURATION, MODELING)}
    code = load_official_code(checkpoint, pins)
    config = code.config_class(**json.loads((checkpoint / "config.json").read_text("utf-8")))
    model = code.causal_lm_class(config)
    weights = {n: t for shard in SHARDS for n, t in load_file(checkpoint / shard).items()}
    model.load_state_dict(weights, strict=True)
    model.float().eval()

    generator = torch.Generator().manual_seed(20260729)
    input_ids_BT = torch.randint(config.vocab_size, (len(LENGTHS_B), 27), generator=generator)
    lengths_B = torch.tensor(LENGTHS_B)
    arrays = {"input_ids_BT": input_ids_BT.numpy(), "lengths_B": lengths_B.numpy()}

    def keep(name: str, place: int | None) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            tensor = output if place is None else output[place]
            arrays[name] = tensor.reshape(*input_ids_BT.shape, -1).numpy().copy()

        return hook

    for index, layer in enumerate(model.model.layers):
        layer.self_attn.kv_a_proj_with_mqa.register_forward_hook(keep(f"projection_{index}", None))
        if hasattr(layer.mlp, "gate"):
            layer.mlp.gate.register_forward_hook(keep(f"expert_ids_{index}", 0))
    mask_BT = (torch.arange(27) < lengths_B.unsqueeze(1)).long()
    with torch.inference_mode():
        model(input_ids_BT, attention_mask=mask_BT)
    return arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    args = parser.parse_args()
    np.savez(args.output, **record(args.checkpoint))


if __name__ == "__main__":
    main()
