"""Damaged datasets: what the build and `compare` read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from atlas.contract import SCHEMAS, ContractError, parse
from tests.atlas import samples
from tests.fuzz.conftest import bounded
from tests.fuzz.mutations import damaged, damaged_json

pytestmark = pytest.mark.fuzz
SEEDS = [samples.trace(), samples.comparison(), samples.corpus(), samples.ordered_routes()]


def test_a_damaged_dataset_is_read_or_refused_in_one_line(guarded: Callable[..., Any]) -> None:
    found = {"read": 0, "refused": 0}

    def run(data: bytes) -> None:
        try:
            parse(data, "data.json")
            line = "read"
        except ContractError as error:
            line = str(error)
        assert len(line.splitlines()) == 1
        found["read" if line == "read" else "refused"] += 1

    files = [json.dumps(seed).encode() for seed in SEEDS]
    swapped = [{**seed, "schema": schema} for seed in SEEDS for schema in SCHEMAS]

    @bounded("datasets")
    @given(damaged(files) | damaged_json(SEEDS) | damaged_json(swapped))
    def check(data: bytes) -> None:
        guarded(lambda: run(data))

    check()
    assert found["refused"] > 1000
