"""A disk that is full, and a file that may not grow: one line, and no output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.conftest import arguments

pytestmark = pytest.mark.crash
ROOT = Path(__file__).parents[2]
LIMITED = """
import resource, sys
from capture.__main__ import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(main(sys.argv[2:]))
"""


def refused(argv: list[str], largest_file: int | None = None) -> str:
    """The one line of a capture that must be refused."""
    limit = resource_limit() if largest_file is None else largest_file
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *argv],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line


def resource_limit() -> int:
    import resource

    return resource.getrlimit(resource.RLIMIT_FSIZE)[1]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KiB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a tiny tmpfs needs root and mount")
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this container may not mount a tmpfs, which the test needs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_under_the_output_is_one_line_and_leaves_nothing(
    tiny_disk: Path, tmp_path: Path
) -> None:
    line = refused(arguments("trace", tiny_disk / "out.json", tmp_path / "work"))
    assert line == "out.json: output cannot be written: found No space left on device"
    assert list(tiny_disk.iterdir()) == []


def test_a_full_disk_under_the_work_folder_is_one_line_and_no_output(
    tiny_disk: Path, tmp_path: Path
) -> None:
    line = refused(arguments("trace", tmp_path / "out.json", tiny_disk / "work"))
    assert line.startswith("work: layer ")
    assert line.endswith(" cannot be stored: found No space left on device")
    assert not (tmp_path / "out.json").exists()
    assert not [p for p in (tiny_disk / "work").iterdir() if p.suffix == ".part"]


def test_an_output_longer_than_a_file_may_be_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    argv = ["corpus", "--probes", "--per-domain", "4", "--layers", "2", "--bootstrap", "20"]
    paths = ["--artifact-dir", str(arguments("trace", folder, folder)[2]), "--quiet"]
    line = refused([*argv, *paths, "--output", str(folder / "out.json")], largest_file=4096)
    assert line == "out.json: output cannot be written: found File too large"
    assert list(folder.iterdir()) == []
