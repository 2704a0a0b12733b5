"""Who runs the layers: this process, or the workers of a Ray cluster.

Batches are fixed, and a batch's result does not depend on which others share the process, so
they may be spread at will and the file keeps its bytes. Each worker opens the artifact itself
and must find the same environment, since another processor may round in another way. A worker
holds no state but its weights: hidden states go out and come back with every layer, so one that
dies is replaced and only its last layer is run again.

Ray is an extra of its own (`[cluster]`) and is imported where it is asked for.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

import atlas
import capture
from atlas.contract.identity import Environment
from capture.errors import Refusal
from capture.observe import LayerObservation, RouterObservation
from capture.session import Session, open_session
from capture.stream import LayerResult, Streamer, TokenBatch

WORKERS = 2
DEATHS = 3
START_SECONDS = 600.0


class Engine(Protocol):
    """What runs layers; capture.stream.Streamer is the plain one."""

    device: torch.device

    def embed(self, batches: Sequence[TokenBatch]) -> tuple[Tensor, ...]: ...

    def run(
        self,
        batches: Sequence[TokenBatch],
        layers: Sequence[int],
        hidden: tuple[Tensor, ...],
    ) -> Iterator[LayerResult]: ...


@dataclasses.dataclass(frozen=True)
class Opening:
    """How a worker opens the artifact that the driver opened."""

    folder: Path
    device: str
    model: str
    layers: int
    threads: int
    environment: Environment
    sizes: tuple[tuple[str, int], ...]
    node: str
    hashed: bool

    @classmethod
    def of(cls, session: Session, node: str) -> Opening:
        return cls(
            folder=session.artifact.folder.resolve(),
            device=session.device.type,
            model=session.artifact.model.slug,
            layers=len(session.stop_line.executed_layers),
            threads=torch.get_num_threads(),
            environment=session.environment,
            sizes=tuple((f.name, f.bytes) for f in session.files),
            node=node,
            hashed=all(f.sha256 is not None for f in session.files),
        )


class RelayedRefusal(Refusal):
    """A worker's refusal, with the worker's words."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)


class Worker:
    """One Ray worker's side. Methods return a refusal's text instead of raising it."""

    def __init__(self, opening: Opening, node: str) -> None:
        self.opening = opening
        self._open = ExitStack()
        self._streamer: Streamer | None = None
        self._refusal: str | None = None
        # Ray allows a worker one thread; sums of other lengths may round in another way
        torch.set_num_threads(opening.threads)
        try:
            session = open_session(
                opening.folder,
                device=opening.device,
                model=opening.model,
                layers=opening.layers,
                # on the driver's own machine the files were hashed a moment ago
                hash_shards=opening.hashed and node != opening.node,
                quiet=True,
            )
            self._require_same(session)
            self._streamer = Streamer(session.artifact, session.code, session.device)
        except Refusal as refusal:
            self._refusal = str(refusal)

    def _require_same(self, session: Session) -> None:
        ours, theirs = session.environment.model_dump(), self.opening.environment.model_dump()
        for field, expected in theirs.items():
            if ours[field] != expected:
                found = ours[field]
                raise Refusal(
                    where="worker", what=f"environment.{field}", expected=expected, found=found
                )
        sizes = {file.name: file.bytes for file in session.files}
        for name, size in self.opening.sizes:
            if sizes.get(name) != size:
                raise Refusal(
                    where=name, what="bytes on a worker", expected=size, found=sizes.get(name)
                )

    def start(self, batches: Sequence[TokenBatch], layers: Sequence[int]) -> str | None:
        """Keep the batches of this worker; a refusal's text if it cannot run."""
        if self._streamer is not None:
            self._batches = batches
            self._open.enter_context(self._streamer.ahead(layers))
        return self._refusal

    def run(self, layer: int, hidden: Sequence[Tensor]) -> LayerResult | str:
        assert self._streamer is not None
        states = [h.to(self._streamer.device) for h in hidden]
        try:
            return portable(self._streamer.run_layer(layer, self._batches, states))
        except Refusal as refusal:
            return str(refusal)

    def process(self) -> int:
        return os.getpid()


