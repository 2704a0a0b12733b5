"""Known models: revision, and the hash that each file must have. Data lies in capture/pins."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from atlas.contract.base import Sha256, Strict
from atlas.contract.identity import ModelIdentity
from capture.errors import Refusal

FOLDER = Path(__file__).parent / "pins"
Role = Literal["config", "configuration", "modeling", "tokenizer", "index", "shard", "corpus"]


class PinnedFile(Strict):
    """One file of a model; `source` says where its hash was printed or how it was found."""

    name: str
    role: Role
    bytes: int
    sha256: Sha256
    source: str


class KnownModel(Strict):
    """One pinned revision of one model."""

    slug: str
    title: str
    repository: str
    revision: str
    licence: str
    evidence: Literal["captured", "demo"]
    files: tuple[PinnedFile, ...]

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(
            slug=self.slug,
            title=self.title,
            repository=self.repository,
            revision=self.revision,
            licence=self.licence,
        )

    def pin(self, name: str) -> PinnedFile | None:
        return next((f for f in self.files if f.name == name), None)

    @property
    def hashes(self) -> dict[str, str]:
        return {f.name: f.sha256 for f in self.files}


def known_models() -> tuple[KnownModel, ...]:
    """Every model under capture/pins, by slug."""
    adapter = TypeAdapter(KnownModel)
    return tuple(adapter.validate_json(p.read_bytes()) for p in sorted(FOLDER.glob("*.json")))


def model_of_config(config_sha256: str) -> KnownModel:
    """The model whose pinned config.json has this hash. Raises Refusal."""
    models = known_models()
    for model in models:
        if model.hashes["config.json"] == config_sha256:
            return model
    expected = " or ".join(f"{m.hashes['config.json']} ({m.title})" for m in models)
    raise Refusal(
        where="config.json",
        what="SHA-256 is of no known model",
        expected=expected,
        found=config_sha256,
    )


def model_called(slug: str) -> KnownModel:
    """The model with this slug. Raises Refusal."""
    models = {m.slug: m for m in known_models()}
    if slug not in models:
        raise Refusal(
            where="--model", what="unknown model", expected=" or ".join(models), found=slug
        )
    return models[slug]
