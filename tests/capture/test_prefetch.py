"""One layer ahead: each is loaded once and in order, and nothing changes in what is computed."""

from __future__ import annotations

import mmap
import os
import sys
import threading
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from capture import prefetch
from capture.demo.seal import CHECKPOINT
from capture.errors import Refusal
from capture.prefetch import Ahead, Unreadable, _pieces, cached, fetch, look_up, wait_for
from capture.session import open_session
from capture.stream import Streamer, TokenBatch
from capture.tensors import layer_shapes


def test_the_next_layer_is_loaded_before_it_is_taken_and_each_once() -> None:
    loaded: list[int] = []
    second = threading.Event()

    def load(layer: int) -> dict[str, torch.Tensor]:
        loaded.append(layer)
        if layer == 1:
            second.set()
        return {"x": torch.tensor(layer)}

    with Ahead(load, [0, 1, 2], active=True) as ahead:
        assert int(ahead.take(0)["x"]) == 0
        assert second.wait(10), "layer 1 was not begun while layer 0 was in use"
        assert 2 not in loaded
        assert [int(ahead.take(n)["x"]) for n in (1, 2)] == [1, 2]
    assert loaded == [0, 1, 2]


def test_without_prefetch_a_layer_is_loaded_when_it_is_taken() -> None:
    loaded: list[int] = []
    with Ahead(lambda n: loaded.append(n) or {}, [0, 1], active=False) as ahead:
        ahead.take(0)
        assert loaded == [0]


def test_what_a_load_raises_is_raised_where_the_layer_is_taken() -> None:
    def load(layer: int) -> dict[str, torch.Tensor]:
        if layer == 1:
            raise Refusal(where="shard", what="cannot be read")
        return {}

    with Ahead(load, [0, 1], active=True) as ahead:
        ahead.take(0)
        with pytest.raises(Refusal, match=r"^shard: cannot be read$"):
            ahead.take(1)


def mapped(path: Path, count: int) -> dict[str, torch.Tensor]:
    save_file({str(i): torch.full((5000,), i, dtype=torch.bfloat16) for i in range(count)}, path)
    with safe_open(str(path), framework="pt") as file:
        return {str(i): file.get_tensor(str(i)) for i in range(count)}


def test_the_pieces_cover_every_byte_of_the_tensors_in_page_steps(tmp_path: Path) -> None:
    weights = mapped(tmp_path / "a.safetensors", 9)
    pieces = list(_pieces(weights.values(), 2 * mmap.PAGESIZE))
    assert all(start % mmap.PAGESIZE == 0 for start, _ in pieces)
    assert all(0 < length <= 2 * mmap.PAGESIZE for _, length in pieces)
    covered = {byte for start, length in pieces for byte in range(start, start + length)}
    for tensor in weights.values():
        assert tensor.data_ptr() in covered
        assert tensor.data_ptr() + 2 * tensor.numel() - 1 in covered
    # neighbours in the file are one span: the sum exceeds their bytes by a page at most
    assert sum(length for _, length in pieces) <= 9 * 10_000 + 2 * mmap.PAGESIZE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which pages are cached")
def test_fetch_reads_what_is_not_cached_and_leaves_alone_what_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.safetensors"
    # larger than what the system reads ahead of the header
    save_file({"0": torch.ones(32 << 20, dtype=torch.bfloat16)}, path)
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with safe_open(str(path), framework="pt") as opened:
        weights = {"0": opened.get_tensor("0")}
    pieces = list(_pieces(weights.values(), 1 << 20))
    if all(cached(*piece) for piece in pieces):
        pytest.skip("this file system keeps all pages in memory; a TMPDIR on a disk un-skips this")
    fetch(weights)
    assert all(cached(*piece) for piece in pieces)
    advice: list[int] = []
    monkeypatch.setattr(prefetch, "_advise", lambda start, length, what: advice.append(what))
    fetch(weights)
    assert advice == []


def test_advice_changes_no_value(tmp_path: Path) -> None:
    weights = mapped(tmp_path / "a.safetensors", 3)
    look_up(weights, rows=1)
    look_up(weights, rows=1 << 20)
    fetch(weights)
    wait_for(weights)
    assert [int(weights[str(i)].float().sum()) for i in range(3)] == [0, 5000, 10_000]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux maps pages on request")
def test_a_shard_that_is_cut_while_it_is_mapped_is_an_error_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    weights = mapped(path, 9)
    os.truncate(path, 4096)
    for read in (fetch, wait_for):
        with pytest.raises(Unreadable):
            read(weights)


@pytest.mark.parametrize("prefetch", [True, False])
def test_every_tensor_is_read_once_and_the_bits_do_not_depend_on_prefetch(prefetch: bool) -> None:
    session = open_session(CHECKPOINT, layers=3, quiet=True)
    ids = torch.arange(60).view(2, 30)
    batches = [TokenBatch(ids, (30, 20)), TokenBatch(ids + 100, (10, 30))]
    streamer = Streamer(session.artifact, session.code, session.device, prefetch=prefetch)
    hashes = [
        result.hidden_sha256 for result in streamer.run(batches, range(3), streamer.embed(batches))
    ]
    names = {n for layer in range(3) for n in layer_shapes(session.artifact.architecture, layer)}
    assert {n: streamer.reads[n] for n in names} == dict.fromkeys(names, 1)
    plain = Streamer(session.artifact, session.code, session.device, prefetch=False)
    states = list(plain.embed(batches))
    assert hashes == [plain.run_layer(n, batches, states).hidden_sha256 for n in range(3)]
