"""Rows of a file: bounded, numbered, refused with their place."""

from __future__ import annotations

import gzip
import io
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.corpus import pins, records
from capture.corpus.pins import FilePin, check_file, matches
from capture.corpus.records import lines, objects
from capture.errors import Refusal


def test_lines_end_at_line_feeds_only() -> None:
    data = "a\u2028b\x0bc\r\n\r\nd\re".encode()
    assert list(lines(io.BytesIO(data), "f")) == [
        (1, "a\u2028b\x0bc".encode()),
        (2, b""),
        (3, b"d\re"),
    ]


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"").rstrip(b"\r"))))
def test_compressed_lines_are_the_same_lines(rows: list[bytes]) -> None:
    data = b"".join(row + b"\n" for row in rows)
    if data.startswith(b"\x1f\x8b"):
        return
    plain = list(lines(io.BytesIO(data), "f"))
    assert plain == list(enumerate(rows, 1))
    assert list(lines(io.BytesIO(gzip.compress(data)), "f")) == plain


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"a": 1', "not one JSON object: Expecting"),
        (b'{"a": 1} {"a": 2}', "not one JSON object: Extra data"),
        (b'{"a": NaN}', "not one JSON object: found NaN"),
        (b'{"a": 1, "a": 2}', "not one JSON object: found key 'a' twice"),
        (b'{"a": "\xff"}', "not one JSON object: found bytes that are not UTF-8 at offset 7"),
        (b"[1]", "wrong line: expected a JSON object, found an array"),
        (b"null", "wrong line: expected a JSON object, found null"),
        (b"[" * 200_000, "not one JSON object: found too many nested levels"),
        (b"\xef\xbb\xbf{}", "not one JSON object: Unexpected UTF-8 BOM"),
    ],
)
def test_a_line_that_is_no_object_is_refused_with_its_number(line: bytes, told: str) -> None:
    with pytest.raises(Refusal) as refused:
        list(objects(io.BytesIO(b'{"ok": 1}\n\n' + line + b"\n"), "f.jsonl"))
    assert str(refused.value).startswith(f"f.jsonl: line 3: {told}")


def test_a_line_of_exactly_the_limit_is_read_and_one_byte_more_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records, "MAX_ROW_BYTES", 8)
    assert list(lines(io.BytesIO(b"1234567\n12345678"), "f")) == [(1, b"1234567"), (2, b"12345678")]
    with pytest.raises(Refusal) as refused:
        list(lines(io.BytesIO(b"1\n123456789"), "f"))
    assert str(refused.value) == "f: line 2: line is too long: expected at most 8 bytes, found 9"


def test_a_gzip_bomb_is_refused_before_it_is_inflated() -> None:
    bomb = gzip.compress(b"\0" * (64 * 2**20))
    assert len(bomb) < 100_000
    with pytest.raises(Refusal, match=r"^f: line 1: line is too long"):
        list(lines(io.BytesIO(bomb), "f"))


def test_a_file_that_inflates_past_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_BYTES", 10)
    with pytest.raises(Refusal, match=r"^f: line 6: file is too long: expected at most 10 bytes"):
        list(lines(io.BytesIO(gzip.compress(b"1\n" * 100)), "f"))


@pytest.mark.parametrize("damage", ["cut", "header", "data", "crc"])
def test_broken_gzip_data_is_refused(damage: str) -> None:
    whole = gzip.compress(bytes(range(32, 127)) * 400)
    data = {
        "cut": whole[:-12],
        "header": whole[:3] + b"\xff" * 6,
        "data": whole[:14] + b"\xff" * 12 + whole[26:],
        "crc": whole[:-8] + bytes(8),
    }[damage]
    with pytest.raises(Refusal, match=r"^f: line \d+: broken gzip data: found "):
        list(lines(io.BytesIO(data), "f"))


def test_a_file_larger_than_the_limit_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "big.jsonl"
    path.write_bytes(b"12345")
    monkeypatch.setattr(pins, "MAX_BYTES", 4)
    with pytest.raises(Refusal) as refused:
        check_file(path, FilePin(name="x", bytes=None, sha256="0" * 64), allow_unpinned=True)
    assert str(refused.value) == (
        "big.jsonl: file is too large for a corpus: expected at most 4 bytes, found 5"
    )


def test_a_pinned_size_must_agree_too(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    found = sha256(b"12345").hexdigest()
    assert check_file(path, FilePin(name="f", bytes=5, sha256=found)).pinned
    with pytest.raises(Refusal, match="not the pinned corpus file"):
        check_file(path, FilePin(name="f", bytes=6, sha256=found))


def test_an_abbreviated_pin_matches_by_both_ends() -> None:
    found = "0123456789abcdef" * 4
    assert matches(found, found)
    assert matches(found, "0123456…def")
    assert not matches(found, "0123457…def")
    assert not matches(found, "0123456…dee")
    assert not matches(found[:-1], "0123456…cde")
    assert not matches(found, found[:-1] + "0")
