"""Bad input to the capture: one line naming file, expected and found; exit 2; no output."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from capture.__main__ import main
from capture.demo.layout import SHARDS
from capture.errors import Refusal
from capture.official import load_official_code
from capture.prompts import PROMPTS, FixedPrompt
from capture.session import open_session
from capture.trace import trace
from tests.capture.conftest import edit_json

INDEX = "model.safetensors.index.json"
GATE = "model.layers.3.mlp.gate.weight"


def test_a_file_whose_hash_is_not_the_pin_is_named_with_both_hashes(linked_checkpoint, refused):
    folder = linked_checkpoint(own=("tokenizer.json",))
    path = folder / "tokenizer.json"
    data = path.read_bytes()
    path.write_bytes(data[:-2] + b" \n")
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line.startswith("tokenizer.json: SHA-256 differs from the pin: expected ")
    assert line.count("found ") == 1


def test_a_shard_with_one_changed_bit_is_refused(linked_checkpoint, refused):
    folder = linked_checkpoint(own=(SHARDS[0],))
    with (folder / SHARDS[0]).open("r+b") as shard:
        shard.seek(-1, os.SEEK_END)
        last = shard.read(1)[0]
        shard.seek(-1, os.SEEK_END)
        shard.write(bytes([last ^ 1]))
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line.startswith(f"{SHARDS[0]}: SHA-256 differs from the pin: expected ")


def test_modeling_code_that_is_not_pinned_is_never_executed(linked_checkpoint, refused, tmp_path):
    folder = linked_checkpoint(own=("modeling_deepseek.py",))
    marker = tmp_path / "executed"
    with (folder / "modeling_deepseek.py").open("a") as code:
        code.write(f"\nopen({str(marker)!r}, 'w').close()\n")
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line.startswith("modeling_deepseek.py: ")
    with pytest.raises(Refusal, match="without a pin is not imported"):
        load_official_code(folder, {})
    with pytest.raises(Refusal, match="SHA-256 differs"):
        load_official_code(folder, {"configuration_deepseek.py": "0" * 64})
    assert not marker.exists()


@pytest.mark.parametrize(
    "name", ["config.json", "modeling_deepseek.py", "tokenizer.json", INDEX, SHARDS[0]]
)
def test_a_missing_file_is_named(linked_checkpoint, refused, name):
    folder = linked_checkpoint(without=(name,))
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line.startswith(f"{name}: file missing")
    assert "expected" in line


def test_a_truncated_shard_is_refused_with_both_sizes(linked_checkpoint, refused):
    folder = linked_checkpoint(own=(SHARDS[0],))
    path = folder / SHARDS[0]
    size = path.stat().st_size
    os.truncate(path, size - 1000)
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line == f"{SHARDS[0]}: shard size: expected {size} bytes, found {size - 1000} bytes"


def test_a_shard_whose_header_is_longer_than_the_file_is_refused(linked_checkpoint, refused):
    folder = linked_checkpoint(own=(SHARDS[0],))
    with (folder / SHARDS[0]).open("r+b") as shard:
        shard.write(struct.pack("<Q", 1 << 60))
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line.startswith(f"{SHARDS[0]}: shard header: expected a length up to ")
    assert line.endswith(f"found {1 << 60}")


@pytest.mark.parametrize(
    "shard", ["../x.safetensors", "/etc/x.safetensors", "..", "a/../../x.safetensors", 7, "x.bin"]
)
def test_an_index_that_leaves_the_folder_is_refused(linked_checkpoint, refused, shard):
    folder = linked_checkpoint(own=(INDEX,))
    edit_json(folder / INDEX, lambda index: index["weight_map"].update({GATE: shard}))
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line.startswith(f"{INDEX}: shard of {GATE}: expected a .safetensors file name")
    assert line.endswith(f"found {shard!r}")


def test_an_index_that_names_a_tensor_twice_is_refused(linked_checkpoint, refused):
    folder = linked_checkpoint(own=(INDEX,))
    path = folder / INDEX
    entry = f'"{GATE}": "{SHARDS[0]}",'
    path.write_text(path.read_text().replace(entry, f"{entry}\n{entry}", 1))
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line == f"{INDEX}: not valid JSON: found key '{GATE}' twice"


def test_a_layer_with_a_missing_tensor_is_refused_with_its_name(linked_checkpoint, refused):
    folder = linked_checkpoint(own=(INDEX,))
    edit_json(folder / INDEX, lambda index: index["weight_map"].pop(GATE))
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line == (
        f"{INDEX}: layer 3 lacks a tensor: expected {GATE}, found 202 of its 203 tensors"
    )


def test_a_tensor_that_the_index_places_in_a_shard_without_it_is_refused(
    linked_checkpoint, refused
):
    folder = linked_checkpoint(own=(INDEX,))
    edit_json(folder / INDEX, lambda index: index["weight_map"].update({GATE: SHARDS[1]}))
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line == f"{SHARDS[1]}: {GATE}: expected BF16 [64, 128], found no such tensor"


def test_a_tensor_that_the_architecture_does_not_have_is_refused(linked_checkpoint, refused):
    folder = linked_checkpoint(own=(INDEX,))
    edit_json(folder / INDEX, lambda index: index["weight_map"].update({"x.weight": SHARDS[0]}))
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line.endswith("found x.weight")


@pytest.mark.parametrize("value", [None, 0])
def test_a_config_without_a_router_is_refused(linked_checkpoint, refused, value):
    folder = linked_checkpoint(own=("config.json",))
    edit_json(folder / "config.json", lambda config: config.update(n_routed_experts=value))
    line = refused("trace", "--artifact-dir", folder, "--model", "demo", "--quiet")
    assert line.startswith("config.json: model without a router: expected n_routed_experts above 0")


def test_an_unknown_config_is_refused_with_the_known_ones(linked_checkpoint, refused):
    folder = linked_checkpoint(own=("config.json",))
    edit_json(folder / "config.json", lambda config: config.update(num_hidden_layers=9))
    line = refused("trace", "--artifact-dir", folder, "--quiet")
    assert line.startswith("config.json: SHA-256 is of no known model: expected ")
    assert "(DeepSeek-V2-Lite)" in line and "(Embedded checkpoint)" in line


def test_top_k_above_the_number_of_experts_is_refused(linked_checkpoint, refused):
    folder = linked_checkpoint(own=("config.json",))
    edit_json(folder / "config.json", lambda config: config.update(num_experts_per_tok=65))
    line = refused("trace", "--artifact-dir", folder, "--model", "demo", "--quiet")
    assert line.startswith("config.json: ") and "num_experts_per_tok" in line


def damaged_shard(folder: Path, tensor: str, value: float) -> None:
    tensors = load_file(folder / SHARDS[0])
    tensors[tensor][0, 0] = value
    save_file(tensors, folder / SHARDS[0], metadata={"format": "pt"})


def test_a_nan_in_the_gate_is_refused_with_layer_and_file(linked_checkpoint, refused):
    folder = linked_checkpoint(own=(SHARDS[0],))
    damaged_shard(folder, GATE, float("nan"))
    line = refused("trace", "--artifact-dir", folder, "--quiet", "--skip-shard-hashes")
    assert line.startswith(f"{SHARDS[0]}: layer 3 gate gives scores that are not finite: ")
    assert "expected 0 tokens with such scores, found " in line


def test_an_infinite_weight_outside_the_gate_is_refused_too(linked_checkpoint, refused):
    folder = linked_checkpoint(own=(SHARDS[0],))
    damaged_shard(folder, "model.layers.0.mlp.down_proj.weight", float("inf"))
    line = refused("trace", "--artifact-dir", folder, "--quiet", "--skip-shard-hashes")
    assert line.startswith(f"{SHARDS[0]}: layer 0 gives hidden states that are not finite")


def test_an_empty_prompt_is_refused(first_shard_only):
    session = open_session(first_shard_only, quiet=True)
    empty = FixedPrompt("empty", PROMPTS[0].label, " \n")
    with pytest.raises(Refusal, match=r"^prompt empty: empty: expected some text, found none$"):
        trace(session, captured_at=None, prompts=[*PROMPTS[:3], empty])


def test_a_lone_surrogate_in_a_prompt_is_refused(first_shard_only):
    session = open_session(first_shard_only, quiet=True)
    broken = FixedPrompt("broken", PROMPTS[0].label, "ab\ud800")
    with pytest.raises(Refusal, match="lone surrogate at character 2"):
        trace(session, captured_at=None, prompts=[broken])


def test_an_output_folder_that_is_missing_is_refused_before_the_work(
    first_shard_only, tmp_path, capsys
):
    target = tmp_path / "nowhere" / "result.json"
    code = main(["trace", "--artifact-dir", str(first_shard_only), "--output", str(target)])
    assert code == 2
    line = "result.json: output folder missing: expected folder 'nowhere'\n"
    assert capsys.readouterr().err == line
    assert not target.parent.exists()


def test_an_output_that_is_a_folder_is_refused(first_shard_only, refused, tmp_path):
    folder = tmp_path / "out" / "folder.json"
    folder.mkdir(parents=True)
    line = refused("trace", "--artifact-dir", first_shard_only, output=folder)
    assert line == "folder.json: output: expected a file, found a folder"


def test_an_output_that_fails_at_the_last_step_leaves_nothing(
    first_shard_only, refused, monkeypatch
):
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    line = refused("trace", "--artifact-dir", first_shard_only, "--quiet")
    assert line == "result.json: output cannot be written: found No space left on device"


@pytest.mark.parametrize("moment", ["yesterday", "2026-07-29T07:45:00", "2026-13-01T00:00:00Z"])
def test_a_time_without_a_zone_or_a_meaning_is_refused(first_shard_only, refused, moment):
    line = refused("trace", "--artifact-dir", first_shard_only, "--captured-at", moment)
    assert line.startswith("--captured-at: time: expected ISO 8601 with a zone")


def test_a_tokenizer_that_is_not_one_is_refused(tmp_path):
    from capture.tokenizer import Tokenizer

    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(Refusal, match="tokenizer.json: not a tokenizer"):
        Tokenizer(path, 1, 10)


def test_control_characters_of_a_file_name_never_reach_the_terminal():
    message = str(Refusal(where="a\x1b[31m\nb", what="c"))
    assert message == "a?[31m?b: c"


def test_a_device_that_is_not_there_is_refused(first_shard_only, refused):
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device; the refusal needs one without")
    line = refused("trace", "--artifact-dir", first_shard_only, "--device", "cuda", "--quiet")
    assert line == "--device: no such device: expected a CUDA GPU, found none"
