"""The official file layout: two safetensors shards and their index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def shard_of(name: str, layers: int, routed_experts: int = 64) -> str:
    """Embedding, head and all whole layers in the first shard; the last layer spans both.

    Its attention, norms, gate and the first half of its experts lie in the first shard,
    the rest in the second, as in the official checkpoint, so the stop line is real.
    """
    last = f"model.layers.{layers - 1}."
    if name.startswith(last + "mlp.shared_experts."):
        return SHARDS[1]
    if name.startswith(last + "mlp.experts."):
        expert = int(name.removeprefix(last + "mlp.experts.").split(".")[0])
        return SHARDS[expert >= routed_experts // 2]
    return SHARDS[0]


def write_checkpoint(folder: Path, tensors: dict[str, Tensor], layers: int) -> None:
    """Write `tensors` (names as in the official index) as shards and index."""
    # torch only where weights are written: the names above serve commands that need none
    from safetensors.torch import save_file

    where = {name: shard_of(name, layers) for name in sorted(tensors)}
    for shard in SHARDS:
        part = {n: tensors[n].contiguous() for n, s in where.items() if s == shard}
        save_file(part, str(folder / shard), metadata={"format": "pt"})
        (folder / shard).chmod(0o644)
    index = {
        "metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())},
        "weight_map": where,
    }
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
