"""Pins of the corpora (pins.json), and the check of a file against its pin.

A pin that was only ever printed in abbreviated form is kept as it was printed
("74f19932…a0ca8"): both ends are compared, and the record holds the full hash found.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

from pydantic import StringConstraints

from atlas.canonical import parse_json
from atlas.contract.base import Count, Sha256, Slug, Strict
from capture.errors import Refusal

MAX_BYTES = 256 * 2**20
"""Most bytes that a corpus file may have, compressed or not."""

ELLIPSIS = "…"
FLAG = "--allow-unpinned-corpus"

PinnedHash = Annotated[
    str, StringConstraints(pattern=rf"^([0-9a-f]{{64}}|[0-9a-f]{{7,}}{ELLIPSIS}[0-9a-f]{{3,}})$")
]


class FilePin(Strict):
    """One file: its path at the publisher, its size where that is known, its SHA-256."""

    name: str
    bytes: Count | None
    sha256: PinnedHash


class SourcePin(Strict):
    """One corpus. `revision_complete` is false where only an abbreviation was published."""

    domain: Slug
    name: str
    url: str
    revision: str
    revision_complete: bool
    licence: str
    field: str
    source_id: str
    files: dict[Literal["corpus", "archive"], FilePin]


@dataclass(frozen=True)
class CheckedFile:
    """A file that was hashed once. `open` refuses it if its bytes are others by then."""

    path: Path
    name: str
    size: int
    sha256: Sha256
    pinned: bool

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """A handle on exactly the bytes that were checked, at their beginning."""
        with _opened(self.path) as (handle, size):
            found = _digest(handle, self.name)
            if (size, found) != (self.size, self.sha256):
                raise Refusal(
                    where=self.name,
                    what="file changed while it was in use",
                    expected=self.sha256,
                    found=found,
                )
            handle.seek(0)
            yield handle


@cache
def source_pins() -> dict[str, SourcePin]:
    """Pins by source: wikitext, tnews, human_eval, gsm8k and the embedded probe/<domain>."""
    raw = parse_json(Path(__file__).with_name("pins.json").read_bytes())
    return {name: SourcePin.model_validate(pin) for name, pin in raw.items()}


def check_file(path: Path, pin: FilePin, *, allow_unpinned: bool = False) -> CheckedFile:
    """Hash a file and compare it with its pin.

    Raises Refusal for a file that cannot be read, is too large, or is not the pinned one;
    the last is let through with `allow_unpinned`, and then `pinned` is false.
    """
    with _opened(path) as (handle, size):
        found = _digest(handle, path.name)
    pinned = matches(found, pin.sha256) and pin.bytes in (None, size)
    if not pinned and not allow_unpinned:
        raise Refusal(
            where=path.name,
            what=f"not the pinned corpus file (SHA-256; {FLAG} reads it all the same)",
            expected=pin.sha256,
            found=found,
        )
    return CheckedFile(path, path.name, size, found, pinned)


def matches(found: str, pin: str) -> bool:
    """Whether a full SHA-256 is the pinned one, or has both ends of an abbreviated pin."""
    head, _, tail = pin.partition(ELLIPSIS)
    return len(found) == 64 and bool(re.fullmatch(f"{head}[0-9a-f]*{tail}", found))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    try:
        status = path.stat()
        regular = stat.S_ISREG(status.st_mode)
        if regular and status.st_size <= MAX_BYTES:
            with path.open("rb") as handle:
                yield handle, status.st_size
            return
    except OSError as error:
        raise Refusal(
            where=path.name, what="file cannot be read", found=error.strerror or error
        ) from error
    if not regular:
        raise Refusal(where=path.name, what="not a file", expected="a regular file")
    raise Refusal(
        where=path.name,
        what="file is too large for a corpus",
        expected=f"at most {MAX_BYTES} bytes",
        found=status.st_size,
    )


def _digest(handle: BinaryIO, name: str) -> str:
    digest, seen = sha256(), 0
    while block := handle.read(2**20):
        seen += len(block)
        if seen > MAX_BYTES:  # it grows while it is read
            raise Refusal(where=name, what="file is too large for a corpus", found=f"{seen} bytes")
        digest.update(block)
    return digest.hexdigest()
