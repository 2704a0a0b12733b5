"""Everything a run needs, opened and checked once: artifact, code, tokenizer, device.

Order matters: hashes are compared before any code is imported or any output is touched.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from tqdm import tqdm

from atlas.contract.identity import ArtifactFile, Environment, StopLine
from capture import runtime
from capture.artifacts import (
    INDEX,
    Artifact,
    check_shards,
    describe_pinned,
    open_artifact,
    token_id,
)
from capture.errors import Refusal
from capture.official import CONFIGURATION, MODELING, OfficialCode, load_official_code
from capture.tokenizer import TOKENIZER, Tokenizer, open_tokenizer

T = TypeVar("T")


@dataclass(frozen=True)
class Session:
    """One checked artifact, ready to run up to its stop line."""

    artifact: Artifact
    stop_line: StopLine
    files: tuple[ArtifactFile, ...]
    code: OfficialCode
    tokenizer: Tokenizer
    device: torch.device
    environment: Environment
    quiet: bool

    @property
    def pad_token_id(self) -> int:
        """The end-of-sentence id, as the official tokenizer pads; masked, and never counted."""
        vocab_size = self.artifact.architecture.vocab_size
        return token_id(self.artifact.config, "eos_token_id", vocab_size)

    @property
    def definition(self) -> dict[str, Any]:
        """What settles a run's bytes besides its input, as plain JSON values."""
        return {
            "artifacts": [f.model_dump(mode="json") for f in self.files],
            "environment": self.environment.model_dump(mode="json"),
            "stop_line": self.stop_line.model_dump(mode="json"),
        }

    def progress(self, steps: Iterable[T], total: int) -> Iterator[T]:
        """`steps` with a bar on a terminal's stderr, one tick a layer."""
        yield from tqdm(
            steps, total=total, desc="layers", unit="layer", file=sys.stderr, disable=self.quiet
        )


def open_session(
    artifact_dir: Path,
    *,
    device: str = "cpu",
    model: str | None = None,
    layers: int | None = None,
    hash_shards: bool = True,
    quiet: bool = False,
) -> Session:
    """Open, check and hash. `layers` asks for fewer layers than are complete. Raises Refusal."""
    artifact = open_artifact(artifact_dir, model)
    stop_line = artifact.stop_line(layers)
    shards = check_shards(artifact, stop_line.executed_layers)
    names = ("config.json", CONFIGURATION, MODELING, TOKENIZER, INDEX, *shards)
    missing = [n for n in names if not (artifact_dir / n).is_file()]
    if missing:
        pin = artifact.model.pin(missing[0])
        raise Refusal(
            where=missing[0], what="file missing", expected=pin.sha256 if pin else "a file"
        )
    total = sum((artifact_dir / n).stat().st_size for n in names)
    with tqdm(
        total=total, desc="hashing", unit="B", unit_scale=True, file=sys.stderr, disable=quiet
    ) as bar:
        files = describe_pinned(
            artifact_dir, artifact.model, names, hash_shards=hash_shards, progress=bar.update
        )
    tokenizer = open_tokenizer(artifact)
    run_on = runtime.prepare(device)
    code = load_official_code(artifact_dir, artifact.model.hashes)
    return Session(
        artifact=artifact,
        stop_line=stop_line,
        files=files,
        code=code,
        tokenizer=tokenizer,
        device=run_on,
        environment=runtime.describe(run_on),
        quiet=quiet,
    )
