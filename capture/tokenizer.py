"""Text to token ids with the artifact's tokenizer.json, special tokens on.

The `tokenizers` package reads the pinned file directly. The official tokenizer_config.json
asks for a begin-of-sentence id in front and none at the end; that id is the config's.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tokenizers import Tokenizer as FastTokenizer

from atlas.contract.identity import ArtifactFile
from capture.artifacts import (
    Artifact,
    describe_pinned,
    read_architecture,
    read_config,
    token_id,
)
from capture.errors import Refusal
from capture.pins import KnownModel, model_called, model_of_config

TOKENIZER = "tokenizer.json"


class Tokenizer:
    """`encode(text)` gives ids with the BOS id in front."""

    def __init__(self, path: Path, bos_token_id: int, vocab_size: int) -> None:
        """Raises Refusal if the file is not a tokenizer, or its ids exceed the vocabulary."""
        try:
            self._fast = FastTokenizer.from_file(str(path))
        except Exception as error:  # the package raises bare Exception for any broken file
            raise Refusal(
                where=path.name, what="not a tokenizer", found=" ".join(str(error).split())
            ) from error
        size = self._fast.get_vocab_size(with_added_tokens=True)
        if size > vocab_size or not 0 <= bos_token_id < vocab_size:
            raise Refusal(
                where=path.name,
                what="vocabulary",
                expected=f"at most {vocab_size} ids, the config's vocab_size",
                found=size,
            )
        self.bos_token_id = bos_token_id

    def encode(self, text: str) -> list[int]:
        """Token ids [T], BOS first. Raises Refusal for text that has no UTF-8 form."""
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Refusal(
                where="text",
                what=f"lone surrogate at character {error.start}",
                expected="text that can be written as UTF-8",
            ) from error
        ids: list[int] = self._fast.encode(text, add_special_tokens=False).ids
        return [self.bos_token_id, *ids]

    def piece(self, token_id: int) -> str:
        """Text of one token, for display; bytes that are no character show as U+FFFD."""
        text: str = self._fast.decode([token_id], skip_special_tokens=False)
        return text


def open_tokenizer(artifact: Artifact) -> Tokenizer:
    """The artifact's tokenizer; its hash must have been compared before. Raises Refusal."""
    return Tokenizer(
        artifact.folder / TOKENIZER,
        token_id(artifact.config, "bos_token_id", artifact.architecture.vocab_size),
        artifact.architecture.vocab_size,
    )


def open_tokenizer_alone(
    folder: Path, slug: str | None = None
) -> tuple[KnownModel, tuple[ArtifactFile, ...], Tokenizer]:
    """Model, checked files and tokenizer of a folder that needs only config.json and
    tokenizer.json. Raises Refusal."""
    data, config = read_config(folder)
    model = model_called(slug) if slug else model_of_config(sha256(data).hexdigest())
    files = describe_pinned(folder, model, ("config.json", TOKENIZER), hash_shards=True)
    vocab_size = read_architecture(config).vocab_size
    return (
        model,
        files,
        Tokenizer(folder / TOKENIZER, token_id(config, "bos_token_id", vocab_size), vocab_size),
    )
