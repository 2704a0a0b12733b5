"""Two accounts of what attention keeps per token and layer, in elements and bytes."""

from __future__ import annotations

from atlas.canonical import rounded
from atlas.contract.trace import CacheLedger


def cache_ledger(eager: int, latent: int, element_bytes: int) -> CacheLedger:
    """`eager` elements are keys and values of all heads, as the eager code keeps them; `latent`
    is kv_lora_rank + RoPE dims, all that the algorithm needs (DeepSeek-V2, section 2.1.3). For
    V2-Lite in bfloat16: 10,240 and 1,152 bytes.
    """
    return CacheLedger(
        element_bytes=element_bytes,
        eager_elements=eager,
        latent_elements=latent,
        eager_bytes=eager * element_bytes,
        latent_bytes=latent * element_bytes,
        ratio=rounded(eager / latent),
        reduction=rounded(1 - latent / eager),
    )
