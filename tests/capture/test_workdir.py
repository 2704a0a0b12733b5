"""A killed run goes on from its last whole layer and ends with the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from atlas.canonical import canonical_json
from atlas.contract import parse
from atlas.contract.trace import Timing
from capture.__main__ import main
from capture.demo.seal import CHECKPOINT
from tests.capture.conftest import edit_json

ROOT = Path(__file__).parents[2]
TIMELESS = Timing(layer_seconds=(), total_seconds=0.0)


def argv(output: Path, work: Path, *more: str) -> list[str]:
    paths = ["--artifact-dir", str(CHECKPOINT), "--output", str(output), "--work-dir", str(work)]
    return ["trace", *paths, "--quiet", "--layers", "4", *more]


def without_timing(path: Path) -> bytes:
    trace = parse(path.read_bytes(), path.name)
    return canonical_json(trace.model_copy(update={"timing": TIMELESS}))


@pytest.fixture
def finished(tmp_path) -> Path:
    work = tmp_path / "work"
    assert main(argv(tmp_path / "first.json", work)) == 0
    return work


def test_a_work_folder_keeps_every_layer_and_the_hidden_states_of_the_last(finished):
    names = sorted(path.name for path in finished.iterdir())
    layers = [f"layer-{n:05d}.safetensors" for n in range(4)]
    assert names == ["hidden-00003.safetensors", *layers, "run.json"]


@pytest.mark.parametrize("whole", [0, 1, 2, 3, 4])
def test_a_run_goes_on_from_any_layer_to_the_same_file(finished, tmp_path, whole, monkeypatch):
    # as a kill between two layers leaves it: later layers never began
    second = tmp_path / "second"
    assert main([*argv(tmp_path / "cut.json", second)[:-1], str(max(whole, 1))]) == 0
    for layer in range(whole, 4):
        (second / f"layer-{layer:05d}.safetensors").unlink(missing_ok=True)
    (second / "run.json").write_bytes((finished / "run.json").read_bytes())
    ran = []
    from capture.stream import Streamer

    original = Streamer._layer
    monkeypatch.setattr(Streamer, "_layer", lambda self, n: ran.append(n) or original(self, n))
    assert main(argv(tmp_path / "second.json", second, "--resume")) == 0
    assert ran == list(range(whole, 4))
    assert without_timing(tmp_path / "second.json") == without_timing(tmp_path / "first.json")


def test_kill_9_during_a_run_loses_at_most_one_layer(finished, tmp_path):
    work, output = tmp_path / "killed", tmp_path / "killed.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-m", "capture", *argv(output, work)]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not (work / "layer-00001.safetensors").exists() and time.monotonic() < deadline:
        if process.poll() is not None:
            break
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (work / "layer-00001.safetensors").exists()
    assert main(argv(output, work, "--resume")) == 0
    assert without_timing(output) == without_timing(tmp_path / "first.json")


def test_a_folder_with_a_run_is_refused_without_resume(finished, refused):
    line = refused(
        "trace", "--artifact-dir", CHECKPOINT, "--work-dir", finished, "--quiet", "--layers", "4"
    )
    assert line == (
        "work: work folder holds a run: expected an empty folder, or --resume, found run.json"
    )


def test_a_run_that_differs_is_refused_with_the_field(finished, refused):
    edit_json(finished / "run.json", lambda run: run["environment"].update(threads=99))
    line = refused(
        "trace", "--artifact-dir", CHECKPOINT, "--work-dir", finished, "--quiet", "--layers", "4",
        "--resume",
    )  # fmt: skip
    assert line.startswith("run.json: another run: environment.threads: expected 99, found ")


def test_a_folder_with_other_files_is_refused(tmp_path, refused):
    work = tmp_path / "documents"
    work.mkdir()
    (work / "letter.txt").write_text("dear")
    line = refused("trace", "--artifact-dir", CHECKPOINT, "--work-dir", work, "--quiet")
    assert line.startswith("documents: work folder: expected an empty folder")


def test_resume_without_a_work_folder_is_refused(refused):
    line = refused("trace", "--artifact-dir", CHECKPOINT, "--resume", "--quiet")
    assert line == "--resume: nothing to resume from: expected --work-dir DIR"


def test_a_broken_stored_layer_is_refused_with_its_name(finished, refused):
    path = finished / "layer-00002.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    line = refused(
        "trace", "--artifact-dir", CHECKPOINT, "--work-dir", finished, "--quiet", "--layers", "4",
        "--resume",
    )  # fmt: skip
    assert line.startswith("layer-00002.safetensors: stored layer is broken")


@pytest.mark.parametrize("name", ["layer-00001.safetensors", "hidden-00003.safetensors"])
def test_a_stored_layer_with_one_changed_bit_is_refused(finished, refused, name):
    path = finished / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    # one layer more than was stored, so that the hidden states are needed
    edit_json(finished / "run.json", lambda run: run["stop_line"].update(more_layers()))
    line = refused(
        "trace", "--artifact-dir", CHECKPOINT, "--work-dir", finished, "--quiet", "--layers", "5",
        "--resume",
    )  # fmt: skip
    assert line.startswith(f"{name}: stored layer is broken: ")


def more_layers() -> dict[str, object]:
    return {"executed_layers": [0, 1, 2, 3, 4], "first_missing_layer": 5}
