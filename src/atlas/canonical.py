"""Canonical bytes: the same content is the same file.

UTF-8, keys sorted, shortest round-trip floats, no NaN, two-space indent at the outer levels
so that diffs stay readable and arrays of numbers stay on one line, `\\n` at the end.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel

DECIMALS = 8
"""Statistics are rounded to this many decimals before they are stored: vector units of
different processors differ in the last bits of log and exp, and the file must not."""


def rounded(value: float) -> float:
    """`value` at the stored precision, without a negative zero."""
    return round(float(value), DECIMALS) + 0.0


def canonical_json(content: Any) -> bytes:
    """Bytes of `content` (a pydantic model or plain JSON values)."""
    if isinstance(content, BaseModel):
        content = content.model_dump(mode="json", by_alias=True)
    return (_render(content, "") + "\n").encode("utf-8")


def _render(value: Any, indent: str) -> str:
    inner = indent + "  "
    if isinstance(value, dict):
        if not value:
            return "{}"
        rows = [f"{inner}{_scalar(key)}: {_render(value[key], inner)}" for key in sorted(value)]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list | tuple):
        if not any(isinstance(item, dict | list | tuple) for item in value):
            return "[" + ", ".join(_scalar(item) for item in value) + "]"
        return "[\n" + ",\n".join(inner + _render(x, inner) for x in value) + f"\n{indent}]"
    return _scalar(value)


# one encoder for all values: json.dumps would make a new one for each of a million numbers
_scalar = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def parse_json(data: bytes) -> Any:
    """JSON values of `data`; ValueError for anything else, NaN and repeated keys included."""

    def no_constant(name: str) -> None:
        raise ValueError(f"found {name}")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = dict(pairs)
        if len(keys) != len(pairs):
            seen: set[str] = set()
            twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
            raise ValueError(f"found key {twice[:80]!r} twice")
        return keys

    try:
        text = data.decode("utf-8")
        return json.loads(text, parse_constant=no_constant, object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise ValueError(f"found bytes that are not UTF-8 at offset {error.start}") from error
    except RecursionError as error:
        raise ValueError("found too many nested levels") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one step: a reader sees the old file or the whole new one.

    Raises OSError and leaves nothing behind.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
