"""What is observed in one layer: MLA projection, returned cache, router.

Hook points (TransformerLens has one list of them; this is ours):
- `self_attn.kv_a_proj_with_mqa` output [B,T,C+R]: latent and decoupled RoPE key;
- the cache after the forward: key [B,H,T,P+R], value [B,H,T,V];
- `mlp.gate` input and output: expert ids and float32 weights [B*T,K], unsorted.

The margin to the next expert is not returned by the gate; it is computed here from the gate's
own input and weight, and refused unless that gives the gate's own top-k back.

Axes: B batch row, T position, N = B*T, K selected expert, E routed expert, D hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

from atlas.contract.identity import Architecture
from atlas.contract.trace import MlaShapes
from capture.errors import Refusal


@dataclass(frozen=True)
class RouterObservation:
    """Routes of one prompt's valid tokens in one layer, on the CPU.

    expert_ids_TK int64, weights_TK float32: sorted by weight, then id. margin_T float32: score
    of the k-th expert minus that of the next; infinite routes never occur.
    """

    expert_ids_TK: Tensor
    weights_TK: Tensor
    margin_T: Tensor


@dataclass(frozen=True)
class LayerObservation:
    """One batch in one layer; `router` has one entry per row of the batch, None if dense."""

    mla: MlaShapes
    cache_element_bytes: int
    router: tuple[RouterObservation, ...] | None


class Observer:
    """Hooks on one layer. `take` after each forward, `close` at the end."""

    def __init__(
        self, architecture: Architecture, layer: int, module: nn.Module, files: str
    ) -> None:
        """`files` names where the layer's weights came from, for messages."""
        self.architecture, self.layer, self.files = architecture, layer, files
        self.is_moe = layer in architecture.moe_layers
        self._projection: Tensor | None = None
        self._gate: tuple[Tensor, Tensor, Tensor] | None = None
        self._weight: Tensor | None = None
        modules = dict(module.named_modules())
        self._handles = [
            modules["self_attn.kv_a_proj_with_mqa"].register_forward_hook(self._on_projection)
        ]
        if self.is_moe:
            gate: Any = modules["mlp.gate"]
            self._weight = gate.weight
            self._handles.append(gate.register_forward_hook(self._on_gate))

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _on_projection(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        self._projection = output

    def _on_gate(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._gate = (inputs[0], output[0], output[1])

    def take(self, cache: DynamicCache, lengths_B: tuple[int, ...]) -> LayerObservation:
        """The observation of the forward that just ended. Raises Refusal if a hook saw nothing
        or the router's scores are not finite."""
        if self._projection is None or len(cache.key_cache) != 1:
            raise Refusal(
                where=self.files, what=f"layer {self.layer}: no MLA projection or cache observed"
            )
        key, value = cache.key_cache[0], cache.value_cache[0]
        b, t, width = self._projection.shape
        a = self.architecture
        if width != a.kv_lora_rank + a.qk_rope_head_dim:
            raise Refusal(
                where=self.files,
                what=f"layer {self.layer}: MLA projection width",
                expected=a.kv_lora_rank + a.qk_rope_head_dim,
                found=width,
            )
        mla = MlaShapes(
            projection=(b, t, width),
            key=(key.shape[0], key.shape[1], key.shape[2], key.shape[3]),
            value=(value.shape[0], value.shape[1], value.shape[2], value.shape[3]),
            cache_dtype=str(key.dtype).removeprefix("torch."),
        )
        observation = LayerObservation(
            mla, key.element_size(), self._routes(b, t, lengths_B) if self.is_moe else None
        )
        self._projection, self._gate = None, None
        return observation

    def _routes(self, b: int, t: int, lengths_B: tuple[int, ...]) -> tuple[RouterObservation, ...]:
        if self._gate is None or self._weight is None:
            raise Refusal(where=self.files, what=f"layer {self.layer}: no router output observed")
        gate_input, ids_NK, weights_NK = self._gate
        k, experts = self.architecture.num_experts_per_tok, self.architecture.n_routed_experts
        logits_NE = nn.functional.linear(
            gate_input.reshape(-1, gate_input.shape[-1]).float(), self._weight.float()
        )
        scores_NE = logits_NE.softmax(dim=-1)
        if not bool(torch.isfinite(scores_NE).all() and torch.isfinite(weights_NK).all()):
            raise Refusal(
                where=self.files,
                what=f"layer {self.layer} gate gives scores that are not finite",
                expected="0 tokens with such scores",
                found=f"{int((~torch.isfinite(scores_NE)).any(-1).sum())} of {b * t}",
            )
        ids_NK, weights_NK = sort_routes(ids_NK, weights_NK)
        margin_N = self._margins(scores_NE, ids_NK, k, experts)
        shape = (b, t, k)
        ids_BTK, weights_BTK = ids_NK.view(shape).cpu(), weights_NK.view(shape).cpu()
        margin_BT = margin_N.view(b, t).cpu()
        return tuple(
            RouterObservation(ids_BTK[row, :n], weights_BTK[row, :n], margin_BT[row, :n])
            for row, n in enumerate(lengths_B)
        )

    def _margins(self, scores_NE: Tensor, ids_NK: Tensor, k: int, experts: int) -> Tensor:
        """[N] lowest selected score minus highest other score, from the gate's own choice."""
        selected_NK = scores_NE.gather(1, ids_NK)
        if k == experts:
            return torch.zeros_like(selected_NK[:, 0])
        others_NE = scores_NE.scatter(1, ids_NK, float("-inf"))
        margin_N = selected_NK.amin(dim=1) - others_NE.amax(dim=1)
        if bool((margin_N < 0).any()):
            raise Refusal(
                where=self.files,
                what=f"layer {self.layer} gate: recomputed scores do not give the gate's own top-k",
                expected="no negative margin",
                found=float(margin_N.min()),
            )
        return margin_N


def sort_routes(ids_NK: Tensor, weights_NK: Tensor) -> tuple[Tensor, Tensor]:
    """Each row by weight descending, then expert id ascending."""
    by_id = ids_NK.argsort(dim=1)
    ids_NK, weights_NK = ids_NK.gather(1, by_id), weights_NK.gather(1, by_id)
    by_weight = weights_NK.argsort(dim=1, descending=True, stable=True)
    return ids_NK.gather(1, by_weight), weights_NK.gather(1, by_weight)
