"""Rows of a corpus file, one at a time, with bounds on what a row and a file may hold.

Memory is bounded by the longest row that is allowed: a compressed bomb, a line without an
end and a file that inflates without end are refused with the row's number.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any, BinaryIO, Protocol

from atlas.canonical import parse_json
from capture.corpus.pins import MAX_BYTES
from capture.errors import Refusal

MAX_ROW_BYTES = 2**20
"""Longest line or parquet value in bytes; the longest of the four corpora is under 16 KiB."""

_GZIP_MAGIC = b"\x1f\x8b"
_BATCH_ROWS = 512


class _Lines(Protocol):
    def readline(self, size: int = -1, /) -> bytes: ...


def lines(handle: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Line numbers from 1 and lines of a plain or gzip file, without their line end.

    A line ends with `\\n` or `\\r\\n`, never with another Unicode separator.
    """
    source: _Lines = handle
    if handle.read(2) == _GZIP_MAGIC:
        source = gzip.GzipFile(fileobj=handle)
    handle.seek(0)
    seen = number = 0
    while True:
        number += 1
        try:
            line = source.readline(MAX_ROW_BYTES + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Refusal(
                where=f"{name}: line {number}", what="broken gzip data", found=error
            ) from error
        if not line:
            return
        seen += len(line)
        _within(len(line), MAX_ROW_BYTES, f"{name}: line {number}", "line is too long")
        _within(seen, MAX_BYTES, f"{name}: line {number}", "file is too long")
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")


def objects(handle: BinaryIO, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers from 1 and JSON objects of a JSON Lines file; blank lines are passed over.

    Raises Refusal with the line number for anything that is not one JSON object.
    """
    for number, line in lines(handle, name):
        if not line.strip():
            continue
        where = f"{name}: line {number}"
        try:
            row = parse_json(line)
        except ValueError as error:
            raise Refusal(where=where, what=f"not one JSON object: {error}") from error
        if not isinstance(row, dict):
            raise Refusal(
                where=where, what="wrong line", expected="a JSON object", found=_kind(row)
            )
        yield number, row


def parquet_values(handle: BinaryIO, name: str, column: str) -> Iterator[tuple[int, Any]]:
    """Row numbers from 0 and the values of one column; the other columns are not read."""
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise Refusal(
            where=name, what="parquet cannot be read", expected="the package pyarrow", found="none"
        ) from error
    try:
        # declared lengths are not trusted for allocation
        limits = {"thrift_string_size_limit": MAX_ROW_BYTES, "thrift_container_size_limit": 2**16}
        file = parquet.ParquetFile(handle, **limits)
        if column not in file.schema_arrow.names:
            raise Refusal(
                where=name,
                what="wrong columns",
                expected=f"a column {column!r}",
                found=", ".join(file.schema_arrow.names[:8]),
            )
        groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
        inflated = sum(group.total_byte_size for group in groups)
        _within(inflated, MAX_BYTES, name, "file is too long")
        number = 0
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=[column]):
            for value in batch.column(0).to_pylist():
                yield number, value
                number += 1
    except (OSError, ValueError, KeyError) as error:  # ArrowException derives from these
        raise Refusal(
            where=name, what="not a parquet file", found=str(error).splitlines()[0]
        ) from error


def string(value: Any, where: str, field: str) -> str:
    """`value` if it is a text that UTF-8 can hold; Refusal otherwise, without the value."""
    if not isinstance(value, str):
        raise Refusal(where=where, what=f"field {field!r}", expected="a string", found=_kind(value))
    _within(len(value), MAX_ROW_BYTES, where, f"field {field!r} is too long")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refusal(
            where=where,
            what=f"field {field!r}",
            expected="text that UTF-8 can hold",
            found=f"the lone surrogate U+{ord(value[error.start]):04X} at character {error.start}",
        ) from error
    return value


def _within(found: int, limit: int, where: str, what: str) -> None:
    if found > limit:
        raise Refusal(where=where, what=what, expected=f"at most {limit} bytes", found=f"{found}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false"}
    names |= {int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), type(value).__name__)
