"""One line and one file of expert weights: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.errors import Refusal
from capture.imported.weights import parse_line, read_layer_file
from tests.capture.imported.made import line_of

tokens = st.lists(
    st.tuples(
        st.lists(st.integers(0, 63), min_size=6, max_size=6, unique=True),
        st.lists(st.integers(0, 10_000), min_size=6, max_size=6),
    ).map(lambda pair: list(zip(*pair, strict=True))),
    min_size=1,
    max_size=5,
)


def test_a_line_is_sorted_by_weight_then_by_id() -> None:
    line = b"8\t26\t56\t57\t60\t11\t2\t7\t3\t4\t5\t6\t\t" + b"\t".join(
        [b"0.1", b"0.3", b"0.1", b"0.0", b"1.0", b"0.0001", *[b"0.25"] * 6]
    )
    ids, weights = parse_line(line + b"\n", "x: line 1")
    assert ids.tolist() == [[60, 26, 8, 56, 11, 57], [2, 3, 4, 5, 6, 7]]
    assert weights.tolist() == [[10_000, 3_000, 1_000, 1_000, 1, 0], [2_500] * 6]
    assert ids.dtype == weights.dtype == np.uint16


@given(tokens)
def test_every_route_comes_back_in_its_order(prompt: list[list[tuple[int, int]]]) -> None:
    ids, weights = parse_line(line_of(prompt), "x: line 1")
    for row, ids_K, weights_K in zip(prompt, ids.tolist(), weights.tolist(), strict=True):
        wanted = sorted(row, key=lambda pair: (-pair[1], pair[0]))
        assert list(zip(ids_K, weights_K, strict=True)) == wanted


def test_a_last_line_without_a_line_end_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "expert_weights_1.txt"
    path.write_bytes(line_of([[(e, 100) for e in range(6)]]).rstrip(b"\n"))
    read = read_layer_file(path, "x")
    assert read.lengths_P.tolist() == [1]
    assert read.bytes == path.stat().st_size


GOOD_IDS = b"0\t1\t2\t3\t4\t5"
GOOD_WEIGHTS = b"0.1\t0.1\t0.1\t0.1\t0.1\t0.1"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"", "empty line: expected ids, an empty column, weights, found nothing"),
        (
            GOOD_IDS + b"\t\t" + GOOD_WEIGHTS + b"\r\n",
            "line end: expected LF, found CR (a CRLF copy of the file?)",
        ),
        (
            GOOD_IDS + b"\t" + GOOD_WEIGHTS,
            "layout: expected one empty column after the ids, found 0",
        ),
        (
            GOOD_IDS + b"\t\t" + GOOD_WEIGHTS + b"\t\t" + GOOD_WEIGHTS,
            "layout: expected one empty column after the ids, found 2",
        ),
        (
            GOOD_IDS + b"\t\t0.1\t0.1\t0.1\t0.1\t0.1",
            "ids and weights differ in number: expected 6 weights for 6 ids, found 5",
        ),
        (
            b"0\t1\t2\t3\t4\t\t0.1\t0.1\t0.1\t0.1\t0.1",
            "number of ids: expected a multiple of 6, found 5",
        ),
        (
            b"0\t1\t2\t3\t4\t64\t\t" + GOOD_WEIGHTS,
            "expert id at position 0: expected 0 to 63, found 64",
        ),
        (
            b"0\t1\t2\t3\t4\t99999999999999999999\t\t" + GOOD_WEIGHTS,
            "expert id at position 0: expected 0 to 63, found '99999999999999999999'",
        ),
        (
            GOOD_IDS + b"\t6\t7\t8\t-1\t10\t11\t\t" + GOOD_WEIGHTS,
            "expert id at position 1: expected 0 to 63, found '-1'",
        ),
        (
            b"0\t1\t2\tthree\t4\t5\t\t" + GOOD_WEIGHTS,
            "expert id at position 0: expected 0 to 63, found 'three'",
        ),
        (
            b"0\t1\t2\t3\t4\t2\t\t" + GOOD_WEIGHTS,
            "duplicate expert at position 0: expected 6 different experts, found expert 2 twice",
        ),
        (
            GOOD_IDS + b"\t\t0.1\t0.1\t1.0001\t0.1\t0.1\t0.1",
            "gate weight at position 0: expected 0 to 1, found 1.0001",
        ),
        (
            GOOD_IDS + b"\t\t0.1\t0.1\t0.12345\t0.1\t0.1\t0.1",
            "gate weight at position 0: expected 0.0 to 1.0 with at most four decimals, "
            "found '0.12345'",
        ),
        *(
            (
                GOOD_IDS + b"\t\t0.1\t0.1\t" + word + b"\t0.1\t0.1\t0.1",
                "gate weight at position 0: expected 0.0 to 1.0 with at most four decimals, "
                f"found '{word.decode()}'",
            )
            for word in (b"nan", b"-0.1", b"1e-3", b"0.1.2", b".", b"0,1")
        ),
        (
            GOOD_IDS + b"\t\t" + GOOD_WEIGHTS + b"\t",
            "gate weight at position 1: expected 0.0 to 1.0 with at most four decimals, "
            "found an empty field",
        ),
    ],
)
def test_a_bad_line_is_named_with_expected_and_found(line: bytes, told: str) -> None:
    with pytest.raises(Refusal) as refusal:
        parse_line(line, "law/expert_weights_3.txt: line 5")
    assert str(refusal.value) == f"law/expert_weights_3.txt: line 5: {told}"


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "expert_weights_1.txt"
    path.write_bytes(b"")
    with pytest.raises(Refusal, match=r"^x: no prompts: expected one line per prompt, found 0"):
        read_layer_file(path, "x")
