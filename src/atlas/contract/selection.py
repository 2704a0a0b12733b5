"""`llm-atlas/selection@1`: which prompts a corpus run would take; needs no weights."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from atlas.contract.base import CONTRACT_VERSION, Count, Evidence, Positive, Sha256, Slug, Strict
from atlas.contract.corpus import Domain, Selection
from atlas.contract.identity import ArtifactFile, ModelIdentity


class SelectedPrompt(Strict):
    """One prompt by identity and lengths; the text itself stays in its source file."""

    prompt_id: str
    domain: Slug
    source_id: str
    rank: Count
    characters: Count
    tokens: Positive
    text_sha256: Sha256


class CorpusSelection(Strict):
    """The file."""

    schema_: Literal["llm-atlas/selection@1"] = Field(alias="schema")
    contract: Literal["1"] = CONTRACT_VERSION
    evidence: Evidence
    model: ModelIdentity
    artifacts: tuple[ArtifactFile, ...]
    selection: Selection
    domains: tuple[Domain, ...] = Field(min_length=1)
    prompts: tuple[SelectedPrompt, ...]

    @model_validator(mode="after")
    def _sums(self) -> CorpusSelection:
        for domain in self.domains:
            own = [p.tokens for p in self.prompts if p.domain == domain.domain]
            if (len(own), sum(own)) != (domain.prompts, domain.tokens):
                raise ValueError(
                    f"domain {domain.domain}: expected {domain.prompts} prompts and "
                    f"{domain.tokens} tokens, found {len(own)} and {sum(own)}"
                )
        return self
