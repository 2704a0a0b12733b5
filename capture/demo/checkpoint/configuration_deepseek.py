"""Configuration of the embedded checkpoint.

Written for llm-atlas. Class name, field names and defaults follow the published
config.json of DeepSeek-V2-Lite, so that `capture` meets the same interface here as
in the official artifact. Fields are those of the DeepSeek-V2 paper (arXiv 2405.04434).
"""

from __future__ import annotations

from typing import Any

from transformers.configuration_utils import PretrainedConfig


class DeepseekV2Config(PretrainedConfig):  # type: ignore[misc]
    """Architecture fields of a DeepSeek-V2 decoder; unknown keys go to the base class."""

    model_type = "deepseek_v2"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(
        self,
        *,
        vocab_size: int = 102400,
        hidden_size: int = 2048,
        num_hidden_layers: int = 27,
        max_position_embeddings: int = 163840,
        rms_norm_eps: float = 1e-6,
        initializer_range: float = 0.02,
        hidden_act: str = "silu",
        # feed-forward
        intermediate_size: int = 10944,
        moe_intermediate_size: int = 1408,
        n_routed_experts: int | None = 64,
        n_shared_experts: int | None = 2,
        num_experts_per_tok: int = 6,
        first_k_dense_replace: int = 1,
        moe_layer_freq: int = 1,
        # router
        scoring_func: str = "softmax",
        topk_method: str = "greedy",
        n_group: int | None = 1,
        topk_group: int | None = 1,
        norm_topk_prob: bool = False,
        routed_scaling_factor: float = 1.0,
        aux_loss_alpha: float = 0.001,
        seq_aux: bool = True,
        # multi-head latent attention
        num_attention_heads: int = 16,
        num_key_value_heads: int | None = None,
        q_lora_rank: int | None = None,
        kv_lora_rank: int = 512,
        qk_nope_head_dim: int = 128,
        qk_rope_head_dim: int = 64,
        v_head_dim: int = 128,
        attention_bias: bool = False,
        attention_dropout: float = 0.0,
        rope_theta: float = 10000.0,
        rope_scaling: dict[str, Any] | None = None,
        # token ids and runtime
        bos_token_id: int = 100000,
        eos_token_id: int = 100001,
        pad_token_id: int | None = None,
        tie_word_embeddings: bool = False,
        use_cache: bool = True,
        pretraining_tp: int = 1,
        **kwargs: Any,
    ) -> None:
        arguments = {k: v for k, v in locals().items() if k not in ("self", "kwargs", "__class__")}
        of_base = {"bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings"}
        for name, value in arguments.items():
            if name not in of_base:
                setattr(self, name, value)
        if self.num_key_value_heads is None:
            self.num_key_value_heads = num_attention_heads
        super().__init__(**{name: arguments[name] for name in sorted(of_base)}, **kwargs)
