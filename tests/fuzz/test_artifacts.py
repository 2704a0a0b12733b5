"""Damaged artifact folders: config, index, safetensors header, tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as replaced
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from benchmarks.unpinned import open_unpinned
from capture.artifacts import INDEX, read_shard_header
from capture.errors import Refusal
from capture.prompts import PROMPTS as FIXED
from capture.tokenizer import TOKENIZER, Tokenizer
from capture.trace import trace
from tests.fuzz.conftest import MUTATIONS, bounded, replace
from tests.fuzz.mutations import damaged, either

pytestmark = pytest.mark.fuzz
PROMPTS = tuple(replaced(p, text=t) for p, t in zip(FIXED, ("the router", "专家"), strict=False))


def test_the_mutations_are_ten_thousand() -> None:
    assert sum(MUTATIONS.values()) == 10_000


def opened(folder: Path) -> Any:
    try:
        return open_unpinned(folder)
    except Refusal:
        return None


def test_a_damaged_config_is_read_or_refused_in_one_line(
    artifact: Path, tiny: Path, guarded: Callable[..., Any], command: Callable[..., int]
) -> None:
    @bounded("config")
    @given(either([(tiny / "config.json").read_bytes()]))
    def check(data: bytes) -> None:
        replace(artifact / "config.json", data)
        guarded(lambda: opened(artifact))
        command("inspect", "--artifact-dir", artifact, "--model", "demo", "--quiet")

    check()


def test_a_damaged_index_is_read_or_refused_in_one_line(
    artifact: Path, tiny: Path, guarded: Callable[..., Any], command: Callable[..., int]
) -> None:
    output = artifact.parent / "out.json"

    @bounded("index")
    @given(either([(tiny / INDEX).read_bytes()]))
    def check(data: bytes) -> None:
        replace(artifact / INDEX, data)
        guarded(lambda: opened(artifact))
        code = command(
            "trace", "--artifact-dir", artifact, "--model", "demo", "--quiet", "--output", output
        )
        assert code == 2
        assert not output.exists()

    check()


def with_length(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


def test_a_damaged_shard_is_traced_or_refused(
    artifact: Path, tiny: Path, guarded: Callable[..., Any]
) -> None:
    """Also beyond the hash, as a run with --skip-shard-hashes would meet it."""
    shard = sorted(tiny.glob("*.safetensors"))[0]
    data = shard.read_bytes()
    length = int.from_bytes(data[:8], "little")
    ended: dict[str, int] = {"traced": 0, "refused": 0}

    def run(path: Path) -> None:
        try:
            read_shard_header(path)
            trace(open_unpinned(artifact), captured_at=None, prompts=PROMPTS)
            ended["traced"] += 1
        except Refusal:
            ended["refused"] += 1

    @bounded("header")
    @given(damaged([data[: 8 + length]]) | either([data[8 : 8 + length]]).map(with_length))
    def check(head: bytes) -> None:
        path = artifact / shard.name
        replace(path, head + data[8 + length :])
        guarded(lambda: run(path))

    check()
    assert ended["refused"] > 100


def test_a_damaged_tokenizer_is_read_or_refused(
    artifact: Path, tiny: Path, guarded: Callable[..., Any]
) -> None:
    path = artifact / TOKENIZER
    intact = sha256((tiny / TOKENIZER).read_bytes()).hexdigest()

    def run() -> None:
        try:
            ids = Tokenizer(path, 0, 320).encode("the router 专家")
        except Refusal:
            return
        assert all(0 <= i < 320 for i in ids)

    @bounded("tokenizer")
    @given(either([(tiny / TOKENIZER).read_bytes()]))
    def check(data: bytes) -> None:
        replace(path, data)
        guarded(run)

    check()
    assert sha256((tiny / TOKENIZER).read_bytes()).hexdigest() == intact
