"""The tensors that a DeepSeek-V2 checkpoint must hold, from its architecture alone.

Names and shapes are those of the official modeling file's state dict; no torch is needed,
so `inspect` can say what is missing from config and index.
"""

from __future__ import annotations

from atlas.contract.identity import Architecture

Shapes = dict[str, tuple[int, ...]]
EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"


def layer_prefix(layer: int) -> str:
    return f"model.layers.{layer}."


def layer_shapes(a: Architecture, layer: int) -> Shapes:
    """Full tensor names -> shapes of one decoder layer."""
    shapes = {
        "input_layernorm.weight": (a.hidden_size,),
        "post_attention_layernorm.weight": (a.hidden_size,),
        **{f"self_attn.{n}": s for n, s in _attention(a).items()},
        **{f"mlp.{n}": s for n, s in _feed_forward(a, layer in a.moe_layers).items()},
    }
    return {layer_prefix(layer) + name: shape for name, shape in shapes.items()}


def checkpoint_shapes(a: Architecture) -> Shapes:
    """Every tensor of the whole checkpoint."""
    shapes: Shapes = {
        EMBEDDING: (a.vocab_size, a.hidden_size),
        FINAL_NORM: (a.hidden_size,),
        HEAD: (a.vocab_size, a.hidden_size),
    }
    for layer in range(a.num_hidden_layers):
        shapes.update(layer_shapes(a, layer))
    return shapes


def _attention(a: Architecture) -> Shapes:
    heads, q_head = a.num_attention_heads, a.qk_nope_head_dim + a.qk_rope_head_dim
    shapes: Shapes = {
        "kv_a_proj_with_mqa.weight": (a.kv_lora_rank + a.qk_rope_head_dim, a.hidden_size),
        "kv_a_layernorm.weight": (a.kv_lora_rank,),
        "kv_b_proj.weight": (heads * (a.qk_nope_head_dim + a.v_head_dim), a.kv_lora_rank),
        "o_proj.weight": (a.hidden_size, heads * a.v_head_dim),
    }
    if a.q_lora_rank is None:
        shapes["q_proj.weight"] = (heads * q_head, a.hidden_size)
    else:
        shapes["q_a_proj.weight"] = (a.q_lora_rank, a.hidden_size)
        shapes["q_a_layernorm.weight"] = (a.q_lora_rank,)
        shapes["q_b_proj.weight"] = (heads * q_head, a.q_lora_rank)
    return shapes


def _feed_forward(a: Architecture, is_moe: bool) -> Shapes:
    if not is_moe:
        return _mlp(a.hidden_size, a.intermediate_size)
    shapes: Shapes = {"gate.weight": (a.n_routed_experts, a.hidden_size)}
    for expert in range(a.n_routed_experts):
        part = _mlp(a.hidden_size, a.moe_intermediate_size)
        shapes.update({f"experts.{expert}.{n}": s for n, s in part.items()})
    if a.n_shared_experts:
        part = _mlp(a.hidden_size, a.moe_intermediate_size * a.n_shared_experts)
        shapes.update({f"shared_experts.{n}": s for n, s in part.items()})
    return shapes


def _mlp(hidden: int, width: int) -> Shapes:
    return {
        "gate_proj.weight": (width, hidden),
        "up_proj.weight": (width, hidden),
        "down_proj.weight": (hidden, width),
    }
