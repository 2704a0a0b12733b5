"""Damaged files, as strategies: bytes cut, flipped and moved; JSON values replaced by odd ones."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1,
    3,
    2**31,
    2**63,
    10**30,
    1.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "../../x.safetensors",
    "/x.safetensors",
    "nul\0.safetensors",
    "\ud800",
    "\x1b[31m",
    "9" * 5000,
    [],
    {},
    [[]],
    [0, 1],
    {"": {}},
)
ACTIONS = ("replace", "remove", "wrap", "repeat")
CUTS = ("flip", "delete", "insert", "repeat", "truncate", "zero")

Step = tuple[str, float, bytes]
Edit = tuple[tuple[int, ...], str, Any]


def damaged(seeds: list[bytes]) -> st.SearchStrategy[bytes]:
    """One of `seeds` with one to three cuts."""
    cut = st.tuples(st.sampled_from(CUTS), st.floats(0, 1), st.binary(min_size=1, max_size=8))
    return st.builds(_cut, st.sampled_from(seeds), st.lists(cut, min_size=1, max_size=3))


def damaged_json(seeds: list[Any]) -> st.SearchStrategy[bytes]:
    """One of `seeds`, JSON values, with one or two of its values changed, as bytes."""
    steps = st.lists(st.integers(0, 10_000), min_size=1, max_size=6).map(tuple)
    edit = st.tuples(steps, st.sampled_from(ACTIONS), st.sampled_from(ODD))
    edits = st.lists(edit, min_size=1, max_size=2)
    return st.builds(_edit, st.sampled_from(range(len(seeds))), edits, st.just(seeds))


def either(seeds: list[bytes]) -> st.SearchStrategy[bytes]:
    """JSON files damaged as bytes or as values."""
    return damaged(seeds) | damaged_json([json.loads(seed) for seed in seeds])


def _cut(data: bytes, steps: list[Step]) -> bytes:
    for kind, place, piece in steps:
        at = int(place * len(data))
        if kind == "flip" and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ (piece[0] or 1)]) + data[at + 1 :]
        elif kind == "delete":
            data = data[:at] + data[at + piece[0] :]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        elif kind == "repeat":
            data = data[:at] + data[at : at + 64] * (piece[0] % 8) + data[at:]
        elif kind == "truncate":
            data = data[:at]
        elif kind == "zero":
            data = data[:at] + bytes(len(piece)) + data[at + len(piece) :]
    return data


def _edit(which: int, edits: list[Edit], seeds: list[Any]) -> bytes:
    root = {"root": copy.deepcopy(seeds[which])}
    for steps, action, value in edits:
        odd = copy.deepcopy(value)
        parent: Any = root
        key: Any = "root"
        for step in steps:
            child = parent[key]
            if not isinstance(child, dict | list) or not child:
                break
            place = step % len(child)
            parent, key = child, list(child)[place] if isinstance(child, dict) else place
        if action == "replace" or parent is root:
            parent[key] = odd
        elif action == "remove":
            del parent[key]
        elif action == "wrap":
            parent[key] = [parent[key]]
        elif isinstance(parent, list):
            parent.insert(key, parent[key])
        else:
            parent[f"{key}."] = parent[key]
    return json.dumps(root["root"]).encode("utf-8", "surrogatepass")
