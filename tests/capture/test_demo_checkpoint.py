"""The embedded checkpoint is trained, pinned, and described by its own record."""

from __future__ import annotations

import json

import pytest

from capture.artifacts import read_architecture, read_config
from capture.demo.card import CARD, RECORD, card_of
from capture.demo.layout import SHARDS, shard_of
from capture.demo.seal import CHECKPOINT


@pytest.fixture(scope="module")
def record():
    return json.loads((CHECKPOINT / RECORD).read_text(encoding="utf-8"))


def test_the_model_card_is_what_the_training_record_gives():
    architecture = read_architecture(read_config(CHECKPOINT)[1])
    expected = card_of((CHECKPOINT / RECORD).read_bytes(), architecture)
    assert (CHECKPOINT / CARD).read_bytes() == expected


def test_held_out_loss_is_at_least_1_2_nats_under_the_unigram_entropy_in_every_domain(record):
    found = record["held_out"]["domains"]
    assert sorted(found) == ["code", "en_encyclopedia", "math", "zh_news"]
    for domain in found.values():
        assert domain["under_unigram"] == pytest.approx(
            domain["unigram_entropy"] - domain["loss"], abs=2e-4
        )
        assert domain["under_unigram"] >= 1.2


def test_the_router_is_neither_collapsed_nor_uniform_in_any_moe_layer(record):
    router = record["held_out"]["router"]
    assert sorted(map(int, router)) == [1, 2, 3, 4, 5, 6, 7]
    for layer in router.values():
        assert layer["used"] >= 60
        assert 0.2 <= layer["cv"] <= 1.5


def test_the_loss_falls_over_the_whole_curve(record):
    losses = [point["loss"] for point in record["loss_curve"]]
    assert losses[0] > losses[len(losses) // 2] > losses[-1]


def test_only_the_last_layer_spans_both_shards():
    names = json.loads((CHECKPOINT / "model.safetensors.index.json").read_text())["weight_map"]
    assert all(shard == shard_of(name, 8) for name, shard in names.items())
    second = {name.split(".")[2] for name, shard in names.items() if shard == SHARDS[1]}
    assert second == {"7"}
    assert names["lm_head.weight"] == names["model.embed_tokens.weight"] == SHARDS[0]
