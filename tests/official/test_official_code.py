"""Our modeling code against the official file, same weights, whole model, bfloat16, bit for bit.

The official file is not part of the project. Where a folder that holds it is named in
LLM_ATLAS_OFFICIAL_CODE, every route and every layer's hidden states must be equal.

Axes: B batch, T position, N = B*T tokens, D hidden, K selected expert.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from capture.demo.layout import SHARDS
from capture.official import CONFIGURATION, MODELING, OfficialCode, load_official_code
from capture.pins import model_called

CHECKPOINT = Path(__file__).parents[2] / "capture/demo/checkpoint"
VARIABLE = "LLM_ATLAS_OFFICIAL_CODE"
LENGTHS_B = (26, 18, 19, 27)

pytestmark = pytest.mark.skipif(
    VARIABLE not in os.environ,
    reason=f"needs {VARIABLE}=DIR with {MODELING} and {CONFIGURATION} of "
    "deepseek-ai/DeepSeek-V2-Lite at the pinned revision",
)


@dataclass
class Run:
    """What one forward pass did, layer by layer; a dense layer has no route."""

    hidden: dict[int, Tensor] = field(default_factory=dict)
    expert_ids: dict[int, Tensor] = field(default_factory=dict)
    weights: dict[int, Tensor] = field(default_factory=dict)


def run(code: OfficialCode, weights: dict[str, Tensor], perturb: int | None = None) -> Run:
    """Load `weights` into the code's model and forward [4, 27] right-padded tokens.

    `perturb` names a layer in which one gate row is replaced by another.
    """
    config = code.config_class(**json.loads((CHECKPOINT / "config.json").read_text("utf-8")))
    config._attn_implementation = "eager"
    model = code.causal_lm_class(config)
    model.load_state_dict(weights, strict=True)
    model.to(torch.bfloat16).eval()
    if perturb is not None:
        gate = model.model.layers[perturb].mlp.gate.weight
        gate.data[0] = gate.data[1]
    result = Run()

    def keep_layer(index: int) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            result.hidden[index] = output[0].clone()

        return hook

    def keep_gate(index: int) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            # the order of the selected six is not part of the route
            by_weight_NK, place_NK = output[1].sort(dim=-1, descending=True, stable=True)
            result.expert_ids[index] = output[0].gather(-1, place_NK)
            result.weights[index] = by_weight_NK

        return hook

    for index, layer in enumerate(model.model.layers):
        layer.register_forward_hook(keep_layer(index))
        if hasattr(layer.mlp, "gate"):
            layer.mlp.gate.register_forward_hook(keep_gate(index))
    generator = torch.Generator().manual_seed(27)
    input_ids_BT = torch.randint(config.vocab_size, (4, 27), generator=generator)
    mask_BT = (torch.arange(27) < torch.tensor(LENGTHS_B).unsqueeze(1)).long()
    with torch.inference_mode():
        model(input_ids_BT, attention_mask=mask_BT)
    return result


@pytest.fixture(scope="module")
def official() -> OfficialCode:
    pins = model_called("deepseek-v2-lite").hashes
    return load_official_code(Path(os.environ[VARIABLE]), pins)


@pytest.fixture(scope="module")
def ours() -> OfficialCode:
    pins = {n: sha256((CHECKPOINT / n).read_bytes()).hexdigest() for n in (CONFIGURATION, MODELING)}
    return load_official_code(CHECKPOINT, pins)


@pytest.fixture(scope="module", autouse=True)
def deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


def random_weights(ours: OfficialCode) -> dict[str, Tensor]:
    torch.manual_seed(4)
    config = ours.config_class(**json.loads((CHECKPOINT / "config.json").read_text("utf-8")))
    model = ours.causal_lm_class(config)
    return {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}


def embedded_weights(_ours: OfficialCode) -> dict[str, Tensor]:
    return {name: t for shard in SHARDS for name, t in load_file(CHECKPOINT / shard).items()}


@pytest.mark.parametrize("source", [embedded_weights, random_weights], ids=lambda f: f.__name__)
def test_official_code_gives_the_same_routes_and_hidden_states_bit_for_bit(
    official: OfficialCode, ours: OfficialCode, source: Any
) -> None:
    weights = source(ours)
    first, second = run(official, weights), run(ours, weights)
    assert list(first.hidden) == list(second.hidden) == list(range(8))
    assert list(first.expert_ids) == list(second.expert_ids) == list(range(1, 8))
    for layer in range(8):
        assert torch.equal(first.hidden[layer], second.hidden[layer]), f"layer {layer}"
    for layer in range(1, 8):
        assert first.expert_ids[layer].shape == (4 * 27, 6)
        assert torch.equal(first.expert_ids[layer], second.expert_ids[layer]), f"layer {layer}"
        assert torch.equal(first.weights[layer], second.weights[layer]), f"layer {layer}"


def test_one_other_gate_row_changes_the_route_and_what_follows(
    official: OfficialCode, ours: OfficialCode
) -> None:
    weights = random_weights(ours)
    first, second = run(official, weights), run(ours, weights, perturb=3)
    assert torch.equal(first.hidden[2], second.hidden[2])
    assert not torch.equal(first.expert_ids[3], second.expert_ids[3])
    assert not torch.equal(first.hidden[3], second.hidden[3])
