"""What a corpus run will do, settled before any weight is read."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.contract.corpus import Selection
from capture.corpus.batches import PromptBatch, fixed_batches
from capture.corpus.selection import BATCH_ORDER, ORDER, DomainPick, PickedPrompt


@dataclass(frozen=True)
class Plan:
    """What was selected and how it is batched; settles the file but for the weights."""

    picks: tuple[DomainPick, ...]
    selection: Selection

    @property
    def prompts(self) -> tuple[PickedPrompt, ...]:
        """In file order: by domain, then rank."""
        return tuple(prompt for pick in self.picks for prompt in pick.prompts)

    def batches(self, pad_token_id: int) -> tuple[PromptBatch, ...]:
        return fixed_batches(
            self.prompts, pad_token_id=pad_token_id, batch_size=self.selection.batch_size
        )


def selection_contract(
    salt: str, per_domain: int, maximum_tokens: int, batch_size: int
) -> Selection:
    """The selection's rules as the file states them."""
    return Selection(
        salt=salt,
        order=ORDER,
        per_domain=per_domain,
        maximum_tokens=maximum_tokens,
        special_tokens=True,
        truncation="right",
        batch_size=batch_size,
        batch_order=BATCH_ORDER,
        padding="right",
    )
