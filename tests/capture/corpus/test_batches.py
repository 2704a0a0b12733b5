"""Batches: fixed order, right padding, nothing lost."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.corpus.batches import fixed_batches
from capture.corpus.selection import PickedPrompt
from capture.errors import Refusal

PAD = 2


def prompt(domain: str, source_id: str, *token_ids: int) -> PickedPrompt:
    return PickedPrompt(domain, source_id, 0, "x", sha256(b"x").hexdigest(), 1, token_ids)


def test_prompts_are_sorted_by_tokens_then_domain_then_source_id() -> None:
    given_prompts = [
        prompt("zh_news", "b", 1, 1),
        prompt("zh_news", "a", 1, 1),
        prompt("code", "z", 1, 1, 1),
        prompt("math", "z", 1, 1),
        prompt("zh_news", "z", 1),
    ]
    (batch,) = fixed_batches(given_prompts, pad_token_id=PAD)
    found = [(p.tokens, p.domain, p.source_id) for p in batch.prompts]
    assert found == [
        (1, "zh_news", "z"),
        (2, "math", "z"),
        (2, "zh_news", "a"),
        (2, "zh_news", "b"),
        (3, "code", "z"),
    ]


def test_padding_is_on_the_right_up_to_the_longest_prompt() -> None:
    prompts = [prompt("code", "a", 9, 8, 7), prompt("code", "b", 6)]
    (batch,) = fixed_batches(prompts, pad_token_id=PAD)
    assert batch.input_ids_BT.tolist() == [[6, PAD, PAD], [9, 8, 7]]
    assert batch.lengths_B == (1, 3)
    assert batch.input_ids_BT.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        batch.input_ids_BT[0, 0] = 1


@pytest.mark.parametrize(
    ("prompts", "size", "sizes"),
    [(17, 16, [16, 1]), (16, 16, [16]), (3, 1, [1, 1, 1]), (17, 17, [17]), (0, 16, [])],
)
def test_batches_are_cut_in_order(prompts: int, size: int, sizes: list[int]) -> None:
    batches = fixed_batches(
        [prompt("code", f"{i:03d}", 5) for i in range(prompts)], pad_token_id=PAD, batch_size=size
    )
    assert [len(b.prompts) for b in batches] == sizes
    assert [b.number for b in batches] == list(range(len(sizes)))
    assert [p.source_id for b in batches for p in b.prompts] == [f"{i:03d}" for i in range(prompts)]


@given(
    lengths=st.lists(st.integers(1, 12), max_size=40),
    size=st.integers(1, 20),
    random=st.randoms(use_true_random=False),
)
def test_every_token_is_in_one_batch_whatever_the_order(
    lengths: list[int], size: int, random: object
) -> None:
    prompts = [prompt("code", f"{i}", *range(i, i + n)) for i, n in enumerate(lengths)]
    batches = fixed_batches(prompts, pad_token_id=-1, batch_size=size)
    unpadded = {
        p.source_id: tuple(row[:length].tolist())
        for b in batches
        for p, row, length in zip(b.prompts, b.input_ids_BT, b.lengths_B, strict=True)
    }
    assert unpadded == {p.source_id: p.token_ids for p in prompts}
    for b in batches:
        columns = np.arange(b.input_ids_BT.shape[1])
        valid_BT = columns[None, :] < np.array(b.lengths_B)[:, None]
        assert ((b.input_ids_BT == -1) == ~valid_BT).all()
    random.shuffle(prompts)  # type: ignore[attr-defined]
    again = fixed_batches(prompts, pad_token_id=-1, batch_size=size)
    assert [b.prompts for b in again] == [b.prompts for b in batches]


def test_a_batch_size_of_zero_and_a_prompt_without_tokens_are_refused() -> None:
    with pytest.raises(Refusal) as refused:
        fixed_batches([], pad_token_id=PAD, batch_size=0)
    assert str(refused.value) == "batch size: too small: expected 1 or more, found 0"
    with pytest.raises(Refusal) as refused:
        fixed_batches([prompt("code", "a")], pad_token_id=PAD)
    assert str(refused.value) == "code/000: tokens: expected 1 or more, found 0"
