"""Streaming gives what the whole model gives, and each weight byte is read once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers.cache_utils import DynamicCache

from capture.demo.layout import SHARDS
from capture.demo.seal import CHECKPOINT
from capture.observe import sort_routes
from capture.prompts import PROMPTS
from capture.session import open_session
from capture.stream import Streamer, TokenBatch
from capture.tensors import layer_prefix


@pytest.fixture(scope="module")
def session():
    return open_session(CHECKPOINT, quiet=True)


def token_batch(session, texts, width=None):
    rows = [session.tokenizer.encode(t) for t in texts]
    width = width or max(map(len, rows))
    ids = np.full((len(rows), width), session.pad_token_id, dtype=np.int64)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = tokens
    return TokenBatch(torch.from_numpy(ids), tuple(map(len, rows)))


def run(session, batches, layers=range(8)):
    streamer = Streamer(session.artifact, session.code, session.device)
    return list(streamer.run(batches, list(layers), streamer.embed(batches)))


@pytest.fixture(scope="module")
def fixed_batch(session):
    return token_batch(session, [p.text for p in PROMPTS])


@pytest.fixture(scope="module")
def fixed_run(session, fixed_batch):
    return run(session, [fixed_batch])


def test_streamed_hidden_states_are_those_of_the_whole_model_bit_for_bit(
    session, fixed_batch, fixed_run
):
    model = session.code.causal_lm_class(session.code.config_class(**session.artifact.config))
    tensors = {}
    for shard in SHARDS:
        tensors.update(load_file(CHECKPOINT / shard))
    model.to(torch.bfloat16).load_state_dict(tensors, strict=True)
    model.eval()
    routes = {}
    for number, layer in enumerate(model.model.layers):
        if hasattr(layer.mlp, "gate"):
            layer.mlp.gate.register_forward_hook(
                lambda _m, _i, out, number=number: routes.update({number: out[:2]})
            )
    with torch.inference_mode():
        whole = model.model(fixed_batch.input_ids_BT, fixed_batch.attention_mask_BT)
    for result in fixed_run:
        assert torch.equal(result.hidden[0], whole.hidden_states[result.layer + 1])
        if result.layer > 0:
            ids_NK, weights_NK = sort_routes(*routes[result.layer])
            shape = (*fixed_batch.input_ids_BT.shape, 6)
            for row, seen in enumerate(result.observations[0].router):
                length = fixed_batch.lengths_B[row]
                assert torch.equal(seen.expert_ids_TK, ids_NK.view(shape)[row, :length])
                assert torch.equal(seen.weights_TK, weights_NK.view(shape)[row, :length])


def test_each_layer_reads_exactly_the_bytes_of_its_own_tensors(session, fixed_run):
    tensors = {}
    for shard in SHARDS:
        tensors.update(load_file(CHECKPOINT / shard))
    for result in fixed_run:
        own = [t for n, t in tensors.items() if n.startswith(layer_prefix(result.layer))]
        assert result.weight_bytes == sum(t.numel() * t.element_size() for t in own)


def test_a_layer_is_read_once_however_many_batches_there_are(session, monkeypatch):
    reads = []
    original = Streamer._read

    def counted(self, names):
        reads.extend(names)
        return original(self, names)

    monkeypatch.setattr(Streamer, "_read", counted)
    batches = [token_batch(session, [p.text]) for p in PROMPTS]
    run(session, batches, layers=range(3))
    assert len(reads) == len(set(reads))


def test_padded_positions_are_never_observed(session):
    text = PROMPTS[1].text
    narrow = token_batch(session, [text])
    wide = token_batch(session, [text], width=narrow.lengths_B[0] + 9)
    for result in run(session, [narrow, wide], layers=range(2)):
        for observation in result.observations:
            if observation.router is not None:
                assert len(observation.router[0].expert_ids_TK) == narrow.lengths_B[0]


def test_a_layer_runs_in_evaluation_mode_and_calls_itself_layer_0_for_the_cache(session):
    streamer = Streamer(session.artifact, session.code, session.device)
    layer, _ = streamer._layer(5)
    assert not any(module.training for module in layer.modules())
    assert layer.self_attn.layer_idx == 0
    assert not any(p.is_meta for p in layer.parameters())
    cache = DynamicCache()
    cache.update(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1), layer.self_attn.layer_idx)
    assert len(cache.key_cache) == 1


def test_the_cache_is_expanded_keys_and_values_and_the_projection_is_the_latent(fixed_run):
    for result in fixed_run:
        mla = result.observations[0].mla
        b, t = result.hidden[0].shape[:2]
        assert mla.projection == (b, t, 48 + 16)
        assert mla.key == (b, 4, t, 32 + 16)
        assert mla.value == (b, 4, t, 32)
        assert mla.cache_dtype == "bfloat16"
        assert result.observations[0].cache_element_bytes == 2


def test_the_margin_is_the_kth_score_minus_the_next_one(session, fixed_batch, fixed_run):
    """Against scores made again from the layer's input, in plain numpy."""
    shard = load_file(CHECKPOINT / SHARDS[0])
    prefix = layer_prefix(1)
    gate = shard[prefix + "mlp.gate.weight"].float().numpy().astype(np.float64)
    streamer = Streamer(session.artifact, session.code, session.device)
    inputs = []
    layer, _ = streamer._layer(1)
    layer.mlp.gate.register_forward_hook(lambda _m, i, _o: inputs.append(i[0]))
    mask = streamer._mask(fixed_batch, fixed_run[0].hidden[0])
    positions = torch.arange(mask.shape[-1])[None]
    with torch.inference_mode():
        layer(fixed_run[0].hidden[0], attention_mask=mask, position_ids=positions)
    for row, seen in enumerate(fixed_run[1].observations[0].router):
        x = inputs[0][row, : fixed_batch.lengths_B[row]].float().numpy().astype(np.float64)
        logits = x @ gate.T
        scores = np.exp(logits - logits.max(1, keepdims=True))
        scores /= scores.sum(1, keepdims=True)
        ranked = np.sort(scores, axis=1)[:, ::-1]
        np.testing.assert_allclose(seen.margin_T.numpy(), ranked[:, 5] - ranked[:, 6], atol=1e-6)
        np.testing.assert_allclose(seen.weights_TK.numpy(), ranked[:, :6], atol=1e-6)


def test_routes_are_sorted_by_weight_and_ties_by_expert_id():
    ids = torch.tensor([[5, 2, 9], [1, 0, 7]])
    weights = torch.tensor([[0.2, 0.5, 0.2], [0.1, 0.1, 0.1]])
    sorted_ids, sorted_weights = sort_routes(ids, weights)
    assert sorted_ids.tolist() == [[2, 5, 9], [0, 1, 7]]
    assert sorted_weights[0].tolist() == pytest.approx([0.5, 0.2, 0.2])
