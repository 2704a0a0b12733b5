"""One decoder layer at a time: built on the meta device, bound to mmapped weights, run, freed.

Layer-outer: every batch passes a layer before the next layer is read, so each weight byte is
read once however many batches there are. While a layer computes, the next one's bytes are
already asked for; a layer is freed before the next one is mapped.

Axes: B batch row, T position, D hidden, K selected expert, H head, V vocabulary.

Traps of the official code under transformers 4.41.2, met here:
- a fresh module is in training mode and takes another MoE path: `.eval()`;
- rotary tables are buffers outside the checkpoint; on the meta device they have no data and
  are made at the first forward, since no length is cached yet;
- the eager path needs an additive 4-D mask, and position ids, which it does not miss aloud;
- a fresh DynamicCache per layer holds one entry, so the attention must call itself layer 0;
- the gate returns ids unsorted, and routes padded positions too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache
from transformers.modeling_attn_mask_utils import _prepare_4d_causal_attention_mask

from capture.artifacts import Artifact
from capture.errors import Refusal
from capture.observe import LayerObservation, Observer
from capture.official import OfficialCode
from capture.prefetch import Ahead, Unreadable, Weights, fetch, look_up, to_device, wait_for
from capture.tensors import EMBEDDING, layer_prefix, layer_shapes


@dataclass(frozen=True)
class TokenBatch:
    """Right-padded prompts. input_ids_BT int64; lengths_B counts valid tokens, at least 1."""

    input_ids_BT: Tensor
    lengths_B: tuple[int, ...]

    @property
    def attention_mask_BT(self) -> Tensor:
        position = torch.arange(self.input_ids_BT.shape[1])
        return (position < torch.tensor(self.lengths_B).unsqueeze(1)).long()


@dataclass(frozen=True)
class LayerResult:
    """What one layer did: its output [B,T,D] of every batch and the output's hash, and what
    was observed in it. `hidden` is empty for a layer that was read from a work folder."""

    layer: int
    hidden: tuple[Tensor, ...]
    hidden_sha256: tuple[str, ...]
    observations: tuple[LayerObservation, ...]
    seconds: float
    weight_bytes: int


class Streamer:
    """Runs the layers of one artifact over fixed batches.

    The config is the artifact's own; attention is eager; weights are bfloat16. `prefetch`
    asks for the next layer while one runs; `reads` counts how often each tensor was read.
    """

    def __init__(
        self,
        artifact: Artifact,
        code: OfficialCode,
        device: torch.device,
        *,
        prefetch: bool = True,
    ) -> None:
        self.artifact, self.code, self.device = artifact, code, device
        self.prefetch = prefetch
        self.reads: Counter[str] = Counter()
        self._ahead: Ahead | None = None
        self.config: Any = code.config_class(**artifact.config)
        self.config._attn_implementation = "eager"

    def embed(self, batches: Sequence[TokenBatch]) -> tuple[Tensor, ...]:
        """Initial hidden states [B,T,D] of every batch, in bfloat16."""
        weights = self._read([EMBEDDING])
        look_up(weights, rows=sum(batch.input_ids_BT.numel() for batch in batches))
        table_VD = weights[EMBEDDING]
        return tuple(
            nn.functional.embedding(b.input_ids_BT, table_VD).to(self.device) for b in batches
        )

    def run(
        self,
        batches: Sequence[TokenBatch],
        layers: Sequence[int],
        hidden: tuple[Tensor, ...],
    ) -> Iterator[LayerResult]:
        """Yield each layer's result in order, from `hidden`, the input of the first one."""
        states = list(hidden)
        del hidden
        with self.ahead(layers):
            for number in layers:
                yield self.run_layer(number, batches, states)

    @contextmanager
    def ahead(self, layers: Sequence[int]) -> Iterator[None]:
        """While open, `run_layer` is called for each of `layers`, in order, and finds the
        next one's weights on their way."""
        with Ahead(self._load, layers, active=self.prefetch) as self._ahead:
            try:
                yield
            finally:
                self._ahead = None

    def run_layer(
        self, number: int, batches: Sequence[TokenBatch], states: list[Tensor]
    ) -> LayerResult:
        """Run one layer; `states`, its input, becomes its output batch by batch."""
        started = time.monotonic()
        files = ", ".join(self.artifact.shards_of_layer(number))
        observations = []
        with torch.inference_mode():
            layer, weight_bytes = self._layer(number)
            observer = Observer(self.artifact.architecture, number, layer, files)
            for i, batch in enumerate(batches):
                mask, cache = self._mask(batch, states[i]), DynamicCache()
                position_ids = torch.arange(mask.shape[-1], device=self.device)[None]
                states[i] = layer(
                    states[i],
                    attention_mask=mask,
                    position_ids=position_ids,
                    past_key_value=cache,
                    use_cache=True,
                )[0]
                observations.append(observer.take(cache, batch.lengths_B))
                _require_finite(number, states[i], files)
            observer.close()
        return LayerResult(
            layer=number,
            hidden=tuple(states),
            hidden_sha256=tuple(tensor_sha256(h) for h in states),
            observations=tuple(observations),
            seconds=time.monotonic() - started,
            weight_bytes=weight_bytes,
        )

    def _layer(self, number: int) -> tuple[nn.Module, int]:
        """One official decoder layer with its weights bound, and their bytes."""
        prefix = layer_prefix(number)
        with torch.device("meta"):
            layer: Any = self.code.layer_class(self.config, number)
        weights = self._ahead.take(number) if self._ahead else self._load(number)
        tensors = {n.removeprefix(prefix): t for n, t in weights.items()}
        if self.device.type == "cpu":
            self._wait(number, wait_for, tensors)
        try:
            layer.load_state_dict(tensors, strict=True, assign=True)
        except RuntimeError as error:
            raise Refusal(
                where=f"layer {number}",
                what="weights do not fit the official class",
                found=" ".join(str(error).split()),
            ) from error
        layer.eval()
        layer.self_attn.layer_idx = 0
        return layer, sum(t.numel() * t.element_size() for t in tensors.values())

    def _load(self, number: int) -> Weights:
        """One layer's tensors by full name, on their way to the device."""
        names = list(layer_shapes(self.artifact.architecture, number))
        weights = self._read(names)
        if self.device.type != "cpu":
            self._wait(number, wait_for, weights)
            return to_device(weights, self.device)
        if self.prefetch:
            self._wait(number, fetch, weights)
        return weights

    def _wait(self, number: int, read: Callable[[Weights], None], weights: Weights) -> None:
        """Have the layer's pages read; a disk that fails is a refusal, not a crash."""
        try:
            read(weights)
        except Unreadable as error:
            raise Refusal(
                where=", ".join(self.artifact.shards_of_layer(number)),
                what=f"layer {number} cannot be read",
                found=error.strerror,
            ) from error

    def _read(self, names: list[str]) -> Weights:
        """Tensors by name, on the CPU: views of mapped files, unmapped when the last is freed."""
        by_shard: dict[str, list[str]] = {}
        for name in names:
            by_shard.setdefault(self.artifact.shard_of[name], []).append(name)
        tensors: Weights = {}
        self.reads.update(names)
        for shard, members in sorted(by_shard.items()):
            try:
                path = str(self.artifact.folder / shard)
                with safe_open(path, framework="pt") as file:
                    tensors.update({name: file.get_tensor(name) for name in members})
            except (SafetensorError, OSError) as error:
                raise Refusal(where=shard, what="cannot be read", found=str(error)) from error
        return tensors

    def _mask(self, batch: TokenBatch, hidden_BTD: Tensor) -> Tensor:
        """Additive causal and padding mask [B,1,T,T], as the official model makes it."""
        mask: Tensor = _prepare_4d_causal_attention_mask(
            batch.attention_mask_BT.to(self.device), batch.input_ids_BT.shape, hidden_BTD, 0
        )
        return mask


def tensor_sha256(x: Tensor) -> str:
    """SHA-256 of a tensor's elements as little-endian bytes in C order, padding included."""
    raw = x.detach().cpu().contiguous().view(torch.uint8).numpy()
    return sha256(raw.tobytes()).hexdigest()


def _require_finite(number: int, y_BTD: Tensor, files: str) -> None:
    bad = int((~torch.isfinite(y_BTD)).sum())
    if bad:
        raise Refusal(
            where=files,
            what=f"layer {number} gives hidden states that are not finite",
            expected="0 such values",
            found=f"{bad} of {y_BTD.numel()}",
        )
