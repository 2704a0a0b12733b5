"""Output files: checked before the work, written in one step after it."""

from __future__ import annotations

import os
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from atlas.canonical import canonical_json, write_atomically
from atlas.contract import Strict
from capture.errors import Refusal


def require_writable(path: Path) -> None:
    """Raise Refusal unless a file can be written at `path`; long work must not end in a no."""
    if path.is_dir():
        raise Refusal(where=str(path.name), what="output", expected="a file", found="a folder")
    if not path.parent.is_dir():
        raise Refusal(
            where=path.name, what="output folder missing", expected=f"folder {path.parent.name!r}"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise Refusal(
            where=path.name,
            what="output folder cannot be written",
            expected=f"folder {path.parent.name!r} writable",
        )


def write(path: Path, content: Strict) -> str:
    """Write canonical bytes in one step; returns their SHA-256. Raises Refusal."""
    data = canonical_json(content)
    try:
        write_atomically(path, data)
    except OSError as error:
        raise Refusal(
            where=path.name, what="output cannot be written", found=error.strerror
        ) from error
    return sha256(data).hexdigest()


def captured_at(value: str | None) -> str | None:
    """`--captured-at` as given, checked to be ISO 8601 with a zone. Raises Refusal."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Refusal(
            where="--captured-at",
            what="time",
            expected="ISO 8601 with a zone, as 2026-07-29T07:45:00+00:00",
            found=value[:60],
        )
    return value
