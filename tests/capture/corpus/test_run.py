"""The corpus experiment on the embedded checkpoint and its probes."""

from __future__ import annotations

import dataclasses
import json
import random
from hashlib import sha256

import numpy as np
import pytest

from atlas.canonical import canonical_json
from atlas.contract import CorpusSelection, RoutingCorpus, parse
from atlas.resample import Resampling
from capture.__main__ import main
from capture.corpus import sources
from capture.corpus.plan import Plan
from capture.corpus.run import require_total, run_corpus
from capture.corpus.selection import DOMAINS, select, selection_record
from capture.demo.seal import CHECKPOINT
from capture.errors import Refusal
from capture.observe import RouterObservation
from capture.session import open_session

REPLICATES = 40


@pytest.fixture(scope="module")
def session():
    return open_session(CHECKPOINT, layers=3, quiet=True)


@pytest.fixture(scope="module")
def plan(session) -> Plan:
    readings = [sources.probes(rule.domain) for rule in DOMAINS]
    picks = select(readings, session.tokenizer.encode, per_domain=9)
    return Plan(picks, selection_record(per_domain=9))


@pytest.fixture(scope="module")
def result(session, plan) -> RoutingCorpus:
    return run_corpus(session, plan, Resampling(REPLICATES), captured_at=None)


def test_the_file_round_trips_to_the_same_bytes(result):
    data = canonical_json(result)
    assert canonical_json(parse(data, "corpus.json")) == data


def test_selections_are_conserved_per_prompt_per_layer_and_in_total(result, plan):
    tokens = sum(p.tokens for p in plan.prompts)
    total = 0
    for layer in result.layers:
        for prompt, row in zip(result.prompts, layer.counts_PE, strict=True):
            assert sum(row) == prompt.tokens * 6
        total += sum(map(sum, layer.counts_PE))
    assert total == tokens * 6 * len(result.layers)


def test_only_executed_moe_layers_are_in_the_file(result):
    assert result.stop_line.executed_layers == (0, 1, 2)
    assert [x.layer for x in result.layers] == [1, 2]


def test_a_rerun_gives_the_same_bytes(session, plan, result):
    again = run_corpus(session, plan, Resampling(REPLICATES), captured_at=None)
    assert canonical_json(again) == canonical_json(result)


def test_permuting_the_prompts_of_the_input_changes_nothing_in_the_file(session, plan, result):
    """Two prompts' counts never mix: batches follow from lengths and ids, not from order."""

    def shuffled(text: str) -> list[int]:
        return session.tokenizer.encode(text)

    class Permuted:
        def __init__(self, reading: sources.Reading) -> None:
            self.domain, self.source, self.notes = reading.domain, reading.source, reading.notes
            self._reading = reading

        def texts(self):
            rows = list(self._reading.texts())
            random.Random(7).shuffle(rows)
            return iter(rows)

    readings = [Permuted(sources.probes(rule.domain)) for rule in reversed(DOMAINS)]
    picks = select(readings, shuffled, per_domain=9)
    other = Plan(picks, selection_record(per_domain=9))
    again = run_corpus(session, other, Resampling(REPLICATES), captured_at=None)
    assert canonical_json(again) == canonical_json(result)


def test_counts_are_those_of_the_routes_that_are_hashed(session, plan, result):
    from capture.stream import Streamer, TokenBatch

    batches = plan.batches(session.pad_token_id)
    import torch

    tokens = [TokenBatch(torch.from_numpy(b.input_ids_BT.copy()), b.lengths_B) for b in batches]
    streamer = Streamer(session.artifact, session.code, session.device)
    seen: dict[str, list[np.ndarray]] = {}
    for step in streamer.run(tokens, [0, 1, 2], streamer.embed(tokens)):
        for batch, observation in zip(batches, step.observations, strict=True):
            for prompt, routes in zip(batch.prompts, observation.router or (), strict=False):
                seen.setdefault(prompt.prompt_id, []).append(routes.expert_ids_TK.numpy())
    for row, prompt in enumerate(result.prompts):
        routes_LTK = np.stack(seen[prompt.prompt_id])
        assert prompt.route_sha256 == sha256(routes_LTK.astype("<u2").tobytes()).hexdigest()
        for layer, ids_TK in zip(result.layers, routes_LTK, strict=True):
            assert np.bincount(ids_TK.ravel(), minlength=64).tolist() == list(layer.counts_PE[row])


