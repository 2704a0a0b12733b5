"""What a run needs to go on after a crash: one folder, two small files per layer.

`run.json` defines the run. `layer-NNN.safetensors` holds what was observed in layer NNN, and
`hidden-NNN.safetensors` its output; the hidden states of older layers are deleted. Each file
is written in one step, hidden first, so `layer-NNN` stands only for a whole layer, and a kill
at any moment loses at most the layer that was running.

Axes: B batch row, T position of a row, K selected expert, D hidden.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from atlas.canonical import canonical_json, parse_json, write_atomically
from atlas.contract.trace import MlaShapes
from capture.errors import Refusal
from capture.observe import LayerObservation, RouterObservation
from capture.stream import LayerResult, Streamer, TokenBatch

FORMAT = "llm-atlas/work@1"


class WorkDir:
    """One run's folder. `definition` is everything that settles the result's bytes."""

    def __init__(self, folder: Path, definition: dict[str, Any], *, resume: bool) -> None:
        """Raises Refusal: a folder that holds a run without `resume`, a run that differs (the
        first differing field is named), a folder that cannot be made."""
        self.folder = folder
        run = {"format": FORMAT, **definition}
        path = folder / "run.json"
        try:
            folder.mkdir(exist_ok=True)
            if not path.exists():
                if any(folder.iterdir()):
                    raise Refusal(
                        where=folder.name,
                        what="work folder",
                        expected="an empty folder, or one with run.json",
                        found="other files",
                    )
                write_atomically(path, canonical_json(run))
                return
            data = path.read_bytes()
        except OSError as error:
            raise Refusal(where=folder.name, what="work folder", found=error.strerror) from error
        if not resume:
            raise Refusal(
                where=folder.name,
                what="work folder holds a run",
                expected="an empty folder, or --resume",
                found="run.json",
            )
        try:
            stored = parse_json(data)
        except ValueError as error:
            raise Refusal(where="run.json", what=f"not valid JSON: {error}") from error
        _require_same(stored, json.loads(canonical_json(run)), "")

    def whole_layers(self, layers: Sequence[int]) -> list[int]:
        """The leading layers of `layers` that are stored whole."""
        stored = []
        for layer in layers:
            if not self._layer_path(layer).exists():
                break
            stored.append(layer)
        return stored

    def save(self, result: LayerResult, previous: int | None) -> None:
        """Store one layer, then drop the hidden states of the `previous` one."""
        hidden = {f"{i:05d}": h.cpu().contiguous() for i, h in enumerate(result.hidden)}
        tensors: dict[str, Tensor] = {}
        described = []
        for i, observation in enumerate(result.observations):
            described.append(
                {
                    "mla": observation.mla.model_dump(mode="json"),
                    "element_bytes": observation.cache_element_bytes,
                    "rows": None if observation.router is None else len(observation.router),
                }
            )
            for row, routes in enumerate(observation.router or ()):
                key = f"{i:05d}.{row:05d}"
                tensors[f"{key}.ids"] = routes.expert_ids_TK.contiguous()
                tensors[f"{key}.weights"] = routes.weights_TK.contiguous()
                tensors[f"{key}.margin"] = routes.margin_T.contiguous()
        metadata = {
            "layer": str(result.layer),
            "hidden_sha256": json.dumps(result.hidden_sha256),
            "seconds": repr(result.seconds),
            "weight_bytes": str(result.weight_bytes),
            "observations": json.dumps(described),
        }
        try:
            write_atomically(self._hidden_path(result.layer), save(hidden))
            write_atomically(self._layer_path(result.layer), save(tensors, metadata))
            if previous is not None:
                self._hidden_path(previous).unlink(missing_ok=True)
        except OSError as error:
            raise Refusal(
                where=self.folder.name,
                what=f"layer {result.layer} cannot be stored",
                found=error.strerror,
            ) from error

    def load(self, layer: int) -> LayerResult:
        """A stored layer, without its hidden states. Raises Refusal for a broken file."""
        path = self._layer_path(layer)
        try:
            with safe_open(str(path), framework="pt") as file:
                about = file.metadata()
                observations = tuple(
                    LayerObservation(
                        mla=MlaShapes.model_validate_json(json.dumps(entry["mla"])),
                        cache_element_bytes=entry["element_bytes"],
                        router=None
                        if entry["rows"] is None
                        else tuple(
                            RouterObservation(
                                *(
                                    file.get_tensor(f"{i:05d}.{row:05d}.{part}").clone()
                                    for part in ("ids", "weights", "margin")
                                )
                            )
                            for row in range(entry["rows"])
                        ),
                    )
                    for i, entry in enumerate(json.loads(about["observations"]))
                )
                return LayerResult(
                    layer=int(about["layer"]),
                    hidden=(),
                    hidden_sha256=tuple(json.loads(about["hidden_sha256"])),
                    observations=observations,
                    seconds=float(about["seconds"]),
                    weight_bytes=int(about["weight_bytes"]),
                )
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise Refusal(where=path.name, what="stored layer is broken", found=error) from error

    def hidden(self, layer: int, device: torch.device) -> tuple[Tensor, ...]:
        """Hidden states after `layer`. Raises Refusal for a missing or broken file."""
        path = self._hidden_path(layer)
        try:
            with safe_open(str(path), framework="pt") as file:
                return tuple(file.get_tensor(k).clone().to(device) for k in sorted(file.keys()))
        except (SafetensorError, OSError) as error:
            raise Refusal(where=path.name, what="stored layer is broken", found=error) from error

    def _layer_path(self, layer: int) -> Path:
        return self.folder / f"layer-{layer:05d}.safetensors"

    def _hidden_path(self, layer: int) -> Path:
        return self.folder / f"hidden-{layer:05d}.safetensors"


def run_layers(
    streamer: Streamer,
    batches: Sequence[TokenBatch],
    layers: Sequence[int],
    work: WorkDir | None,
) -> Iterator[LayerResult]:
    """Every layer's result in order; with `work`, stored layers are read instead of run."""
    if work is None:
        yield from streamer.run(batches, layers, streamer.embed(batches))
        return
    stored = work.whole_layers(layers)
    for layer in stored:
        yield work.load(layer)
    rest = list(layers[len(stored) :])
    if not rest:
        return
    previous = stored[-1] if stored else None
    hidden = streamer.embed(batches) if previous is None else work.hidden(previous, streamer.device)
    for result in streamer.run(batches, rest, hidden):
        work.save(result, previous)
        previous = result.layer
        yield result


def _require_same(stored: Any, asked: Any, path: str) -> None:
    """Raise Refusal naming the first field in which two run definitions differ."""
    if isinstance(stored, dict) and isinstance(asked, dict):
        for key in sorted(set(stored) | set(asked)):
            _require_same(stored.get(key), asked.get(key), f"{path}.{key}" if path else key)
    elif isinstance(stored, list) and isinstance(asked, list) and len(stored) == len(asked):
        for i, (a, b) in enumerate(zip(stored, asked, strict=True)):
            _require_same(a, b, f"{path}[{i}]")
    elif stored != asked:
        raise Refusal(
            where="run.json",
            what=f"another run: {path}",
            expected=str(stored)[:80],
            found=str(asked)[:80],
        )
