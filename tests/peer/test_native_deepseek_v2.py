"""The embedded checkpoint in transformers' native deepseek_v2 against our modeling code, float32.

Two implementations that share no line: if both select the same experts for every token and
project the same latent, our code computes the architecture. `make test-peer` records ours
(tests/peer/ours.py, transformers 4.41.2) and runs this file in an environment of its own.

Native names: experts are stacked into one tensor (from_pretrained merges the checkpoint's),
`rope_scaling` becomes `rope_parameters`, the gate returns (logits, weights, ids); modules that
are compared here keep the official names. Versions before 5.15.1 lack YaRN's mscale squared.

Axes: B batch, T position, M valid token, K selected expert, C latent, R decoupled RoPE key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

VARIABLE = "LLM_ATLAS_PEER_RECORD"
CHECKPOINT = Path(__file__).parents[2] / "capture/demo/checkpoint"
TOLERANCE = 1e-5
"""Largest difference of a projection, absolute and as a part of its layer's largest value:
float32 sums taken in another order differ by some 1e-6 of the largest term."""

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        VARIABLE not in os.environ,
        reason=f"needs {VARIABLE}=FILE.npz and the peer environment: make test-peer makes both",
    ),
]

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Agreement:
    """How far two records agree on valid tokens."""

    tokens: int
    moe_layers: tuple[int, ...]
    other_routes: dict[int, int]  # layer -> tokens whose set of selected experts differs
    largest_difference: float
    largest_value: float
    largest_relative: float


def agreement(ours: Arrays, native: Arrays) -> Agreement:
    """Compare every projection_l and expert_ids_l of two records on valid tokens."""
    assert ours.keys() == native.keys()
    valid_BT = np.arange(ours["input_ids_BT"].shape[1]) < ours["lengths_B"][:, None]
    moe = sorted(int(n.rsplit("_", 1)[1]) for n in ours if n.startswith("expert_ids_"))
    other_routes = {}
    for layer in moe:
        first_MK, second_MK = (
            np.sort(r[f"expert_ids_{layer}"][valid_BT], axis=-1) for r in (ours, native)
        )
        assert first_MK.shape == second_MK.shape
        other_routes[layer] = int((first_MK != second_MK).any(axis=-1).sum())
    names = [n for n in ours if n.startswith("projection_")]
    differences = [float(np.abs(ours[n][valid_BT] - native[n][valid_BT]).max()) for n in names]
    values = [float(np.abs(ours[n][valid_BT]).max()) for n in names]
    return Agreement(
        tokens=int(valid_BT.sum()),
        moe_layers=tuple(moe),
        other_routes=other_routes,
        largest_difference=max(differences),
        largest_value=max(values),
        largest_relative=max(d / v for d, v in zip(differences, values, strict=True)),
    )


def native_model() -> Any:
    """The checkpoint in the native class; every tensor must have found its place."""
    import torch
    from transformers import DeepseekV2ForCausalLM

    model, info = DeepseekV2ForCausalLM.from_pretrained(
        CHECKPOINT,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        output_loading_info=True,
    )
    assert not any(info.values()), info
    return model.eval()


def native_record(model: Any, ours: Arrays) -> Arrays:
    """Forward the token ids of `ours` and record what tests/peer/ours.py records."""
    import torch

    input_ids_BT = torch.from_numpy(ours["input_ids_BT"])
    lengths_B = torch.from_numpy(ours["lengths_B"])
    arrays = {"input_ids_BT": ours["input_ids_BT"], "lengths_B": ours["lengths_B"]}

    def keep(name: str, place: int | None) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            tensor = output if place is None else output[place]
            arrays[name] = tensor.reshape(*input_ids_BT.shape, -1).numpy().copy()

        return hook

    hooks = []
    for index, layer in enumerate(model.model.layers):
        projection = layer.self_attn.kv_a_proj_with_mqa
        hooks.append(projection.register_forward_hook(keep(f"projection_{index}", None)))
        if hasattr(layer.mlp, "gate"):
            hooks.append(layer.mlp.gate.register_forward_hook(keep(f"expert_ids_{index}", 2)))
    mask_BT = (torch.arange(input_ids_BT.shape[1]) < lengths_B.unsqueeze(1)).long()
    with torch.inference_mode():
        model(input_ids_BT, attention_mask=mask_BT, use_cache=False)
    for hook in hooks:
        hook.remove()
    return arrays


@pytest.fixture(scope="module")
def ours() -> Arrays:
    with np.load(os.environ[VARIABLE]) as file:
        return dict(file)


@pytest.fixture
def model() -> Any:
    return native_model()


def test_the_peer_has_the_yarn_factor_that_older_versions_lack() -> None:
    assert tuple(int(p) for p in version("transformers").split(".")[:3]) >= (5, 15, 1)


def test_both_implementations_select_the_same_experts_and_project_the_same_latent(
    model: Any, ours: Arrays, capsys: pytest.CaptureFixture[str]
) -> None:
    found = agreement(ours, native_record(model, ours))
    with capsys.disabled():
        print(
            f"\n{found.tokens} tokens, MoE layers {found.moe_layers[0]}-{found.moe_layers[-1]}: "
            f"{sum(found.other_routes.values())} other top-6 sets; projections up to "
            f"{found.largest_value:.2f} differ by at most {found.largest_difference:.2e}, "
            f"{found.largest_relative:.2e} of a layer's largest value"
        )
    assert found.tokens == 90
    assert found.moe_layers == tuple(range(1, 8))
    assert found.other_routes == dict.fromkeys(range(1, 8), 0)
    assert found.largest_relative < TOLERANCE
    assert found.largest_difference < TOLERANCE


def test_one_other_gate_row_is_seen_in_its_layer_and_in_the_next_projection(
    model: Any, ours: Arrays
) -> None:
    gate = model.model.layers[2].mlp.gate.weight
    gate.data[:32] = gate.data[32:].clone()
    found = agreement(ours, native_record(model, ours))
    assert found.other_routes[1] == 0
    assert found.other_routes[2] > 0
    assert found.largest_relative > 100 * TOLERANCE


def test_without_mscale_squared_the_projections_differ(model: Any, ours: Arrays) -> None:
    # what versions before 5.15.1 compute: the comparison must not be blind to it
    for layer in model.model.layers:
        layer.self_attn.scaling = layer.self_attn.qk_head_dim**-0.5
    found = agreement(ours, native_record(model, ours))
    assert found.largest_relative > 100 * TOLERANCE