@pytest.mark.parametrize("batch_size", [1, 16, 17])
def test_any_batch_size_conserves_selections_and_is_recorded(session, plan, batch_size):
    rules = plan.selection.model_copy(update={"batch_size": batch_size})
    other = run_corpus(
        dataclasses.replace(session, stop_line=session.artifact.stop_line(2)),
        Plan(plan.picks, rules),
        Resampling(5),
        captured_at=None,
    )
    assert other.selection.batch_size == batch_size
    sizes = np.bincount([p.batch for p in other.prompts])
    assert sizes.max() == min(batch_size, 36)
    assert sum(map(sum, other.layers[0].counts_PE)) == sum(p.tokens for p in plan.prompts) * 6


def test_gate_mass_is_the_mean_weight_and_its_sum_is_under_one(result):
    for layer in result.layers:
        for domain in layer.domains:
            assert 0.0 < sum(domain.gate_mass_E) < 1.0


def test_the_interval_over_tokens_is_kept_and_is_narrower_than_over_prompts(result):
    widths = []
    for layer in result.layers:
        for domain in layer.domains:
            share = domain.token_weighted.top_share
            assert share.token_unit is not None
            assert domain.prompt_balanced.top_share.token_unit is None
            widths.append(
                (share.percentile.high - share.percentile.low)
                - (share.token_unit.high - share.token_unit.low)
            )
    assert np.mean(widths) > 0


def test_a_lost_selection_is_refused_with_layer_and_both_totals():
    with pytest.raises(
        Refusal, match=r"^layer 3: selections of all prompts: expected 12, found 11$"
    ):
        require_total(3, np.array([[5, 6]]), tokens=2, k=6)


def test_a_router_that_gives_another_top_k_is_refused(plan):
    import torch

    from capture.corpus.run import _counts

    short = RouterObservation(
        torch.zeros(plan.prompts[0].tokens, 5, dtype=torch.int64),
        torch.zeros(plan.prompts[0].tokens, 5),
        torch.zeros(plan.prompts[0].tokens),
    )
    with pytest.raises(Refusal, match=r"routes \[tokens, top-k\]: expected \[\d+, 6\]"):
        _counts(1, plan.prompts[0], short, 64, 6)


def test_select_only_needs_no_weights_and_no_index(tmp_path, capsys):
    folder = tmp_path / "small"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).symlink_to(CHECKPOINT / name)
    target = tmp_path / "selection.json"
    argv = ["corpus", "--probes", "--select-only", "--artifact-dir", str(folder)]
    assert main([*argv, "--per-domain", "5", "--output", str(target)]) == 0
    dataset = parse(target.read_bytes(), "selection.json")
    assert isinstance(dataset, CorpusSelection)
    assert [d.picked for d in (x.selection for x in dataset.domains)] == [5, 5, 5, 5]
    assert dataset.evidence == "demo"
    assert "candidates" in capsys.readouterr().out
    assert "text" not in json.loads(target.read_text())["prompts"][0]


def test_no_corpus_is_refused_with_the_flags_that_give_one(refused):
    line = refused("corpus", "--artifact-dir", CHECKPOINT)
    assert line.startswith("corpus: no corpus given: expected --human-eval, --gsm8k")


def test_probes_next_to_another_corpus_are_refused(refused, tmp_path):
    line = refused("corpus", "--artifact-dir", CHECKPOINT, "--probes", "--gsm8k", tmp_path / "x")
    assert line == "--probes: corpora: expected no other corpus, found gsm8k"


def test_a_domain_with_too_few_texts_is_refused_with_the_count(refused):
    line = refused(
        "corpus", "--artifact-dir", CHECKPOINT, "--probes", "--per-domain", "500", "--quiet"
    )
    assert "expected 500 or more, found" in line
