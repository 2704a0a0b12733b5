"""Fixed batches: sorted by (tokens, domain, source_id), cut in order, padded on the right.

Results are not batch-invariant in bfloat16, so which prompts share a batch, and how far they
are padded, is part of the contract and follows from the selection alone.

Axes: B prompt of a batch, T token (longest prompt of the batch).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capture.corpus.selection import BATCH_SIZE, PickedPrompt
from capture.errors import Refusal


@dataclass(frozen=True)
class PromptBatch:
    """One batch. Only `input_ids_BT[b, :lengths_B[b]]` are tokens, the rest is padding."""

    number: int
    prompts: tuple[PickedPrompt, ...]
    input_ids_BT: NDArray[np.int64]
    lengths_B: tuple[int, ...]


def fixed_batches(
    prompts: Iterable[PickedPrompt], *, pad_token_id: int, batch_size: int = BATCH_SIZE
) -> tuple[PromptBatch, ...]:
    """Batches of at most `batch_size` prompts, numbered from 0; the last may be smaller.

    The order of `prompts` changes nothing. Raises Refusal for a batch size below 1 and for a
    prompt without tokens.
    """
    if batch_size < 1:
        raise Refusal(where="batch size", what="too small", expected="1 or more", found=batch_size)
    ordered = sorted(prompts, key=lambda p: (p.tokens, p.domain, p.source_id))
    if ordered and ordered[0].tokens == 0:
        raise Refusal(where=ordered[0].prompt_id, what="tokens", expected="1 or more", found=0)
    return tuple(
        _batch(number, tuple(ordered[start : start + batch_size]), pad_token_id)
        for number, start in enumerate(range(0, len(ordered), batch_size))
    )


def _batch(number: int, prompts: tuple[PickedPrompt, ...], pad_token_id: int) -> PromptBatch:
    lengths_B = tuple(prompt.tokens for prompt in prompts)
    input_ids_BT = np.full((len(prompts), max(lengths_B)), pad_token_id, dtype=np.int64)
    for row, prompt in enumerate(prompts):
        input_ids_BT[row, : prompt.tokens] = prompt.token_ids
    input_ids_BT.setflags(write=False)
    return PromptBatch(number, prompts, input_ids_BT, lengths_B)
