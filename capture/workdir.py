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
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from atlas.canonical import canonical_json, parse_json, write_atomically
from atlas.contract.trace import MlaShapes
from capture.engine import Engine
from capture.errors import Refusal
from capture.observe import LayerObservation, RouterObservation
from capture.stream import LayerResult, TokenBatch, tensor_sha256

FORMAT = "llm-atlas/work@2"
OWN_PARTS = (".run.json.", ".layer-", ".hidden-")


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
            if resume:
                for part in filter(is_unfinished, sorted(folder.iterdir())):
                    part.unlink()
            if not path.exists():
                # a kill while run.json was written leaves its unfinished part and nothing else
                if any(not is_unfinished(p) for p in folder.iterdir()):
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
        metadata["seal"] = seal(tensors, metadata)
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
                about = dict(file.metadata() or {})
                names = file.keys()
                tensors = {name: file.get_tensor(name).clone() for name in names}
            found = about.pop("seal")
            if found != seal(tensors, about) or about["layer"] != str(layer):
                raise ValueError("content that does not have its own SHA-256")
            observations = tuple(
                LayerObservation(
                    mla=MlaShapes.model_validate_json(json.dumps(entry["mla"])),
                    cache_element_bytes=entry["element_bytes"],
                    router=None
                    if entry["rows"] is None
                    else tuple(
                        RouterObservation(
                            *(
                                tensors[f"{i:05d}.{row:05d}.{part}"]
                                for part in ("ids", "weights", "margin")
                            )
                        )
                        for row in range(entry["rows"])
                    ),
                )
                for i, entry in enumerate(json.loads(about["observations"]))
            )
            return LayerResult(
                layer=layer,
                hidden=(),
                hidden_sha256=tuple(json.loads(about["hidden_sha256"])),
                observations=observations,
                seconds=float(about["seconds"]),
                weight_bytes=int(about["weight_bytes"]),
            )
        except (SafetensorError, OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
            raise Refusal(where=path.name, what="stored layer is broken", found=error) from error

    def hidden(self, stored: LayerResult, device: torch.device) -> tuple[Tensor, ...]:
        """Hidden states after a stored layer. Raises Refusal for a missing or broken file, and
        for states whose hashes are not those that the layer had."""
        path = self._hidden_path(stored.layer)
        try:
            with safe_open(str(path), framework="pt") as file:
                states = tuple(file.get_tensor(k).clone() for k in sorted(file.keys()))
            hashes = tuple(map(tensor_sha256, states))
        except (SafetensorError, OSError, RuntimeError) as error:
            raise Refusal(where=path.name, what="stored layer is broken", found=error) from error
        if hashes != stored.hidden_sha256:
            raise Refusal(
                where=path.name,
                what="stored layer is broken",
                expected="hidden states with the hashes of their layer",
                found="others",
            )
        return tuple(state.to(device) for state in states)

    def _layer_path(self, layer: int) -> Path:
        return self.folder / f"layer-{layer:05d}.safetensors"

    def _hidden_path(self, layer: int) -> Path:
        return self.folder / f"hidden-{layer:05d}.safetensors"


def run_layers(
    streamer: Engine,
    batches: Sequence[TokenBatch],
    layers: Sequence[int],
    work: WorkDir | None,
) -> Iterator[LayerResult]:
    """Every layer's result in order; with `work`, stored layers are read instead of run."""
    if work is None:
        yield from streamer.run(batches, layers, streamer.embed(batches))
        return
    stored = work.whole_layers(layers)
    last = None
    for layer in stored:
        last = work.load(layer)
        yield last
    rest = list(layers[len(stored) :])
    if not rest:
        return
    previous = last.layer if last else None
    hidden = work.hidden(last, streamer.device) if last else streamer.embed(batches)
    for result in streamer.run(batches, rest, hidden):
        work.save(result, previous)
        previous = result.layer
        yield result


def seal(tensors: dict[str, Tensor], about: dict[str, str]) -> str:
    """SHA-256 over a stored layer's tensors, by name, and what is said about them."""
    digest = sha256(json.dumps(about, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"|{name}|{tensor.dtype}|{list(tensor.shape)}|".encode())
        digest.update(tensor_sha256(tensor).encode())
    return digest.hexdigest()


def is_unfinished(path: Path) -> bool:
    """Whether a kill left this file half-written; atlas.canonical names such files."""
    return path.name.startswith(OWN_PARTS) and path.suffix == ".part"


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
