"""SIGKILL at random moments: every run goes on and ends with the same bytes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crash.conftest import LAYERS, arguments, content

pytestmark = pytest.mark.crash
KILLS = 50
SEED = 20260729
LONGEST = 120.0


@pytest.mark.parametrize("experiment", ["trace", "corpus"])
def test_fifty_random_kills_all_resume_to_the_same_bytes(
    experiment: str, tmp_path: Path, start: Callable[[list[str], Path], Any]
) -> None:
    log = tmp_path / "log"

    def finished(output: Path, work: Path, *more: str) -> float:
        began = time.monotonic()
        process = start(arguments(experiment, output, work, *more), log)
        process.join(LONGEST)
        assert process.exitcode == 0, log.read_text()
        return time.monotonic() - began

    reference = tmp_path / "reference.json"
    finished(reference, tmp_path / "reference")  # the first child waits for the imports
    reference.unlink()
    duration = finished(reference, tmp_path / "again")
    expected = content(reference)
    rng = random.Random(f"{SEED}|{experiment}")
    kills = runs = 0
    stored_at_kill: set[int] = set()
    while kills < KILLS:
        runs += 1
        output, work = tmp_path / f"{runs}.json", tmp_path / f"work-{runs}"
        while not output.exists():
            process = start(arguments(experiment, output, work, "--resume"), log)
            process.join(rng.uniform(0.0, 1.2 * duration))
            before = whole_layers(work)
            process.kill()
            process.join(LONGEST)
            if process.exitcode == 0:
                break
            assert process.exitcode == -9, log.read_text()
            assert whole_layers(work) >= before
            stored_at_kill.add(whole_layers(work))
            kills += 1
            if kills >= KILLS:
                finished(output, work, "--resume")
        assert content(output) == expected
    print(f"{experiment}: {kills} kills in {runs} runs of {duration:.2f} s")
    assert stored_at_kill >= set(range(LAYERS)), "the kills missed a layer"


def whole_layers(work: Path) -> int:
    return sum((work / f"layer-{n:05d}.safetensors").exists() for n in range(LAYERS))


def test_a_kill_while_the_run_is_being_defined_leaves_a_folder_that_resumes(
    tmp_path: Path, start: Callable[[list[str], Path], Any]
) -> None:
    work, output, log = tmp_path / "work", tmp_path / "out.json", tmp_path / "log"
    work.mkdir()
    (work / ".run.json.k2x9.part").write_bytes(b'{"format": ')
    process = start(arguments("trace", output, work, "--resume"), log)
    process.join(LONGEST)
    assert process.exitcode == 0, log.read_text()
    assert sorted(p.name for p in work.iterdir() if p.suffix == ".part") == []
