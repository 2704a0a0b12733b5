"""atlas.contract: valid files come back to the same bytes, and every rule refuses its breach."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atlas.canonical import canonical_json
from atlas.contract import (
    SCHEMAS,
    Comparison,
    ContractError,
    RoutingCorpus,
    Trace,
    json_schema,
    parse,
    read,
)
from atlas.contract.base import Estimate, Interval, require_shares
from atlas.contract.identity import StopLine
from tests.atlas import samples

Content = dict[str, Any]
Change = Callable[[Content], object]


def refused(content: Content) -> str:
    """The one line with which the contract refuses that content."""
    with pytest.raises(ContractError) as caught:
        parse(canonical_json(content), "sample.json")
    message = str(caught.value)
    assert message.startswith("sample.json: ")
    assert "\n" not in message
    return message


def put(*path: str | int, value: object) -> Change:
    """A change that sets the field at `path`."""

    def change(content: Content) -> None:
        place: Any = content
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


# what is valid


@pytest.mark.parametrize("kind", samples.KINDS)
def test_a_valid_file_comes_back_to_the_same_bytes(kind: str) -> None:
    data = canonical_json(samples.KINDS[kind]())
    assert canonical_json(parse(data, "sample.json")) == data


@pytest.mark.parametrize("kind", samples.KINDS)
def test_the_order_of_keys_and_the_white_space_of_a_file_do_not_matter(kind: str) -> None:
    content = samples.KINDS[kind]()
    backwards = json.dumps(dict(reversed(content.items()))).encode()
    assert canonical_json(parse(backwards, "a.json")) == canonical_json(content)


def test_every_kind_of_file_is_read_as_its_own_model(tmp_path: Path) -> None:
    for kind, make in samples.KINDS.items():
        (tmp_path / f"{kind}.json").write_bytes(canonical_json(make()))
    assert isinstance(read(tmp_path / "trace.json"), Trace)
    assert isinstance(read(tmp_path / "comparison.json"), Comparison)
    assert isinstance(read(tmp_path / "corpus.json"), RoutingCorpus)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_json_schema_of_a_kind_names_it_and_forbids_unknown_keys(name: str) -> None:
    schema = json_schema(SCHEMAS[name])
    assert schema["properties"]["schema"]["const"] == name
    assert schema["additionalProperties"] is False
    assert all(part["additionalProperties"] is False for part in schema["$defs"].values())


def test_a_trace_counts_its_valid_tokens_and_names_its_moe_layers() -> None:
    trace = parse(canonical_json(samples.trace()), "a.json")
    assert isinstance(trace, Trace)
    assert trace.valid_tokens == 5
    assert [layer.layer for layer in trace.moe_layers] == [1, 2]
    assert trace.architecture.moe_layers == (1, 2, 3)


def test_a_dataset_cannot_be_changed_after_it_was_read() -> None:
    trace = parse(canonical_json(samples.trace()), "a.json")
    with pytest.raises(ValueError, match="frozen"):
        trace.evidence = "captured"


def test_an_imported_record_may_lack_what_only_a_run_knows() -> None:
    content = samples.corpus()
    for name in ("architecture", "stop_line", "environment", "selection", "captured_at"):
        content[name] = None
    content["evidence"] = "imported"
    content["record"] = {
        "publisher": "sample",
        "repository": "example/record",
        "commit": "0" * 40,
        "paper": "sample",
        "licence": "MIT",
        "files": [],
        "not_recorded": [{"en": "texts", "zh": "原文"}],
        "checks": [{"name": "scores", "rule": "rounded", "total": 2, "agreeing": 2}],
    }
    assert isinstance(parse(canonical_json(content), "a.json"), RoutingCorpus)


# what no kind of file may hold


@pytest.mark.parametrize("kind", samples.KINDS)
def test_an_unknown_key_is_refused(kind: str) -> None:
    message = refused({**samples.KINDS[kind](), "note": "x"})
    assert message == "sample.json: note: Extra inputs are not permitted"


@pytest.mark.parametrize("kind", samples.KINDS)
def test_a_missing_key_is_refused(kind: str) -> None:
    content = samples.KINDS[kind]()
    del content["evidence"]
    assert refused(content) == "sample.json: evidence: Field required"


def test_an_unknown_key_with_a_line_break_is_still_one_line() -> None:
    message = refused({**samples.trace(), "two\nlines\x1b[31m": 1})
    assert message == "sample.json: two?lines?[31m: Extra inputs are not permitted"


@pytest.mark.parametrize("kind", samples.KINDS)
def test_an_unknown_evidence_is_refused(kind: str) -> None:
    assert ": evidence: Input should be" in refused({**samples.KINDS[kind](), "evidence": "true"})


def test_a_schema_that_is_not_known_is_refused_with_those_that_are() -> None:
    for schema in ("llm-atlas/trace@2", None, ["llm-atlas/trace@1"]):
        message = refused({**samples.trace(), "schema": schema})
        assert "schema: expected one of llm-atlas/trace@1" in message
    with pytest.raises(ContractError, match="schema: expected one of"):
        parse(b"[1]", "sample.json")


def test_a_file_of_one_kind_is_no_file_of_another() -> None:
    assert "Field required" in refused({**samples.trace(), "schema": "llm-atlas/routing-corpus@1"})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("key", ["mean_topk_weight_sum", "ratio"])
def test_nan_and_infinity_are_refused(number: str, key: str) -> None:
    text = canonical_json(samples.trace()).decode()
    before = {"mean_topk_weight_sum": "0.75", "ratio": "3.33333333"}[key]
    data = text.replace(f'"{key}": {before}', f'"{key}": {number}').encode()
    assert data != text.encode()
    with pytest.raises(ContractError, match=r"found (NaN|-?Infinity)|finite number") as caught:
        parse(data, "sample.json")
    assert "\n" not in str(caught.value)


def test_a_repeated_key_is_refused() -> None:
    data = canonical_json(samples.comparison()).replace(b'"exact": 1,', b'"exact": 1, "exact": 2,')
    with pytest.raises(
        ContractError, match=r"^sample\.json: expected JSON: found key 'exact' twice"
    ):
        parse(data, "sample.json")


@pytest.mark.parametrize("value", ["1", 1.0, True])
def test_a_number_is_not_made_of_something_else(value: object) -> None:
    assert "checks.1.layer" in refused(
        changed(samples.comparison(), put("checks", 1, "layer", value=value))
    )


def test_what_is_no_json_is_refused_with_the_files_name() -> None:
    for data in (b"", b"{", b"\xff", b"{'a': 1}"):
        with pytest.raises(ContractError, match=r"^sample\.json: expected JSON: "):
            parse(data, "sample.json")


def test_a_lone_surrogate_in_a_text_is_refused() -> None:
    data = canonical_json(samples.trace()).replace(b"a = 1\\n", b"\\ud800")
    with pytest.raises(ContractError) as caught:
        parse(data, "sample.json")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named_without_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"^missing\.json: cannot be read: No such file"):
        read(tmp_path / "missing.json")


def changed(content: Content, *changes: Change) -> Content:
    for change in changes:
        change(content)
    return content


# trace

MOE = ("layers", 1, "moe")
ROUTES = (*MOE, "routes", 0)


def swap_the_first_two(content: Content, *path: str | int) -> None:
    place: Any = content
    for step in path:
        place = place[step]
    place[0], place[1] = place[1], place[0]


def changed_by(*changes: Change) -> Change:
    return lambda content: [change(content) for change in changes]


LOAD = ("layers", 0, "domains", 0, "token_weighted")

TRACE_BREACHES: dict[str, tuple[Change, str]] = {
    "counts that are not tokens x top-k": (
        lambda c: put(*MOE, "prompts", 0, "counts_E", 0, value=9)(c),
        "layer 1, zh: expected counts that its routes add up to",
    ),
    "total counts that prompts do not add up to": (
        put(*MOE, "counts_E", 0, value=9),
        "layer 1: expected counts that its prompts add up to",
    ),
    "a summary that its counts do not give": (
        put(*MOE, "summary", "top_count", value=1),
        "layer 1: expected selections, used, zero, top expert and its count ",
    ),
    "a prompt's summary that its counts do not give": (
        put(*MOE, "prompts", 0, "summary", "used", value=1),
        "layer 1, zh: expected selections, used, zero, top expert and its count ",
    ),
    "an all-zero layer": (
        put(*MOE, "counts_E", value=[0] * 8),
        "layer 1: expected counts that its prompts add up to",
    ),
    "an all-zero prompt": (
        put(*MOE, "prompts", 0, "counts_E", value=[0] * 8),
        "layer 1, zh: expected counts that its routes add up to",
    ),
    "an expert id out of range": (
        put(*ROUTES, "expert_ids_TK", 0, value=[8, 1]),
        "layer 1, zh: expected 2 different experts below 8",
    ),
    "a negative expert id": (
        put(*ROUTES, "expert_ids_TK", 0, value=[-1, 1]),
        "greater than or equal to 0",
    ),
    "an expert twice in one route": (
        put(*ROUTES, "expert_ids_TK", 0, value=[3, 3]),
        "layer 1, zh: expected 2 different experts below 8",
    ),
    "a route of three experts": (
        put(*ROUTES, "expert_ids_TK", 0, value=[1, 2, 3]),
        "layer 1, zh: expected 2 different experts below 8",
    ),
    "a route that is not sorted by weight": (
        put(*ROUTES, "weights_TK", 0, value=[0.25, 0.5]),
        "layer 1, zh: expected routes sorted by weight, then id",
    ),
    "equal weights that are not sorted by id": (
        lambda c: changed(
            c,
            put(*ROUTES, "expert_ids_TK", 0, value=[6, 5]),
            put(*ROUTES, "weights_TK", 0, value=[0.5, 0.5]),
        ),
        "layer 1, zh: expected routes sorted by weight, then id",
    ),
    "a weight above 1": (put(*ROUTES, "weights_TK", 0, 0, value=1.5), "less than or equal to 1"),
    "a token without a route": (
        lambda c: c["layers"][1]["moe"]["routes"][0]["expert_ids_TK"].pop(),
        "layer 1, zh: expected 3 routes",
    ),
    "a negative margin": (put(*ROUTES, "margin_T", 0, value=-0.1), "greater than or equal to 0"),
    "prompts in another order": (
        lambda c: swap_the_first_two(c, *MOE, "prompts"),
        "layer 1: expected the prompts in order",
    ),
    "routes in another order": (
        lambda c: swap_the_first_two(c, *MOE, "routes"),
        "layer 1: expected the prompts in order",
    ),
    "counts of seven experts": (
        lambda c: c["layers"][1]["moe"]["prompts"][0]["counts_E"].pop(),
        "layer 1, zh: expected 8 counts, found 7",
    ),
    "routing in the dense layer": (
        lambda c: put("layers", 0, "moe", value=c["layers"][1]["moe"])(c),
        "layer 0: routing where the config says so, only",
    ),
    "a MoE layer without routing": (
        put("layers", 2, "moe", value=None),
        "layer 2: routing where the config says so, only",
    ),
    "a MoE layer that is called dense": (
        put("layers", 1, "kind", value="dense"),
        "layer 1: routing where the config says so, only",
    ),
    "the first MoE layer labelled 0": (
        lambda c: [layer.update(layer=i) for i, layer in enumerate(c["layers"][1:])],
        "layers: expected those of stop_line.executed_layers, in order",
    ),
    "a layer left out": (
        lambda c: c["layers"].pop(),
        "layers: expected those of stop_line.executed_layers, in order",
    ),
    "a batch of three rows for two prompts": (
        put("batch", "shape", value=[3, 3]),
        "batch: expected 2 rows, found (3, 3)",
    ),
    "a piece too few": (
        lambda c: c["prompts"][0]["pieces_T"].pop(),
        "zh: one piece per token expected",
    ),
    "ledger bytes that are not elements x element bytes": (
        put("cache_ledger", "latent_bytes", value=23),
        "latent_bytes: expected 24, found 23",
    ),
    "executed layers with a gap": (
        put("stop_line", "executed_layers", value=[0, 2]),
        "executed_layers: expected 0, 1, 2 …, found [0, 2]",
    ),
    "a complete run that lacks a layer": (
        put("stop_line", "reason", value="complete"),
        "stop line: expected a first missing layer unless complete",
    ),
    "more experts per token than experts": (
        put("architecture", "num_experts_per_tok", value=9),
        "expected at most n_routed_experts (8), found 9",
    ),
    "a hash that is none": (
        put("initial_hidden_sha256", value="A" * 64),
        "initial_hidden_sha256: String should match pattern",
    ),
    "a slug with a slash": (
        put("prompts", 0, "prompt_id", value="../zh"),
        "prompts.0.prompt_id: String should match pattern",
    ),
    "no prompt": (put("prompts", value=[]), "prompts: Tuple should have at least 1 item"),
}


@pytest.mark.parametrize("breach", TRACE_BREACHES)
def test_a_trace_is_refused_with(breach: str) -> None:
    change, message = TRACE_BREACHES[breach]
    assert message in refused(changed(samples.trace(), change))


# comparison

COMPARISON_BREACHES: dict[str, tuple[Change, str]] = {
    "more exact checks than there are": (put("exact", value=2), "totals that the checks add up to"),
    "a check too few": (lambda c: c["checks"].pop(), "totals that the checks add up to"),
    "timing compared": (
        put("timing_compared", value=True),
        "timing_compared: Input should be False",
    ),
    "a check without a digest": (put("checks", 0, "first", value=None), "checks.0.first"),
}


@pytest.mark.parametrize("breach", COMPARISON_BREACHES)
def test_a_comparison_is_refused_with(breach: str) -> None:
    change, message = COMPARISON_BREACHES[breach]
    assert message in refused(changed(samples.comparison(), change))


# corpus

LOAD = ("layers", 0, "domains", 1, "token_weighted")


def move_a_selection(content: Content) -> None:
    """One selection more than the prompt has tokens for one expert; the sum stays."""
    row = content["layers"][0]["counts_PE"][4]
    total = sum(row)
    row[:] = [total] + [0] * 7


CORPUS_BREACHES: dict[str, tuple[Change, str]] = {
    "counts that are not tokens x top-k": (
        lambda c: put("layers", 0, "counts_PE", 1, 0, value=c["layers"][0]["counts_PE"][1][0] + 1)(
            c
        ),
        "layer 1, zh-1: expected 10 selections, found 11",
    ),
    "an all-zero prompt": (
        put("layers", 0, "counts_PE", 1, value=[0] * 8),
        "layer 1, zh-1: expected 10 selections, found 0",
    ),
    "an expert selected twice by a token": (
        move_a_selection,
        "layer 1, code-1: expected at most one selection per token and expert",
    ),
    "a negative count": (
        put("layers", 0, "counts_PE", 1, 0, value=-1),
        "layers.0.counts_PE.1.0: Input should be greater than or equal to 0",
    ),
    "a row of counts too few": (
        lambda c: c["layers"][0]["counts_PE"].pop(),
        "layer 1: expected one row of counts per prompt",
    ),
    "counts of nine experts": (
        lambda c: c["layers"][1]["counts_PE"][0].append(0),
        "layer 2, zh-0: expected 8 counts, found 9",
    ),
    "shares that do not sum to 1": (
        lambda c: put(
            *LOAD,
            "shares",
            "point_E",
            0,
            value=c["layers"][0]["domains"][1]["token_weighted"]["shares"]["point_E"][0] + 0.01,
        )(c),
        "layer 1, code: expected shares that sum to 1, found 1.01",
    ),
    "a share above 1": (
        put(*LOAD, "shares", "high_E", 0, value=1.01),
        "high_E.0: Input should be less than or equal to 1",
    ),
    "seven shares": (
        lambda c: c["layers"][0]["domains"][1]["token_weighted"]["shares"]["low_E"].pop(),
        "layer 1, code: expected 8 shares",
    ),
    "a top expert out of range": (
        put(*LOAD, "top_expert", value=8),
        "layer 1, code: used + zero must be 8",
    ),
    "used and zero that are not all experts": (
        put(*LOAD, "used", value=9),
        "layer 1, code: used + zero must be 8",
    ),
    "an interval upside down": (
        put(*LOAD, "cv", "percentile", value={"low": 0.5, "high": 0.4}),
        "interval: expected low <= high, found 0.5 > 0.4",
    ),
    "seven gate masses": (
        put("layers", 0, "domains", 1, "gate_mass_E", value=[0.1] * 7),
        "layer 1, code: expected 8 gate masses",
    ),
    "domains of a layer in another order": (
        lambda c: swap_the_first_two(c, "layers", 0, "domains"),
        "layer 1: expected the domains ['zh', 'code'] in order",
    ),
    "a pair in the other order": (
        lambda c: c["layers"][0]["divergences"][0].update(first="code", second="zh"),
        "layer 1: expected one divergence per pair of domains, in order",
    ),
    "a pair left out": (
        put("layers", 0, "divergences", value=[]),
        "layer 1: expected one divergence per pair of domains, in order",
    ),
    "a dense layer among the routed ones": (
        put("layers", 0, "layer", value=0),
        "layers: expected ascending MoE layer numbers, found [0, 2]",
    ),
    "layers in another order": (
        lambda c: swap_the_first_two(c, "layers"),
        "layers: expected ascending MoE layer numbers, found [2, 1]",
    ),
    "a layer twice": (
        put("layers", 1, "layer", value=1),
        "layers: expected ascending MoE layer numbers, found [1, 1]",
    ),
    "an executed MoE layer left out": (
        lambda c: c["layers"].pop(),
        "layers: expected the executed MoE layers [1, 2], found [1]",
    ),
    "a domain twice": (
        put("domains", 1, "domain", value="zh"),
        "domains: expected different names, found ['zh', 'zh']",
    ),
    "a prompt id twice": (
        put("prompts", 1, "prompt_id", value="zh-0"),
        "prompts: expected different prompt ids",
    ),
    "a domain with other tokens than its prompts": (
        put("domains", 0, "tokens", value=13),
        "domain zh: expected 3 prompts and 13 tokens, found 3 and 12",
    ),
    "a prompt of an unknown domain": (
        lambda c: changed(
            c,
            put("prompts", 0, "domain", value="math"),
            put("domains", 0, "prompts", value=2),
            put("domains", 0, "tokens", value=9),
        ),
        "prompts: expected domains ['zh', 'code'], found ['math']",
    ),
    "a run of this machine without its environment": (
        put("environment", value=None),
        "environment: expected with evidence demo, found null",
    ),
    "imported evidence without a record": (
        put("evidence", value="imported"),
        "record: expected with evidence imported, and only then",
    ),
    "MoE layers of a model out of order": (
        put("routing", "moe_layers", value=[2, 1]),
        "moe_layers: expected ascending numbers, found (2, 1)",
    ),
    "a number of used experts that the counts do not give": (
        changed_by(put(*LOAD, "used", value=1), put(*LOAD, "zero", value=samples.EXPERTS - 1)),
        "used experts, found 1",
    ),
    "a top expert that the counts do not give": (
        put(*LOAD, "top_expert", value=samples.EXPERTS - 1),
        f"found {samples.EXPERTS - 1}",
    ),
    "a token-weighted share that the counts do not give": (
        lambda c: swap_the_first_two(c, *LOAD, "shares", "point_E"),
        "of expert 0, found ",
    ),
    "another unit than the prompt": (
        put("statistics", "unit", value="token"),
        "statistics.unit: Input should be 'prompt'",
    ),
}


@pytest.mark.parametrize("breach", CORPUS_BREACHES)
def test_a_corpus_is_refused_with(breach: str) -> None:
    change, message = CORPUS_BREACHES[breach]
    assert message in refused(changed(samples.corpus(), change))


# building blocks


def test_shares_may_be_off_by_their_rounding_and_no_more() -> None:
    require_shares((0.33333333,) * 3, "thirds")
    require_shares((round(1 / 512, 8),) * 512, "512 experts")
    with pytest.raises(ValueError, match=r"^quarters: expected shares that sum to 1, found 0\.99"):
        require_shares((0.25, 0.25, 0.25, 0.24999), "quarters")


def test_an_estimate_needs_no_bca_and_no_token_unit() -> None:
    estimate = Estimate(point=1.0, percentile=Interval(low=0.5, high=1.5), bias=0.1)
    assert estimate.bca is None and estimate.token_unit is None


def test_a_stop_line_may_be_complete_or_asked_for() -> None:
    StopLine(executed_layers=(0, 1), reason="complete", first_missing_layer=None, missing_files=())
    StopLine(executed_layers=(), reason="limit_asked_for", first_missing_layer=0, missing_files=())


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="proves nothing where torch is not installed; install the capture extra",
)
def test_metrics_resampling_and_contract_import_no_torch_and_no_scipy() -> None:
    code = (
        "import sys, atlas.contract, atlas.load, atlas.resample, atlas.statistics\n"
        "print(sorted({'torch', 'scipy', 'transformers'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={"PYTHONPATH": str(root / "src")},
    )
    assert found.stdout == "[]\n"
