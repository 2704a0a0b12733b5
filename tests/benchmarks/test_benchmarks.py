"""The benchmark programs run from end to end at small shapes, on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open

from benchmarks.make_checkpoint import make_checkpoint
from benchmarks.unpinned import open_unpinned
from capture.artifacts import INDEX, open_artifact
from capture.demo.seal import CHECKPOINT
from capture.errors import Refusal
from capture.tensors import EMBEDDING, checkpoint_shapes

ROOT = Path(__file__).parents[2]
CONFIG, EMBEDDED_INDEX = CHECKPOINT / "config.json", CHECKPOINT / INDEX


def run(program: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, f"benchmarks/{program}", *argv],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_streaming_benchmark_finds_the_whole_models_bits() -> None:
    """The program itself asserts them, and that every tensor was read once."""
    done = run("streaming.py", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| trace, cold |" in done.stdout
    assert "| layer-outer |" in done.stdout


def test_the_gpu_script_runs_on_the_cpu_and_two_runs_agree() -> None:
    done = run("gpu.py", "--device", "cpu", "--quick")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("| yes |")]
    assert len(rows) == 4


def test_a_made_checkpoint_has_every_tensor_where_the_index_says(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    make_checkpoint(folder, CONFIG, index=EMBEDDED_INDEX)
    artifact = open_artifact(folder, "demo")
    assert artifact.shard_of == open_artifact(CHECKPOINT, "demo").shard_of
    shapes = checkpoint_shapes(artifact.architecture)
    for shard in artifact.shards:
        with safe_open(str(folder / shard), framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - not a dict
                assert tuple(file.get_slice(name).get_shape()) == shapes[name]
                tensor = file.get_tensor(name).float()
                if "norm" in name:
                    assert bool((tensor == 1).all())
                elif tensor.numel() > 10_000:
                    assert tensor.std().item() == pytest.approx(0.02, rel=0.05)


def test_a_tensor_has_the_same_bytes_whichever_layers_are_made(tmp_path: Path) -> None:
    tensors = []
    for layers in (1, 2):
        make_checkpoint(tmp_path / str(layers), CONFIG, index=EMBEDDED_INDEX, layers=layers)
        artifact = open_artifact(tmp_path / str(layers), "demo")
        with safe_open(str(artifact.folder / artifact.shard_of[EMBEDDING]), "pt") as file:
            tensors.append(file.get_tensor(EMBEDDING))
    assert tensors[0].equal(tensors[1])


@pytest.mark.parametrize("layers", [1, 3])
def test_layers_that_were_not_made_are_beyond_the_stop_line(tmp_path: Path, layers: int) -> None:
    make_checkpoint(tmp_path / "made", CONFIG, index=EMBEDDED_INDEX, layers=layers)
    session = open_unpinned(tmp_path / "made")
    assert session.stop_line.executed_layers == tuple(range(layers))
    assert session.stop_line.reason == "tensors_missing"


def test_the_official_index_keeps_its_stop_line_after_layer_6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layout only: weights of 7.6 GB are not made here."""
    from benchmarks import make_checkpoint as module

    index = ROOT.parent / "shared" / "data" / "deepseek-v2-lite" / INDEX
    if not index.is_file():
        pytest.skip("needs ../shared/data/deepseek-v2-lite (official index)")
    written = {}
    monkeypatch.setattr(
        module, "write_shard", lambda path, shapes, *_: written.update({path.name: shapes})
    )
    size = make_checkpoint(tmp_path / "made", module.V2_LITE, index=index, layers=7)
    assert list(written) == ["model-00001-of-000004.safetensors"]
    # 102,400 × 2,048 + 81,007,104 (layer 0) + 6 × 584,847,872 (MoE layers) elements of 2 bytes
    assert size == 2 * (209_715_200 + 81_007_104 + 6 * 584_847_872) == 7_599_619_072
    for name in written:
        (tmp_path / "made" / name).touch()
    artifact = open_artifact(tmp_path / "made", "deepseek-v2-lite")
    assert artifact.stop_line().executed_layers == tuple(range(7))


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    with pytest.raises(Refusal, match="output folder: expected empty, found files"):
        make_checkpoint(tmp_path, CONFIG)


def test_code_that_is_not_the_embedded_checkpoints_is_not_run(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "made", CONFIG, layers=1)
    with (tmp_path / "made" / "modeling_deepseek.py").open("a") as file:
        file.write("\n")
    with pytest.raises(Refusal, match=r"^modeling_deepseek.py: size differs"):
        open_unpinned(tmp_path / "made")