class RayEngine:
    """Spreads batches over `workers` Ray workers; the k-th batch goes to worker k mod workers."""

    def __init__(self, ray: Any, session: Session, workers: int) -> None:
        self.ray, self.workers, self.replaced = ray, workers, 0
        self.device = torch.device("cpu")
        self._plain = Streamer(session.artifact, session.code, self.device)
        self._opening = Opening.of(session, ray.get_runtime_context().get_node_id())
        self._actors: list[Any] = []

    def embed(self, batches: Sequence[TokenBatch]) -> tuple[Tensor, ...]:
        return self._plain.embed(batches)

    def run(
        self,
        batches: Sequence[TokenBatch],
        layers: Sequence[int],
        hidden: tuple[Tensor, ...],
    ) -> Iterator[LayerResult]:
        """As Streamer.run, with the results of every batch in the order of `batches`."""
        count = min(self.workers, len(batches))
        shares = [list(range(worker, len(batches), count)) for worker in range(count)]
        parts = [[batches[i] for i in share] for share in shares]
        self._actors = [self._start(part, layers) for part in parts]
        states = list(hidden)
        for at, layer in enumerate(layers):
            inputs = [[states[i] for i in share] for share in shares]
            calls = [a.run.remote(layer, x) for a, x in zip(self._actors, inputs, strict=True)]
            results = [
                self._result(worker, call, parts[worker], layers[at:], inputs[worker])
                for worker, call in enumerate(calls)
            ]
            merged = merge(results, shares)
            states = list(merged.hidden)
            yield merged

    def processes(self) -> list[int]:
        """Process ids of the workers."""
        found: list[int] = self.ray.get([actor.process.remote() for actor in self._actors])
        return found

    def close(self) -> None:
        for actor in self._actors:
            self.ray.kill(actor)
        self._actors = []

    def _start(self, batches: Sequence[TokenBatch], layers: Sequence[int]) -> Any:
        on_gpu = 1 if self._opening.device == "cuda" else 0
        remote = self.ray.remote(num_cpus=1, num_gpus=on_gpu)(_RemoteWorker)
        actor = remote.remote(self._opening)
        try:
            refusal = self.ray.get(actor.start.remote(batches, layers), timeout=START_SECONDS)
        except self.ray.exceptions.GetTimeoutError as error:
            raise Refusal(
                where="--workers",
                what="a worker did not start",
                expected=f"{self.workers} free workers",
                found=f"none after {START_SECONDS:.0f} s",
            ) from error
        except self.ray.exceptions.RayActorError as error:
            raise Refusal(
                where="--engine ray",
                what="a worker cannot start",
                found=str(error).splitlines()[-1],
            ) from error
        if refusal is not None:
            raise RelayedRefusal(refusal)
        return actor

    def _result(
        self,
        worker: int,
        call: Any,
        batches: Sequence[TokenBatch],
        layers: Sequence[int],
        hidden: Sequence[Tensor],
    ) -> LayerResult:
        """The layer of one worker, from a new worker where it died."""
        for _ in range(DEATHS):
            try:
                result = self.ray.get(call)
            except (self.ray.exceptions.RayActorError, self.ray.exceptions.WorkerCrashedError):
                self.replaced += 1
                self._actors[worker] = self._start(batches, layers)
                call = self._actors[worker].run.remote(layers[0], hidden)
                continue
            if isinstance(result, str):
                raise RelayedRefusal(result)
            assert isinstance(result, LayerResult)
            return result
        raise Refusal(
            where="--engine ray",
            what=f"layer {layers[0]}: a worker and its replacements died",
            expected="a worker that lives",
            found=f"{DEATHS} deaths",
        )


class _RemoteWorker(Worker):
    """A Worker that asks Ray which machine it is on."""

    def __init__(self, opening: Opening) -> None:
        import ray

        super().__init__(opening, ray.get_runtime_context().get_node_id())


@contextmanager
def engine_of(name: str, workers: int | None, session: Session) -> Iterator[Engine | None]:
    """The engine that `--engine` names; None for this process. Raises Refusal.

    Ray is started here, or joined where RAY_ADDRESS says so, and left as it was found.
    """
    if name == "plain":
        if workers is not None:
            raise Refusal(where="--workers", what="needs --engine ray")
        yield None
        return
    count = workers or WORKERS
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise Refusal(
            where="--engine ray", what="Ray is not installed", expected="pip install .[cluster]"
        ) from error
    started = not ray.is_initialized()
    if started:
        local: dict[str, Any] = {}
        if not os.environ.get("RAY_ADDRESS"):
            local = {"num_cpus": max(count, os.cpu_count() or 1), "include_dashboard": False}
            os.environ["PYTHONPATH"] = import_path()
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **local)
    engine = RayEngine(ray, session, count)
    try:
        yield engine
    finally:
        engine.close()
        if started:
            ray.shutdown()


def import_path() -> str:
    """PYTHONPATH with which a local worker imports this code, installed or not."""
    roots = [str(Path(module.__file__ or "").resolve().parents[1]) for module in (capture, atlas)]
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*roots, given] if given else roots)


def merge(results: Sequence[LayerResult], shares: Sequence[Sequence[int]]) -> LayerResult:
    """One layer's result over all batches; `shares[w]` are the batches of worker w.

    Seconds are the slowest worker's; the weights are counted once for each that read them.
    """
    place = {i: (w, k) for w, share in enumerate(shares) for k, i in enumerate(share)}
    order = [place[i] for i in range(len(place))]
    return LayerResult(
        layer=results[0].layer,
        hidden=tuple(results[w].hidden[k] for w, k in order),
        hidden_sha256=tuple(results[w].hidden_sha256[k] for w, k in order),
        observations=tuple(results[w].observations[k] for w, k in order),
        seconds=max(r.seconds for r in results),
        weight_bytes=sum(r.weight_bytes for r in results),
    )


def portable(result: LayerResult) -> LayerResult:
    """The result with tensors of its own on the CPU: a view would be sent with all it views."""
    return dataclasses.replace(
        result,
        hidden=tuple(h.cpu().clone() for h in result.hidden),
        observations=tuple(
            LayerObservation(
                o.mla,
                o.cache_element_bytes,
                None
                if o.router is None
                else tuple(
                    RouterObservation(
                        r.expert_ids_TK.clone(), r.weights_TK.clone(), r.margin_T.clone()
                    )
                    for r in o.router
                ),
            )
            for o in result.observations
        ),
    )
