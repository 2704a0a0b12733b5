"""atlas.canonical: one content, one file; and a write that is whole or not there."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.canonical import canonical_json, parse_json, rounded, write_atomically

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def turned_around(value: Any) -> Any:
    """The same content with every dict's keys inserted in the opposite order."""
    if isinstance(value, dict):
        return {key: turned_around(value[key]) for key in reversed(value)}
    return [turned_around(item) for item in value] if isinstance(value, list) else value


@given(values)
def test_the_same_content_is_the_same_bytes_whatever_the_order_of_its_keys(value: Any) -> None:
    assert canonical_json(value) == canonical_json(turned_around(value))


@given(values)
def test_what_is_written_is_read_back_and_written_to_the_same_bytes(value: Any) -> None:
    data = canonical_json(value)
    assert parse_json(data) == value
    assert canonical_json(parse_json(data)) == data


def test_the_layout_is_sorted_utf_8_with_one_newline_at_the_end() -> None:
    content = {
        "b": {"z": [], "a": {}},
        "a": [1, 2.0, 0.1],
        "专家": [[1], [2, 3]],
        "c": (True, None),
    }
    assert canonical_json(content).decode("utf-8") == (
        "{\n"
        '  "a": [1, 2.0, 0.1],\n'
        '  "b": {\n    "a": {},\n    "z": []\n  },\n'
        '  "c": [true, null],\n'
        '  "专家": [\n    [1],\n    [2, 3]\n  ]\n'
        "}\n"
    )


def test_floats_are_the_shortest_that_read_back_the_same() -> None:
    assert canonical_json([0.1 + 0.2, 1e-08, 0.1, 5e-324]) == (
        b"[0.30000000000000004, 1e-08, 0.1, 5e-324]\n"
    )


def test_control_characters_and_quotes_are_escaped() -> None:
    assert canonical_json('a"\n\u2028</script>') == '"a\\"\\n\u2028</script>"\n'.encode()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_not_written(number: float) -> None:
    for content in (number, [1.0, number], {"a": {"b": number}}):
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical_json(content)


def test_what_json_does_not_know_is_not_written() -> None:
    for content in ({1, 2}, b"bytes", {"path": Path()}):
        with pytest.raises(TypeError):
            canonical_json(content)
    with pytest.raises(UnicodeEncodeError):
        canonical_json("\ud800")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": NaN}', "found NaN"),
        (b"[-Infinity]", "found -Infinity"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "found key 'c' twice"),
        (b'{"a": 1, "\\u0061": 2}', "found key 'a' twice"),
        (b'{"a": "\xff"}', "not UTF-8 at offset 7"),
        (b"[" * 100_000, "nested"),
        (b"", "Expecting value"),
        (b"{} {}", "Extra data"),
    ],
)
def test_what_is_no_json_is_refused_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_json(data)
    assert "\n" not in str(caught.value)


def test_numbers_are_rounded_to_eight_decimals_without_a_negative_zero() -> None:
    assert rounded(1 / 3) == 0.33333333
    assert rounded(2 / 3) == 0.66666667
    assert json.dumps(rounded(-1e-12)) == "0.0"
    assert json.dumps(rounded(-0.0)) == "0.0"


@given(st.floats(-1e6, 1e6))
def test_rounding_twice_is_rounding_once(value: float) -> None:
    assert rounded(rounded(value)) == rounded(value)


# writing


def test_a_file_is_written_with_the_users_permissions_and_nothing_beside_it(
    tmp_path: Path,
) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a.json", b"{}\n")
    finally:
        os.umask(before)
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"{}\n"
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o640


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_bytes(b"old, and longer than the new one\n")
    write_atomically(target, b"new\n")
    assert target.read_bytes() == b"new\n"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    target = tmp_path / "a.json"
    target.write_bytes(b"old\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(target, b"new\n")
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert target.read_bytes() == b"old\n"


def test_an_interruption_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.json", b"new\n")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "a.json", b"new\n")
    assert not list(tmp_path.iterdir())
