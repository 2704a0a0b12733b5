"""What is committed under src/data is canonical, current, and was repeated."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from atlas.canonical import canonical_json
from atlas.contract import Comparison, RoutingCorpus, Trace, parse
from capture.pins import model_called

DATA = Path(__file__).parents[2] / "src" / "data"
FILES = sorted(DATA.glob("*.json"))


def dataset(name: str):
    return parse((DATA / name).read_bytes(), name)


def test_there_is_committed_data():
    assert {"demo-trace.json", "demo-routing-corpus.json"} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_committed_file_is_valid_and_canonical(path):
    data = path.read_bytes()
    assert canonical_json(parse(data, path.name)) == data


def test_the_demo_trace_stops_at_layer_6_and_was_repeated_31_of_31():
    trace = dataset("demo-trace.json")
    assert isinstance(trace, Trace)
    assert trace.stop_line.executed_layers == (0, 1, 2, 3, 4, 5, 6)
    comparison = dataset("demo-trace-comparison.json")
    assert isinstance(comparison, Comparison)
    assert (comparison.exact, comparison.total) == (31, 31)
    assert comparison.first.sha256 == sha256((DATA / "demo-trace.json").read_bytes()).hexdigest()


def test_the_independent_rerun_of_the_demo_corpus_is_byte_identical():
    first, again = (
        (DATA / f"demo-routing-corpus{suffix}.json").read_bytes() for suffix in ("", "-repro")
    )
    assert sha256(first).hexdigest() == sha256(again).hexdigest()
    corpus = dataset("demo-routing-corpus.json")
    assert isinstance(corpus, RoutingCorpus)
    assert corpus.environment is not None and corpus.environment.torch.startswith("2.13.0")


@pytest.mark.parametrize("name", ["demo-trace.json", "demo-routing-corpus.json"])
def test_demo_data_was_made_from_the_checkpoint_that_is_committed(name):
    pins = model_called("demo")
    made_from = {f.name: f.sha256 for f in dataset(name).artifacts}
    assert made_from.items() <= pins.hashes.items()
    assert all(f.pinned for f in dataset(name).artifacts)
