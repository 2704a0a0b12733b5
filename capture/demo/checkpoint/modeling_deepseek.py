"""Modeling code of the embedded checkpoint: a DeepSeek-V2 decoder.

Written for llm-atlas from the architecture: DeepSeek-V2 (arXiv 2405.04434, sections
2.1 multi-head latent attention and 2.2 DeepSeekMoE), YaRN (arXiv 2309.00071), RMSNorm
(arXiv 1910.07467). Class, module and parameter names, and the order of roundings in
bfloat16, are those of the official file, so the same weights give the same bits there.

Axes in names: B batch, T position, N = B*T tokens, D hidden, H head, E routed expert,
K selected expert, C latent (kv_lora_rank), R decoupled RoPE dims, P NoPE dims, V value dims.

Quirks of the official file, kept on purpose:
- the gate computes in float32 and returns ids in no particular order;
- rotary tables are buffers outside the checkpoint, made at the first forward, in the
  dtype of the activations;
- rotary pairs are interleaved in the projections and are de-interleaved here;
- YaRN also scales the attention logits by mscale squared;
- the eager path caches expanded keys and values, not the latent.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.modeling_attn_mask_utils import _prepare_4d_causal_attention_mask
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel

from .configuration_deepseek import DeepseekV2Config


class DeepseekV2RMSNorm(nn.Module):
    """x_.D -> x_.D, scaled to unit root mean square in float32, then by the learnt weight."""

    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * normed.to(x.dtype)


def yarn_get_mscale(factor: float, mscale: float) -> float:
    """YaRN's attention temperature for a context stretched by `factor` (section 3.4)."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def yarn_ramp(dim: int, base: float, context: int, fast: float, slow: float) -> Tensor:
    """[dim/2] in 0..1: 0 keeps a rotary frequency, 1 divides it by the context factor.

    A pair of dims that turns more than `fast` times over `context` positions is kept, one
    that turns less than `slow` times is stretched, in between it is linear (section 3.2).
    """

    def pair_that_turns(times: float) -> float:
        return dim * math.log(context / (times * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(pair_that_turns(fast)), 0)
    high = min(math.ceil(pair_that_turns(slow)), dim - 1)
    width = (high - low) if high != low else 0.001
    return ((torch.arange(dim // 2, dtype=torch.float32) - low) / width).clamp(0, 1)


class DeepseekV2YarnRotaryEmbedding(nn.Module):
    """Cosine and sine tables [T, R]; without `rope_scaling` plain RoPE."""

    def __init__(self, dim: int, base: float, scaling: dict[str, Any] | None) -> None:
        super().__init__()
        self.dim, self.base, self.scaling = dim, base, scaling
        self.max_seq_len_cached = 0

    def _build(self, length: int, device: torch.device, dtype: torch.dtype) -> None:
        exponent = torch.arange(0, self.dim, 2, dtype=torch.float32, device=device) / self.dim
        frequency, amplitude = 1.0 / self.base**exponent, 1.0
        if self.scaling is not None:
            s = self.scaling
            stretched = 1.0 / (s["factor"] * self.base**exponent)
            ramp = yarn_ramp(
                self.dim,
                self.base,
                s["original_max_position_embeddings"],
                s["beta_fast"],
                s["beta_slow"],
            ).to(device)
            keep = 1.0 - ramp
            frequency = stretched * (1 - keep) + frequency * keep
            amplitude = yarn_get_mscale(s["factor"], s["mscale"]) / yarn_get_mscale(
                s["factor"], s["mscale_all_dim"]
            )
        position = torch.arange(length, dtype=torch.float32, device=device)
        angle = torch.outer(position, frequency)
        angle = torch.cat((angle, angle), dim=-1)
        self.register_buffer("cos_cached", (angle.cos() * amplitude).to(dtype), persistent=False)
        self.register_buffer("sin_cached", (angle.sin() * amplitude).to(dtype), persistent=False)
        self.max_seq_len_cached = length

    def forward(self, x: Tensor, seq_len: int) -> tuple[Tensor, Tensor]:
        if seq_len > self.max_seq_len_cached:
            self._build(seq_len, x.device, x.dtype)
        return self.cos_cached[:seq_len].to(x.dtype), self.sin_cached[:seq_len].to(x.dtype)


def rotate(x_BHTR: Tensor, cos_TR: Tensor, sin_TR: Tensor, position_BT: Tensor) -> Tensor:
    """RoPE on dims stored as interleaved pairs; the result holds the two halves apart."""
    cos, sin = cos_TR[position_BT].unsqueeze(1), sin_TR[position_BT].unsqueeze(1)
    first, second = x_BHTR[..., 0::2], x_BHTR[..., 1::2]
    halves, turned = torch.cat((first, second), -1), torch.cat((-second, first), -1)
    return (halves * cos) + (turned * sin)


class DeepseekV2MLP(nn.Module):
    """SwiGLU feed-forward; one routed expert, the shared experts, or a dense layer."""

    def __init__(self, config: DeepseekV2Config, intermediate_size: int | None = None) -> None:
        super().__init__()
        width = config.intermediate_size if intermediate_size is None else intermediate_size
        self.gate_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.down_proj = nn.Linear(width, config.hidden_size, bias=False)
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class MoEGate(nn.Module):
    """The router: softmax affinity, greedy top-k.

    hidden_BTD -> expert_ids_NK int64 in no particular order, weights_NK float32, and in
    training the sequence-wise balance loss (section 2.2.3), else None.
    """

    def __init__(self, config: DeepseekV2Config) -> None:
        super().__init__()
        if (config.scoring_func, config.topk_method) != ("softmax", "greedy"):
            raise ValueError(
                f"router: expected softmax and greedy, found {config.scoring_func} "
                f"and {config.topk_method}"
            )
        self.top_k = config.num_experts_per_tok
        self.n_routed_experts = config.n_routed_experts
        self.norm_topk_prob = config.norm_topk_prob
        self.routed_scaling_factor = config.routed_scaling_factor
        self.alpha = config.aux_loss_alpha
        self.weight = nn.Parameter(torch.empty(config.n_routed_experts, config.hidden_size))

    def forward(self, hidden_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        batch, length, _ = hidden_BTD.shape
        # float32: near ties between experts would otherwise be decided by bfloat16 rounding
        logits_NE = F.linear(hidden_BTD.flatten(0, 1).float(), self.weight.float())
        scores_NE = logits_NE.softmax(dim=-1)
        weights_NK, ids_NK = torch.topk(scores_NE, self.top_k, dim=-1, sorted=False)
        if self.top_k > 1 and self.norm_topk_prob:
            weights_NK = weights_NK / (weights_NK.sum(-1, keepdim=True) + 1e-20)
        else:
            weights_NK = weights_NK * self.routed_scaling_factor
        if not (self.training and self.alpha > 0):
            return ids_NK, weights_NK, None
        chosen_BE = torch.zeros(batch, self.n_routed_experts, device=ids_NK.device)
        picks_BJ = ids_NK.view(batch, -1)
        chosen_BE.scatter_add_(1, picks_BJ, torch.ones_like(picks_BJ, dtype=chosen_BE.dtype))
        load_BE = chosen_BE * (self.n_routed_experts / (length * self.top_k))
        mean_score_BE = scores_NE.view(batch, length, -1).mean(dim=1)
        return ids_NK, weights_NK, (load_BE * mean_score_BE).sum(-1).mean() * self.alpha


class DeepseekV2MoE(nn.Module):
    """Routed experts, weighted and summed, plus the shared experts that every token takes."""

    def __init__(self, config: DeepseekV2Config) -> None:
        super().__init__()
        self.experts = nn.ModuleList(
            DeepseekV2MLP(config, config.moe_intermediate_size)
            for _ in range(config.n_routed_experts)
        )
        self.gate = MoEGate(config)
        self.n_shared_experts = config.n_shared_experts
        if config.n_shared_experts is not None:
            self.shared_experts = DeepseekV2MLP(
                config, config.moe_intermediate_size * config.n_shared_experts
            )

    def forward(self, hidden_BTD: Tensor) -> Tensor:
        ids_NK, weights_NK, _ = self.gate(hidden_BTD)
        x_ND = hidden_BTD.flatten(0, 1)
        # One matmul per expert over the tokens that chose it: tokens sorted by expert,
        # results put back by the inverse permutation.
        order_J = ids_NK.view(-1).argsort(stable=True)
        per_expert = torch.bincount(ids_NK.view(-1), minlength=len(self.experts)).tolist()
        groups = x_ND[order_J // ids_NK.shape[1]].split(per_expert)
        outputs = [e(g) for e, g in zip(self.experts, groups, strict=True) if len(g)]
        back_J = torch.empty_like(order_J)
        back_J[order_J] = torch.arange(len(order_J), device=order_J.device)
        out_NKD = torch.cat(outputs)[back_J].view(*ids_NK.shape, -1)
        # weighted and summed in the gate's float32, rounded once
        routed_ND = (out_NKD.to(weights_NK.dtype) * weights_NK.unsqueeze(-1)).sum(dim=1)
        y_BTD = routed_ND.to(x_ND.dtype).view_as(hidden_BTD)
        if self.n_shared_experts is not None:
            y_BTD = y_BTD + self.shared_experts(hidden_BTD)
        return y_BTD


class DeepseekV2Attention(nn.Module):
    """Multi-head latent attention, eager. Caches expanded key [B,H,T,P+R] and value [B,H,T,V]."""

    def __init__(self, config: DeepseekV2Config, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.num_heads = config.num_attention_heads
        self.kv_lora_rank = config.kv_lora_rank
        self.qk_nope_head_dim = config.qk_nope_head_dim
        self.qk_rope_head_dim = config.qk_rope_head_dim
        self.v_head_dim = config.v_head_dim
        self.q_head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim
        self.attention_dropout = config.attention_dropout
        hidden, bias = config.hidden_size, config.attention_bias
        q_width = self.num_heads * self.q_head_dim
        self.q_lora_rank = config.q_lora_rank
        if self.q_lora_rank is None:
            self.q_proj = nn.Linear(hidden, q_width, bias=False)
        else:
            self.q_a_proj = nn.Linear(hidden, self.q_lora_rank, bias=bias)
            self.q_a_layernorm = DeepseekV2RMSNorm(self.q_lora_rank)
            self.q_b_proj = nn.Linear(self.q_lora_rank, q_width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(
            hidden, self.kv_lora_rank + self.qk_rope_head_dim, bias=bias
        )
        self.kv_a_layernorm = DeepseekV2RMSNorm(self.kv_lora_rank)
        self.kv_b_proj = nn.Linear(
            self.kv_lora_rank, self.num_heads * (self.qk_nope_head_dim + self.v_head_dim), bias=False
        )
        self.o_proj = nn.Linear(self.num_heads * self.v_head_dim, hidden, bias=bias)
        scaling = config.rope_scaling
        self.rotary_emb = DeepseekV2YarnRotaryEmbedding(
            self.qk_rope_head_dim, config.rope_theta, scaling
        )
        self.softmax_scale = self.q_head_dim**-0.5
        if scaling is not None and scaling.get("mscale_all_dim"):
            mscale = yarn_get_mscale(scaling["factor"], scaling["mscale_all_dim"])
            self.softmax_scale = self.softmax_scale * mscale * mscale

    def _heads(self, x_BTJ: Tensor, width: int) -> Tensor:
        return x_BTJ.unflatten(-1, (-1, width)).transpose(1, 2)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_value: Any = None,
        output_attentions: bool = False,
        use_cache: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None, Any]:
        if attention_mask is None or position_ids is None:
            raise ValueError("attention: expected an additive 4-D mask and position ids, found None")
        if self.q_lora_rank is None:
            q = self.q_proj(hidden_states)
        else:
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(hidden_states)))
        q_nope, q_rope = self._heads(q, self.q_head_dim).split(
            [self.qk_nope_head_dim, self.qk_rope_head_dim], dim=-1
        )
        # what MLA needs to keep of a token: the latent, and one RoPE key for all heads
        latent_BTC, k_rope = self.kv_a_proj_with_mqa(hidden_states).split(
            [self.kv_lora_rank, self.qk_rope_head_dim], dim=-1
        )
        k_rope = k_rope.unsqueeze(1)
        k_nope, value = self._heads(
            self.kv_b_proj(self.kv_a_layernorm(latent_BTC)), self.qk_nope_head_dim + self.v_head_dim
        ).split([self.qk_nope_head_dim, self.v_head_dim], dim=-1)

        length = value.shape[-2]
        if past_key_value is not None:
            length += past_key_value.get_usable_length(length, self.layer_idx)
        cos, sin = self.rotary_emb(value, seq_len=length)
        query = torch.cat((q_nope, rotate(q_rope, cos, sin, position_ids)), dim=-1)
        k_rope = rotate(k_rope, cos, sin, position_ids).expand(-1, self.num_heads, -1, -1)
        key = torch.cat((k_nope, k_rope), dim=-1)
        if past_key_value is not None:
            key, value = past_key_value.update(
                key, value, self.layer_idx, {"sin": sin, "cos": cos}
            )

        scores = torch.matmul(query, key.transpose(2, 3)) * self.softmax_scale + attention_mask
        probabilities = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
        probabilities = F.dropout(probabilities, self.attention_dropout, self.training)
        mixed = torch.matmul(probabilities, value).transpose(1, 2).flatten(2)
        return self.o_proj(mixed), probabilities if output_attentions else None, past_key_value


class DeepseekV2DecoderLayer(nn.Module):
    """Pre-norm attention and feed-forward; dense before `first_k_dense_replace`, then MoE."""

    def __init__(self, config: DeepseekV2Config, layer_idx: int) -> None:
        super().__init__()
        sparse = (
            config.n_routed_experts is not None
            and layer_idx >= config.first_k_dense_replace
            and layer_idx % config.moe_layer_freq == 0
        )
        self.self_attn = DeepseekV2Attention(config, layer_idx)
        self.mlp = DeepseekV2MoE(config) if sparse else DeepseekV2MLP(config)
        self.input_layernorm = DeepseekV2RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = DeepseekV2RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_value: Any = None,
        output_attentions: bool = False,
        use_cache: bool = False,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        attended, probabilities, cache = self.self_attn(
            self.input_layernorm(hidden_states),
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_value=past_key_value,
            output_attentions=output_attentions,
            use_cache=use_cache,
        )
        hidden_states = hidden_states + attended
        hidden_states = hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))
        extras = ((probabilities,) if output_attentions else ()) + ((cache,) if use_cache else ())
        return (hidden_states, *extras)


class DeepseekV2PreTrainedModel(PreTrainedModel):  # type: ignore[misc]
    config_class = DeepseekV2Config
    base_model_prefix = "model"
    _no_split_modules = ["DeepseekV2DecoderLayer"]
    _supports_cache_class = True

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding | MoEGate):
            module.weight.data.normal_(0.0, self.config.initializer_range)


class DeepseekV2Model(DeepseekV2PreTrainedModel):
    """input_ids_BT -> last hidden state [B,T,D], after the final norm."""

    def __init__(self, config: DeepseekV2Config) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            DeepseekV2DecoderLayer(config, i) for i in range(config.num_hidden_layers)
        )
        self.norm = DeepseekV2RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_init()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutputWithPast:
        hidden = self.embed_tokens(input_ids)
        mask = _prepare_4d_causal_attention_mask(attention_mask, input_ids.shape, hidden, 0)
        position_ids = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        states = [hidden]
        for layer in self.layers:
            hidden = layer(hidden, attention_mask=mask, position_ids=position_ids)[0]
            states.append(hidden)
        return BaseModelOutputWithPast(
            last_hidden_state=self.norm(hidden), hidden_states=tuple(states)
        )


class DeepseekV2ForCausalLM(DeepseekV2PreTrainedModel):
    """The decoder with its output head; logits in float32."""

    def __init__(self, config: DeepseekV2Config) -> None:
        super().__init__(config)
        self.model = DeepseekV2Model(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> CausalLMOutputWithPast:
        out = self.model(input_ids, attention_mask)
        return CausalLMOutputWithPast(
            logits=self.lm_head(out.last_hidden_state).float(), hidden_states=out.hidden_states
        )
