"""What a corpus run will do, settled before any weight is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atlas.contract.corpus import Selection
from capture.corpus.batches import PromptBatch, fixed_batches
from capture.corpus.selection import DomainPick, PickedPrompt


@dataclass(frozen=True)
class Plan:
    """What was selected and how it is batched; settles the file but for the weights."""

    picks: tuple[DomainPick, ...]
    selection: Selection

    @property
    def prompts(self) -> tuple[PickedPrompt, ...]:
        """In file order: by domain, then rank."""
        return tuple(prompt for pick in self.picks for prompt in pick.prompts)

    @property
    def definition(self) -> dict[str, Any]:
        """What settles the routes: the rules, and each prompt's tokens."""
        return {
            "selection": self.selection.model_dump(mode="json"),
            "prompts": [[p.prompt_id, p.source_id, list(p.token_ids)] for p in self.prompts],
        }

    def batches(self, pad_token_id: int) -> tuple[PromptBatch, ...]:
        return fixed_batches(
            self.prompts, pad_token_id=pad_token_id, batch_size=self.selection.batch_size
        )
