"""Batches spread over Ray workers: the same bytes as in one process, and dead workers replaced."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from atlas.canonical import canonical_json
from atlas.resample import Resampling
from capture.__main__ import main
from capture.corpus import sources
from capture.corpus.plan import Plan
from capture.corpus.run import run_corpus
from capture.corpus.selection import DOMAINS, select, selection_record
from capture.demo.seal import CHECKPOINT
from capture.engine import RayEngine, engine_of, import_path, merge
from capture.errors import Refusal
from capture.session import Session, open_session
from capture.stream import LayerResult

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="needs Ray: pip install .[cluster], or make test-cluster",
)


@pytest.fixture(scope="module")
def session() -> Session:
    return open_session(CHECKPOINT, layers=3, quiet=True)


@pytest.fixture(scope="module")
def plan(session: Session) -> Plan:
    readings = [sources.probes(rule.domain) for rule in DOMAINS]
    picks = select(readings, session.tokenizer.encode, per_domain=5)
    rules = selection_record(per_domain=5).model_copy(update={"batch_size": 4})
    return Plan(picks, rules)


@pytest.fixture(scope="module")
def plain(session: Session, plan: Plan) -> bytes:
    return canonical_json(run_corpus(session, plan, Resampling(40), captured_at=None))


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """One local Ray for all tests; the engine joins it and leaves it as it was."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", import_path())
        import ray

        ray.init(num_cpus=4, include_dashboard=False, logging_level=40, log_to_driver=False)
    yield ray
    ray.shutdown()


class Watched:
    """An engine whose layers call `between(engine, layer)` when they are done."""

    def __init__(self, engine: RayEngine, between: Any) -> None:
        self.engine, self.between, self.device = engine, between, engine.device

    def embed(self, batches: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        return self.engine.embed(batches)

    def run(self, batches: Any, layers: Any, hidden: Any) -> Iterator[LayerResult]:
        for result in self.engine.run(batches, layers, hidden):
            yield result
            self.between(self.engine, result.layer)


@needs_ray
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_gives_the_bytes_of_the_plain_run(
    ray: Any, session: Session, plan: Plan, plain: bytes, workers: int
) -> None:
    with engine_of("ray", workers, session) as engine:
        result = run_corpus(session, plan, Resampling(40), captured_at=None, engine=engine)
        assert isinstance(engine, RayEngine)
        assert len(set(engine.processes())) == workers
        assert os.getpid() not in engine.processes()
    assert canonical_json(result) == plain


@needs_ray
def test_a_worker_that_dies_is_replaced_and_the_bytes_stay(
    ray: Any, session: Session, plan: Plan, plain: bytes
) -> None:
    killed = []

    def kill_one(engine: RayEngine, layer: int) -> None:
        if layer == 1:
            killed.append(engine.processes()[0])
            os.kill(killed[0], signal.SIGKILL)

    with engine_of("ray", 2, session) as engine:
        assert isinstance(engine, RayEngine)
        watched = Watched(engine, kill_one)
        result = run_corpus(session, plan, Resampling(40), captured_at=None, engine=watched)
        assert engine.replaced == 1
        assert killed and killed[0] not in engine.processes()
    assert canonical_json(result) == plain


@needs_ray
def test_a_run_that_ray_began_goes_on_in_this_process(
    ray: Any, session: Session, plan: Plan, plain: bytes, tmp_path: Path
) -> None:
    work = tmp_path / "work"

    def stop(_engine: RayEngine, layer: int) -> None:
        if layer == 1:
            raise KeyboardInterrupt

    with engine_of("ray", 2, session) as engine:
        assert isinstance(engine, RayEngine)
        watched = Watched(engine, stop)
        with pytest.raises(KeyboardInterrupt):
            run_corpus(
                session, plan, Resampling(40), captured_at=None, work_dir=work, engine=watched
            )
    assert (work / "layer-00001.safetensors").exists()
    again = run_corpus(session, plan, Resampling(40), captured_at=None, work_dir=work, resume=True)
    assert canonical_json(again) == plain


@needs_ray
def test_a_worker_with_another_environment_is_refused_with_the_field(
    ray: Any, session: Session, plan: Plan
) -> None:
    import dataclasses

    other = session.environment.model_copy(update={"numpy": "1.0"})
    elsewhere = dataclasses.replace(session, environment=other)
    with (
        engine_of("ray", 1, elsewhere) as engine,
        pytest.raises(Refusal, match=r"^worker: environment.numpy: expected 1.0, found 2"),
    ):
        run_corpus(elsewhere, plan, Resampling(40), captured_at=None, engine=engine)


@needs_ray
def test_the_command_line_with_ray_writes_the_file_that_it_writes_without(
    ray: Any, tmp_path: Path
) -> None:
    argv = ["corpus", "--probes", "--per-domain", "3", "--batch-size", "4", "--bootstrap", "20"]
    argv += ["--artifact-dir", str(CHECKPOINT), "--layers", "2", "--quiet"]
    assert main([*argv, "--output", str(tmp_path / "plain.json")]) == 0
    spread = ["--engine", "ray", "--workers", "2"]
    assert main([*argv, *spread, "--output", str(tmp_path / "ray.json")]) == 0
    assert (tmp_path / "ray.json").read_bytes() == (tmp_path / "plain.json").read_bytes()


def test_workers_without_ray_are_refused(session: Session) -> None:
    with (
        pytest.raises(Refusal, match=r"^--workers: needs --engine ray$"),
        engine_of("plain", 2, session),
    ):
        pass


def test_ray_that_is_not_installed_is_named(monkeypatch: Any, session: Session) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(Refusal, match=r"^--engine ray: Ray is not installed: expected pip install"),
        engine_of("ray", 2, session),
    ):
        pass


def test_merged_results_are_in_the_order_of_the_batches() -> None:
    def result(*names: str) -> LayerResult:
        states = tuple(torch.tensor([float(ord(n))]) for n in names)
        return LayerResult(3, states, names, tuple(names), len(names), 10)  # type: ignore[arg-type]

    merged = merge([result("a", "c", "e"), result("b", "d")], [[0, 2, 4], [1, 3]])
    assert merged.hidden_sha256 == ("a", "b", "c", "d", "e")
    assert [chr(int(h)) for h in merged.hidden] == list("abcde")
    assert merged.observations == ("a", "b", "c", "d", "e")
    assert (merged.layer, merged.seconds, merged.weight_bytes) == (3, 3, 20)
