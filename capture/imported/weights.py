"""One `expert_weights_<layer>.txt` of an ESFT record.

One line per prompt: K expert ids per token, all tokens in order, tab-separated; an empty
column; the gate weights in the same order. Ids within a token are in no order; weights have
four decimals, so they are held as whole ten-thousandths and summed exactly.

Axes: P prompt (line), N token over all prompts of the file, K selected expert (6).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from capture.errors import Refusal

EXPERTS = 64
TOP_K = 6
UNITS = 10_000
"""A gate weight of 1, in units of its last decimal."""

_IDS = re.compile(rb"(?:0|[1-9][0-9]{0,3})(?:\t(?:0|[1-9][0-9]{0,3}))*")
_WEIGHT = rb"[0-9]{1,3}\.[0-9]{1,4}"
_WEIGHTS = re.compile(rb"%s(?:\t%s)*" % (_WEIGHT, _WEIGHT))
_ONE_WEIGHT = re.compile(_WEIGHT)


@dataclass(frozen=True)
class LayerFile:
    """Routes of all prompts of one task in one layer, each token sorted by weight, then id.

    lengths_P: int64 [P] tokens. expert_ids_NK: uint16 [N, K]. weights_NK: uint16 [N, K] in
    ten-thousandths. `bytes` and `sha256` are of the file as read.
    """

    lengths_P: NDArray[np.int64]
    expert_ids_NK: NDArray[np.uint16]
    weights_NK: NDArray[np.uint16]
    bytes: int
    sha256: str


def read_layer_file(path: Path, name: str) -> LayerFile:
    """Read one file, called `name` in messages, line by line.

    Raises Refusal with file, line number, expected and found for anything that is not the
    layout above.
    """
    digest, size = sha256(), 0
    ids_P: list[NDArray[np.uint16]] = []
    weights_P: list[NDArray[np.uint16]] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                digest.update(line)
                size += len(line)
                ids_TK, weights_TK = parse_line(line, f"{name}: line {number}")
                ids_P.append(ids_TK)
                weights_P.append(weights_TK)
    except OSError as error:
        raise Refusal(
            where=name, what="file cannot be read", expected="a file", found=error.strerror
        ) from error
    if not ids_P:
        raise Refusal(
            where=name, what="no prompts", expected="one line per prompt", found="0 lines"
        )
    return LayerFile(
        lengths_P=np.array([len(x) for x in ids_P], dtype=np.int64),
        expert_ids_NK=np.concatenate(ids_P),
        weights_NK=np.concatenate(weights_P),
        bytes=size,
        sha256=digest.hexdigest(),
    )


def parse_line(line: bytes, where: str) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Routes of one prompt: ids and weights, uint16 [T, K], sorted by weight, then id."""
    text = line.removesuffix(b"\n")
    if b"\r" in text:
        _refuse(where, "line end", "LF", "CR (a CRLF copy of the file?)")
    if not text:
        _refuse(where, "empty line", "ids, an empty column, weights", "nothing")
    columns = text.split(b"\t\t")
    if len(columns) != 2:
        _refuse(where, "layout", "one empty column after the ids", f"{len(columns) - 1}")
    if not _IDS.fullmatch(columns[0]):
        _refuse_ids(columns[0], where)
    if not _WEIGHTS.fullmatch(columns[1]):
        _refuse_weights(columns[1], where)
    # the patterns have vouched for every field, so the parser has nothing left to guess
    ids = np.fromstring(columns[0], dtype=np.int64, sep="\t")
    weights = np.rint(np.fromstring(columns[1], dtype=np.float64, sep="\t") * UNITS).astype(
        np.int64
    )
    if ids.size != weights.size:
        _refuse(
            where,
            "ids and weights differ in number",
            f"{ids.size} weights for {ids.size} ids",
            f"{weights.size}",
        )
    if ids.size % TOP_K:
        _refuse(where, "number of ids", f"a multiple of {TOP_K}", f"{ids.size}")
    ids_TK, weights_TK = ids.reshape(-1, TOP_K), weights.reshape(-1, TOP_K)
    _check_values(ids_TK, weights_TK, where)
    # ascending keys are descending weights, ascending ids among equal weights
    keys_TK = np.sort((UNITS - weights_TK) * EXPERTS + ids_TK, axis=1)
    sorted_ids, sorted_weights = keys_TK % EXPERTS, UNITS - keys_TK // EXPERTS
    return sorted_ids.astype(np.uint16), sorted_weights.astype(np.uint16)


def _check_values(ids_TK: NDArray[np.int64], weights_TK: NDArray[np.int64], where: str) -> None:
    if ids_TK.max() >= EXPERTS:
        token, place = _first(ids_TK >= EXPERTS)
        _refuse(
            where,
            f"expert id at position {token}",
            f"0 to {EXPERTS - 1}",
            f"{ids_TK[token, place]}",
        )
    in_order_TK = np.sort(ids_TK, axis=1)
    twice_TK = in_order_TK[:, 1:] == in_order_TK[:, :-1]
    if twice_TK.any():
        token, place = _first(twice_TK)
        _refuse(
            where,
            f"duplicate expert at position {token}",
            f"{TOP_K} different experts",
            f"expert {in_order_TK[token, place]} twice",
        )
    if weights_TK.max() > UNITS:
        token, place = _first(weights_TK > UNITS)
        _refuse(
            where,
            f"gate weight at position {token}",
            "0 to 1",
            f"{weights_TK[token, place] / UNITS:.4f}",
        )


def _first(mask_TK: NDArray[np.bool_]) -> tuple[int, int]:
    token, place = np.unravel_index(int(mask_TK.argmax()), mask_TK.shape)
    return int(token), int(place)


def _refuse_ids(column: bytes, where: str) -> NoReturn:
    for place, field in enumerate(column.split(b"\t")):
        if not _IDS.fullmatch(field):
            _refuse(
                where,
                f"expert id at position {place // TOP_K}",
                f"0 to {EXPERTS - 1}",
                _shown(field),
            )
    raise AssertionError("a column that fails has a field that fails")


def _refuse_weights(column: bytes, where: str) -> NoReturn:
    for place, field in enumerate(column.split(b"\t")):
        if not _ONE_WEIGHT.fullmatch(field):
            _refuse(
                where,
                f"gate weight at position {place // TOP_K}",
                "0.0 to 1.0 with at most four decimals",
                _shown(field),
            )
    raise AssertionError("a column that fails has a field that fails")


def _shown(field: bytes) -> str:
    return repr(field[:40].decode("utf-8", "replace")) if field else "an empty field"


def _refuse(where: str, what: str, expected: str, found: str) -> NoReturn:
    raise Refusal(where=where, what=what, expected=expected, found=found)
