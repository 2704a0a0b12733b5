"""Damaged work folders: what --resume reads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from benchmarks.unpinned import open_unpinned
from capture.errors import Refusal
from capture.trace import trace
from tests.fuzz.conftest import MUTATIONS, bounded, replace
from tests.fuzz.mutations import damaged, either
from tests.fuzz.test_artifacts import PROMPTS

pytestmark = pytest.mark.fuzz
FILES = ("run.json", "layer-00001.safetensors", "hidden-00001.safetensors")


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_work_folder_resumes_or_is_refused(
    name: str, tiny: Path, tmp_path: Path, guarded: Callable[..., Any]
) -> None:
    session = open_unpinned(tiny)
    whole, work = tmp_path / "whole", tmp_path / "work"
    trace(session, captured_at=None, prompts=PROMPTS, work_dir=whole)
    # as after a kill in layer 2
    (whole / "layer-00002.safetensors").unlink()
    (whole / "hidden-00002.safetensors").rename(whole / "hidden-00001.safetensors")
    seed = (whole / name).read_bytes()
    files = either([seed]) if name == "run.json" else damaged([seed])

    def run() -> None:
        try:
            trace(session, captured_at=None, prompts=PROMPTS, work_dir=work, resume=True)
        except Refusal:
            return

    @settings(bounded("work"), max_examples=MUTATIONS["work"] // 3 + (name == "run.json"))
    @given(files)
    def check(data: bytes) -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(whole, work)
        replace(work / name, data)
        guarded(run)

    check()
