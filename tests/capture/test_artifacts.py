"""Stop lines, tensor names and pins, with the official config and index where they are."""

from __future__ import annotations

import dataclasses

import pytest

from capture.__main__ import main
from capture.artifacts import open_artifact, read_shard_header
from capture.demo.layout import SHARDS
from capture.demo.seal import CHECKPOINT, pins_of
from capture.errors import Refusal
from capture.pins import known_models, model_called
from capture.tensors import checkpoint_shapes, layer_shapes

OFFICIAL = [f"model-0000{n}-of-000004.safetensors" for n in (1, 2, 3, 4)]


def test_the_pins_of_the_embedded_checkpoint_are_those_of_its_files():
    assert pins_of(CHECKPOINT) == model_called("demo")


def test_every_pinned_model_pins_config_code_tokenizer_and_index():
    for model in known_models():
        roles = {f.role for f in model.files}
        assert roles == {"config", "configuration", "modeling", "tokenizer", "index", "shard"}


def test_the_embedded_checkpoint_is_small_enough_to_commit():
    shards = [CHECKPOINT / name for name in SHARDS]
    assert sum(path.stat().st_size for path in shards) <= 20_000_000


def test_all_shards_of_the_embedded_checkpoint_run_layers_0_to_7():
    stop = open_artifact(CHECKPOINT).stop_line()
    assert stop.executed_layers == (0, 1, 2, 3, 4, 5, 6, 7)
    assert (stop.reason, stop.first_missing_layer, stop.missing_files) == ("complete", None, ())


def test_without_its_second_shard_the_embedded_checkpoint_stops_at_layer_6(first_shard_only):
    stop = open_artifact(first_shard_only).stop_line()
    assert stop.executed_layers == (0, 1, 2, 3, 4, 5, 6)
    assert (stop.reason, stop.first_missing_layer) == ("tensors_missing", 7)
    assert stop.missing_files == (SHARDS[1],)


def test_a_limit_stops_earlier_and_says_that_it_was_asked_for():
    stop = open_artifact(CHECKPOINT).stop_line(3)
    assert (stop.executed_layers, stop.reason, stop.first_missing_layer) == (
        (0, 1, 2),
        "limit_asked_for",
        3,
    )


def test_without_the_first_shard_no_layer_runs(linked_checkpoint):
    artifact = open_artifact(linked_checkpoint(without=(SHARDS[0],)))
    with pytest.raises(Refusal, match=f"^{SHARDS[0]}: file missing, no layer can run"):
        artifact.stop_line()


def test_the_tensors_of_the_architecture_are_those_in_the_embedded_shards():
    found = {}
    for shard in SHARDS:
        found.update(read_shard_header(CHECKPOINT / shard).tensors)
    shapes = checkpoint_shapes(open_artifact(CHECKPOINT).architecture)
    assert found == {name: ("BF16", shape) for name, shape in shapes.items()}


def test_the_official_index_holds_the_5291_tensors_of_the_architecture(official_config_and_index):
    artifact = open_artifact(official_config_and_index)
    assert artifact.model.slug == "deepseek-v2-lite"
    assert len(artifact.shard_of) == 5291
    assert set(artifact.shard_of) == set(checkpoint_shapes(artifact.architecture))


def test_official_layers_7_14_and_22_span_two_shards_and_no_other_does(official_config_and_index):
    artifact = open_artifact(official_config_and_index)
    spanning = [n for n in range(27) if len(artifact.shards_of_layer(n)) == 2]
    assert spanning == [7, 14, 22]
    assert artifact.shards_of_layer(7) == (OFFICIAL[0], OFFICIAL[1])


@pytest.mark.parametrize(
    ("shards", "last", "missing"),
    [((0,), 6, (1,)), ((0, 1), 13, (2,)), ((0, 1, 2), 21, (3,)), ((0, 2, 3), 6, (1,))],
)
def test_the_official_stop_line_follows_from_the_shards_at_hand(
    official_config_and_index, shards, last, missing
):
    artifact = open_artifact(official_config_and_index)
    some = dataclasses.replace(artifact, present=tuple(OFFICIAL[i] for i in shards))
    stop = some.stop_line()
    assert stop.executed_layers[-1] == last
    assert stop.missing_files == tuple(OFFICIAL[i] for i in missing)
    whole = dataclasses.replace(artifact, present=tuple(OFFICIAL)).stop_line()
    assert whole.executed_layers == tuple(range(27))


def test_the_official_tensor_bytes_are_the_published_total(official_config_and_index):
    shapes = checkpoint_shapes(open_artifact(official_config_and_index).architecture)
    total = 0
    for shape in shapes.values():
        elements = 1
        for side in shape:
            elements *= side
        total += 2 * elements
    assert total == 31_412_968_448


def test_inspect_names_hashes_layers_and_stop_line(official_config_and_index, capsys):
    assert main(["inspect", "--artifact-dir", str(official_config_and_index)]) == 0
    out = capsys.readouterr().out
    assert "index: 5,291 of 5,291 tensors" in out
    assert "f346286b0f1c8b044252fd54cb4fa78b9fab6472a6e8bebb9edfe03d414ea03d" in out
    rows = [line.split() for line in out.splitlines()]
    assert [OFFICIAL[0], "0–6", "7,", "also", "in", OFFICIAL[1]] in rows
    assert "stop line: none, no layer can run" in out


def test_inspect_of_the_embedded_checkpoint_finds_every_pin(capsys):
    assert main(["inspect", "--artifact-dir", str(CHECKPOINT)]) == 0
    out = capsys.readouterr().out
    assert out.count(" pinned ") == 7
    assert "stop line: none, layers 0–7 are all complete" in out


def test_inspect_prints_the_table_and_refuses_a_file_that_differs(linked_checkpoint, capsys):
    folder = linked_checkpoint(own=("tokenizer.json",))
    with (folder / "tokenizer.json").open("a") as file:
        file.write(" ")
    assert main(["inspect", "--artifact-dir", str(folder)]) == 2
    captured = capsys.readouterr()
    assert "DIFFERS" in captured.out
    assert captured.err.startswith("tokenizer.json: SHA-256 differs from the pin: expected ")


def test_layer_0_is_dense_and_the_first_moe_layer_is_1():
    architecture = open_artifact(CHECKPOINT).architecture
    assert architecture.moe_layers == (1, 2, 3, 4, 5, 6, 7)
    dense, moe = layer_shapes(architecture, 0), layer_shapes(architecture, 1)
    assert "model.layers.0.mlp.gate_proj.weight" in dense
    assert moe["model.layers.1.mlp.gate.weight"] == (64, 128)
    assert moe["model.layers.1.mlp.shared_experts.up_proj.weight"] == (64, 128)
