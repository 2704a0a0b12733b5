"""Artifact folders for the tests of the capture: the embedded checkpoint, whole or damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from capture.__main__ import main
from capture.demo.layout import SHARDS
from capture.demo.seal import CHECKPOINT

SHARED_CONFIG = Path(__file__).parents[3] / "shared" / "data" / "deepseek-v2-lite"


@pytest.fixture
def linked_checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """Folder of links to the embedded checkpoint; files named in `own` are copies to damage,
    those in `without` are left out."""

    def make(*, own: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> Path:
        folder = tmp_path / "artifact"
        folder.mkdir()
        for file in sorted(CHECKPOINT.iterdir()):
            if not file.is_file() or file.name in without:
                continue
            if file.name in own:
                shutil.copyfile(file, folder / file.name)
            else:
                (folder / file.name).symlink_to(file)
        return folder

    return make


@pytest.fixture
def first_shard_only(linked_checkpoint: Callable[..., Path]) -> Path:
    return linked_checkpoint(without=(SHARDS[1],))


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must be refused; gives its one line. Nothing may have been written."""

    def run(*argv: str | Path, output: Path | None = None) -> str:
        target = output or tmp_path / "out" / "result.json"
        target.parent.mkdir(exist_ok=True)
        capsys.readouterr()
        before = sorted(target.parent.iterdir())
        code = main([*map(str, argv), "--output", str(target)])
        captured = capsys.readouterr()
        assert code == 2, captured
        assert not captured.out
        assert sorted(target.parent.iterdir()) == before
        lines = captured.err.splitlines()
        assert len(lines) == 1, lines
        return lines[0]

    return run


@pytest.fixture
def official_config_and_index(tmp_path: Path) -> Path:
    """Folder with the official config.json and index of DeepSeek-V2-Lite, and no weights."""
    if not SHARED_CONFIG.is_dir():
        pytest.skip("needs ../shared/data/deepseek-v2-lite (official config.json and index)")
    folder = tmp_path / "v2-lite"
    folder.mkdir()
    for name in ("config.json", "model.safetensors.index.json"):
        shutil.copyfile(SHARED_CONFIG / name, folder / name)
    return folder


def edit_json(path: Path, edit: Callable[[dict], object]) -> None:
    """Change a JSON file in place."""
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")
