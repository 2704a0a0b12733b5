from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from atlas import effects as effects_module
from atlas.effects import Disk, Memory
from atlas.errors import SiteError
from atlas.exchange import exchange
from tests.atlas.site.conftest import ROOT

SITE = {"manifest.json": b"{}", "en/index.html": b"new"}


def listed(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_site_is_written_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    Disk().replace(tmp_path / "site", SITE)
    assert Disk().names(tmp_path / "site") == ("en/index.html", "manifest.json")
    assert listed(tmp_path) == ["site"]


def test_the_next_build_replaces_every_file_of_the_last(tmp_path: Path) -> None:
    Disk().replace(tmp_path / "site", SITE | {"old.html": b"x"})
    Disk().replace(tmp_path / "site", SITE)
    assert "old.html" not in Disk().names(tmp_path / "site")
    assert listed(tmp_path) == ["site"]


@pytest.mark.parametrize("step", ["write_bytes", "rename"])
def test_a_crash_in_the_middle_leaves_the_old_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    Disk().replace(tmp_path / "site", SITE | {"en/index.html": b"old"})
    original, calls = getattr(Path, step), []

    def fails(self: Path, *arguments: object) -> object:
        calls.append(self)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return original(self, *arguments)

    monkeypatch.setattr(Path, step, fails)
    # a system that cannot exchange two folders renames twice
    monkeypatch.setattr(effects_module, "exchange", lambda first, second: False)
    with pytest.raises(SiteError, match="site: cannot be written: No space left"):
        Disk().replace(tmp_path / "site", SITE)
    monkeypatch.undo()
    assert (tmp_path / "site/en/index.html").read_bytes() == b"old"
    assert listed(tmp_path) == ["site"]


@pytest.mark.parametrize(
    ("step", "call", "exchanged"),
    [
        ("write_bytes", 2, True),
        ("chmod", 1, True),
        ("write_bytes", 2, False),
        ("chmod", 1, False),
        ("rename", 1, False),
    ],
)
def test_a_build_that_is_killed_leaves_the_old_site_and_the_next_one_replaces_it(
    tmp_path: Path, step: str, call: int, exchanged: bool
) -> None:
    old = SITE | {"en/index.html": b"old"}
    Disk().replace(tmp_path / "site", old)
    program = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from atlas import effects\n"
        "from atlas.effects import Disk\n"
        f"effects.exchange = effects.exchange if {exchanged} else lambda first, second: False\n"
        f"original, calls = Path.{step}, []\n"
        "def dies(self, *arguments):\n"
        "    calls.append(self)\n"
        f"    if len(calls) == {call}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return original(self, *arguments)\n"
        f"Path.{step} = dies\n"
        f"Disk().replace(Path({str(tmp_path / 'site')!r}), {SITE!r})\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    killed = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert {n: Disk().read(tmp_path / "site", n) for n in Disk().names(tmp_path / "site")} == old
    Disk().replace(tmp_path / "site", SITE)
    assert Disk().read(tmp_path / "site", "en/index.html") == b"new"


@pytest.mark.parametrize("after", [True, False])
def test_a_kill_around_the_exchange_leaves_one_whole_site(tmp_path: Path, after: bool) -> None:
    if not can_exchange(tmp_path):
        pytest.skip("this file system cannot exchange folders; ext4, xfs, btrfs or tmpfs can")
    old = SITE | {"en/index.html": b"old", "en/gone.html": b"old"}
    Disk().replace(tmp_path / "site", old)
    program = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from atlas import effects\n"
        "original = effects.exchange\n"
        "def dies(first, second):\n"
        f"    if {after}: assert original(first, second)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "effects.exchange = dies\n"
        f"effects.Disk().replace(Path({str(tmp_path / 'site')!r}), {SITE!r})\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    killed = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    there = {n: Disk().read(tmp_path / "site", n) for n in Disk().names(tmp_path / "site")}
    assert there == (SITE if after else old)


def can_exchange(folder: Path) -> bool:
    first, second = folder / "first", folder / "second"
    first.mkdir(), second.mkdir()
    (first / "x").touch()
    done = exchange(first, second)
    assert listed(second if done else first) == ["x"]
    shutil.rmtree(first), shutil.rmtree(second)
    return done


def test_an_exchange_with_nothing_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert not exchange(tmp_path / "there", tmp_path / "gone")
    assert listed(tmp_path) == ["there"]


def test_a_folder_that_is_no_site_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.txt").write_text("years of work")
    with pytest.raises(SiteError, match="expected an empty folder or an earlier site"):
        Disk().replace(tmp_path / "home", SITE)
    assert listed(tmp_path / "home") == ["thesis.txt"]


def test_an_output_that_is_a_file_or_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("file", "link"):
        with pytest.raises(SiteError, match="expected a folder to write to"):
            Disk().replace(tmp_path / name, SITE)


def test_a_name_that_leaves_the_folder_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="inside the output folder"):
        Disk().replace(tmp_path / "site", SITE | {"../evil.html": b"x"})
    assert listed(tmp_path) == []


def test_a_site_has_the_permissions_that_the_umask_gives(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        Disk().replace(tmp_path / "site", SITE)
    finally:
        os.umask(old)
    assert (tmp_path / "site").stat().st_mode & 0o777 == 0o755


def test_memory_and_disk_hold_the_same_files(tmp_path: Path) -> None:
    memory = Memory()
    for effects in (Disk(), memory):
        effects.replace(tmp_path / "site", SITE)
    assert Disk().names(tmp_path / "site") == memory.names(tmp_path / "site")
    for name in SITE:
        assert Disk().read(tmp_path / "site", name) == memory.read(tmp_path / "site", name)


def test_a_folder_or_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for effects in (Disk(), Memory({tmp_path: {}})):
        with pytest.raises(SiteError, match="gone: expected a folder, found nothing"):
            effects.names(tmp_path / "gone")
        with pytest.raises(SiteError, match=r"x.json: cannot be read"):
            effects.read(tmp_path, "x.json")
