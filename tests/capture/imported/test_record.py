"""A whole record: counts from the definition, and the publisher's figures recomputed."""

from __future__ import annotations

import json
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from capture.imported.provenance import first_position_splits
from capture.imported.publisher import check_record
from capture.imported.record import read_record
from tests.capture.imported.made import MadeRecord, make_record, write_record


def test_counts_and_gate_mass_are_those_of_the_routes(made: MadeRecord) -> None:
    record = read_record(made.scores_dir, made.configs_dir)
    assert record.layers == (1, 2, 3)
    assert [task.name for task in record.tasks] == ["intent", "law"]
    for task in record.tasks:
        assert task.lengths_P.tolist() == [len(p) for p in made.routes[task.name][1]]
        for index, layer in enumerate(record.layers):
            counts = [[0] * 64 for _ in task.lengths_P]
            mass = [0] * 64
            for row, prompt in enumerate(made.routes[task.name][layer]):
                for token in prompt:
                    for expert, units in token:
                        counts[row][expert] += 1
                        mass[expert] += units
            assert task.counts_PE(index).tolist() == counts
            assert task.gate_units_E(index).tolist() == mass


def test_every_file_is_listed_with_its_bytes_and_hash(made: MadeRecord) -> None:
    record = read_record(made.scores_dir, made.configs_dir)
    found = {f.name: (f.bytes, f.sha256) for f in record.files}
    on_disk = {
        path.relative_to(made.folder).as_posix(): (
            path.stat().st_size,
            sha256(path.read_bytes()).hexdigest(),
        )
        for path in made.folder.rglob("*")
        if path.is_file()
    }
    assert found == on_disk
    assert len(record.files) == len(found) == 2 * (3 + 1 + 1)


def test_layers_stand_in_the_order_of_their_numbers_not_of_their_names(tmp_path: Path) -> None:
    made = make_record(tmp_path, {"law": [2]}, layers=11)
    record = read_record(made.scores_dir, None)
    assert record.layers == tuple(range(1, 12))
    second = sorted(made.routes["law"][2][0][0], key=lambda pair: (-pair[1], pair[0]))
    assert record.tasks[0].expert_ids_LNK[1, 0].tolist() == [expert for expert, _ in second]


def test_all_figures_of_an_honest_publisher_agree(made: MadeRecord) -> None:
    verdict = check_record(read_record(made.scores_dir, made.configs_dir))
    assert verdict.agrees
    assert [(c.name, c.agreeing, c.total) for c in verdict.checks] == [
        ("summary.json token_scores", 2 * 3 * 64, 2 * 3 * 64),
        ("summary.json gate_scores", 2 * 3 * 64, 2 * 3 * 64),
        ("expert_configs", 2 * 3, 2 * 3),
    ]


@pytest.mark.parametrize("kind", ["token_scores", "gate_scores"])
def test_a_score_that_is_off_by_its_last_decimal_is_found(made: MadeRecord, kind: str) -> None:
    path = made.scores_dir / "law" / "summary.json"
    summary = json.loads(path.read_text())
    true = summary[kind]["2"]["30"]
    summary[kind]["2"]["30"] = round(true + 0.0001, 4)
    path.write_text(json.dumps(summary))
    verdict = check_record(read_record(made.scores_dir, None))
    (difference,) = verdict.differences
    assert difference.where == f"law/summary.json: {kind}, layer 2, expert 30"
    assert difference.printed == f"{true + 0.0001:.4f}"
    assert sum(c.total - c.agreeing for c in verdict.checks) == 1


def test_half_of_the_last_decimal_agrees_and_any_more_does_not(tmp_path: Path) -> None:
    # one prompt of 2 tokens: the mean of 0.0001 and 0.0002 is 0.00015, printed as either side
    made = make_record(tmp_path, {"law": [2]}, layers=1)
    first, second = made.routes["law"][1][0]
    kept = next(expert for expert in range(64) if expert not in {e for e, _ in first + second})
    first[0], second[0] = (kept, 1), (kept, 2)
    write_record(made)
    path = made.scores_dir / "law" / "summary.json"
    summary = json.loads(path.read_text())
    for printed, agrees in ((0.0001, True), (0.0002, True), (0.0003, False), (0.0, False)):
        summary["gate_scores"]["1"][str(kept)] = printed
        path.write_text(json.dumps(summary))
        assert check_record(read_record(made.scores_dir, None)).agrees is agrees, printed


def test_a_list_in_another_order_is_found(made: MadeRecord) -> None:
    path = made.configs_dir / "law.json"
    config = json.loads(path.read_text())
    config["experts"]["3"].reverse()
    path.write_text(json.dumps(config))
    verdict = check_record(read_record(made.scores_dir, made.configs_dir))
    (difference,) = verdict.differences
    assert difference.where == "expert_configs/law.json: layer 3"
    assert verdict.checks[-1].agreeing == 5


def test_first_positions_that_differ_are_found_in_their_layer(tmp_path: Path) -> None:
    made = make_record(tmp_path, {"intent": [1, 2], "law": [3]}, layers=2)
    token = [(expert, 1_000 - expert) for expert in (9, 5, 63, 0, 33, 21)]
    for by_layer in made.routes.values():
        for prompts in by_layer.values():
            for prompt in prompts:
                prompt[0] = list(token)
    write_record(made)
    assert first_position_splits(read_record(made.scores_dir, None)) == ()
    # the same experts in another order are the same choice; another expert is not
    made.routes["law"][1][0][0] = token[::-1]
    made.routes["law"][2][0][0] = [*token[:5], (22, 1)]
    write_record(made)
    assert first_position_splits(read_record(made.scores_dir, None)) == (2,)


def test_the_published_record_has_the_figures_that_its_issue_names(published_scores: Path) -> None:
    record = read_record(published_scores, published_scores.parent / "expert_configs")
    assert record.layers == tuple(range(1, 27))
    assert {t.name: (len(t.lengths_P), int(t.lengths_P.sum())) for t in record.tasks} == {
        "intent": (127, 8_222),
        "law": (33, 8_327),
        "summary": (13, 8_479),
        "translation": (40, 8_251),
    }
    assert sum(t.expert_ids_LNK.size for t in record.tasks) == 5_191_524
    assert len([f for f in record.files if f.name.startswith("expert_scores/")]) == 108
    verdict = check_record(record)
    assert verdict.agrees
    assert [(c.agreeing, c.total) for c in verdict.checks] == [(6_656, 6_656)] * 2 + [(104, 104)]
    # the share of the record's own first figure, by hand from the definition
    intent = record.tasks[0]
    share = Fraction(int(np.count_nonzero(intent.expert_ids_LNK[0] == 0)), 8_222 * 6)
    printed = json.loads((published_scores / "intent" / "summary.json").read_text())
    assert float(round(share, 4)) == printed["token_scores"]["1"]["0"]
