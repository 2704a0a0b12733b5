"""Every read and write of a build goes through one small object.

`Disk` touches the file system, `Memory` holds folders in a dict, so that a whole build runs
in a test without a disk. Names inside a folder are relative, with `/`.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from atlas.errors import SiteError
from atlas.exchange import exchange

MARKER = "manifest.json"
"""A folder that holds this file was written by a build and may be replaced by the next one."""


class Effects(Protocol):
    """What a build may do to the world."""

    def names(self, folder: Path) -> tuple[str, ...]:
        """Sorted names of every file under `folder`. Raises SiteError if it is not there."""
        ...

    def read(self, folder: Path, name: str) -> bytes:
        """Bytes of one file. Raises SiteError."""
        ...

    def replace(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Make `folder` hold exactly `files`; on any error it stays as it was."""
        ...


_ODD = re.compile(r'[\x00-\x1f\\:*?"<>|]')


def checked_name(name: str) -> str:
    """`name` if it stays inside its folder. Raises SiteError for `..`, `/x`, `a//b`, `a\\b`."""
    parts = name.split("/")
    if _ODD.search(name) or any(p in ("", ".", "..") for p in parts):
        raise SiteError(f"output path: expected a path inside the output folder, found {name!r}")
    return name


class Memory:
    """Folders in a dict; `folders` may be read and prepared by a test."""

    def __init__(self, folders: Mapping[Path, Mapping[str, bytes]] | None = None) -> None:
        self.folders: dict[Path, dict[str, bytes]] = {
            folder: dict(files) for folder, files in (folders or {}).items()
        }

    def names(self, folder: Path) -> tuple[str, ...]:
        if folder not in self.folders:
            raise SiteError(f"{folder.name}: expected a folder, found nothing")
        return tuple(sorted(self.folders[folder]))

    def read(self, folder: Path, name: str) -> bytes:
        try:
            return self.folders[folder][name]
        except KeyError:
            raise SiteError(f"{name}: cannot be read: no such file") from None

    def replace(self, folder: Path, files: Mapping[str, bytes]) -> None:
        self.folders[folder] = {checked_name(name): files[name] for name in sorted(files)}


class Disk:
    """The file system."""

    def names(self, folder: Path) -> tuple[str, ...]:
        if not folder.is_dir():
            raise SiteError(f"{folder.name}: expected a folder, found nothing")
        found = []
        for place, folders, files in os.walk(folder):
            folders.sort()
            found += [(Path(place) / file).relative_to(folder).as_posix() for file in files]
        return tuple(sorted(found))

    def read(self, folder: Path, name: str) -> bytes:
        try:
            return (folder / name).read_bytes()
        except OSError as error:
            raise SiteError(f"{name}: cannot be read: {error.strerror}") from error

    def replace(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Written to a fresh folder beside the old one, which it then changes places with."""
        for name in files:
            checked_name(name)
        _refuse_foreign(folder)
        fresh: Path | None = None
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.new-"))
            for name in sorted(files):
                path = fresh / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(files[name])
            umask = os.umask(0)
            os.umask(umask)
            fresh.chmod(0o777 & ~umask)
            _swap(fresh, folder)
        except OSError as error:
            raise SiteError(f"{folder.name}: cannot be written: {error.strerror}") from error
        finally:
            if fresh is not None:
                shutil.rmtree(fresh, ignore_errors=True)


def _refuse_foreign(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise SiteError(f"{folder.name}: expected a folder to write to, found something else")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise SiteError(
            f"{folder.name}: expected an empty folder or an earlier site (with {MARKER}), "
            "found other files; nothing was touched"
        )


def _swap(fresh: Path, folder: Path) -> None:
    if not folder.exists():
        fresh.rename(folder)
        return
    if exchange(fresh, folder):
        # at no moment was there no site; what `fresh` names now is the old one, to be removed
        return
    old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old-"))
    folder.rename(old)
    try:
        fresh.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
