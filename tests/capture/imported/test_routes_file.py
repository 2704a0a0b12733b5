"""`llm-atlas/routes@1`: what the contract does not let pass."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atlas.canonical import canonical_json
from atlas.contract import ContractError, parse
from atlas.contract.routes import Routes
from capture.imported.esft import SHOWN_POSITIONS, SHOWN_PROMPTS, ordered_routes
from capture.imported.provenance import imported_record, read_pins
from capture.imported.record import read_record
from tests.capture.imported.made import MadeRecord, make_record


def routes_of(made: MadeRecord) -> Routes:
    record = read_record(made.scores_dir, None)
    return ordered_routes(record, imported_record(record, (), read_pins()))


@pytest.fixture
def content(made: MadeRecord) -> dict[str, Any]:
    return json.loads(canonical_json(routes_of(made)))


def test_the_file_reads_back_as_it_was_written(made: MadeRecord) -> None:
    routes = routes_of(made)
    assert parse(canonical_json(routes), "routes.json") == routes


def test_long_prompts_are_shown_from_their_first_position_on(tmp_path: Path) -> None:
    made = make_record(tmp_path, {"law": [90, 70, 80, 60]}, layers=1)
    routes = routes_of(made)
    # the longest one is left out, ties would go by line
    assert len(routes.prompts) == SHOWN_PROMPTS == 3
    assert [(p.prompt_id, p.tokens, p.positions) for p in routes.prompts] == [
        (name, tokens, SHOWN_POSITIONS)
        for name, tokens in (("law-002", 70), ("law-003", 80), ("law-004", 60))
    ]
    first = sorted(made.routes["law"][1][1][0], key=lambda pair: (-pair[1], pair[0]))
    assert routes.layers[0].prompts[0].expert_ids_TK[0] == tuple(e for e, _ in first)


def _first(content: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = content["layers"][0]["prompts"][0]
    return first


def _swap_order(content: dict[str, Any]) -> None:
    for name in ("expert_ids_TK", "weights_TK"):
        _first(content)[name][0].reverse()


def _twice(content: dict[str, Any]) -> None:
    row = _first(content)["expert_ids_TK"][0]
    row[1] = row[0]


def _outside(content: dict[str, Any]) -> None:
    _first(content)["expert_ids_TK"][0][0] = 64


def _sum(content: dict[str, Any]) -> None:
    _first(content)["weight_sum_T"][0] += 0.0001


def _row_less(content: dict[str, Any]) -> None:
    _first(content)["weights_TK"].pop()


def _layer_twice(content: dict[str, Any]) -> None:
    content["layers"][1]["layer"] = 1


def _dense_layer(content: dict[str, Any]) -> None:
    content["layers"][0]["layer"] = 0


def _other_prompts(content: dict[str, Any]) -> None:
    content["layers"][0]["prompts"].reverse()


def _more_than_there_are(content: dict[str, Any]) -> None:
    content["prompts"][0]["positions"] = content["prompts"][0]["tokens"] + 1


def _no_record(content: dict[str, Any]) -> None:
    content["record"] = None


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_swap_order, "position 0: expected the largest weight first, then the lower id"),
        (_twice, "position 0: expected 6 different experts below 64"),
        (_outside, "position 0: expected 6 different experts below 64"),
        (_sum, "position 0: expected weights that sum to"),
        (_row_less, "layer 1, intent-001: expected 4 rows, found [3, 4]"),
        (_layer_twice, "layers: expected ascending MoE layer numbers, found [1, 1, 3]"),
        (_dense_layer, "layers: expected ascending MoE layer numbers, found [0, 2, 3]"),
        (_other_prompts, "layer 1: expected the prompts in order"),
        (_more_than_there_are, "intent-001: expected at most 4 positions, found 5"),
        (_no_record, "record: expected with evidence imported, and only then"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(
    content: dict[str, Any], damage: Callable[[dict[str, Any]], None], told: str
) -> None:
    damaged = copy.deepcopy(content)
    damage(damaged)
    with pytest.raises(ContractError) as error:
        parse(canonical_json(damaged), "routes.json")
    assert told in str(error.value)
    assert str(error.value).startswith("routes.json: ")
