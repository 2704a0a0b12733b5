"""An artifact folder: its files and their hashes, the shard index, the stop line.

An artifact is a Hugging Face snapshot folder (links are fine). Everything here works
without torch, and up to the stop line with config and index alone.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from atlas.canonical import parse_json
from atlas.contract.identity import Architecture, ArtifactFile, StopLine
from capture.errors import Refusal
from capture.pins import KnownModel, model_called, model_of_config
from capture.tensors import EMBEDDING, checkpoint_shapes, layer_shapes

INDEX = "model.safetensors.index.json"
CHUNK = 1 << 22
MAX_JSON_BYTES = 64 << 20
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Artifact:
    """One artifact folder whose small files were read and whose index was checked.

    `shard_of` maps every tensor to its shard's file name, as the index says; `present`
    are the shards at hand.
    """

    folder: Path
    model: KnownModel
    architecture: Architecture
    config: dict[str, Any]
    shard_of: dict[str, str]
    present: tuple[str, ...]

    @property
    def shards(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.shard_of.values())))

    def shards_of_layer(self, layer: int) -> tuple[str, ...]:
        """Files that hold this layer's tensors. Raises Refusal if the index lacks one."""
        names = layer_shapes(self.architecture, layer)
        missing = [n for n in names if n not in self.shard_of]
        if missing:
            raise Refusal(
                where=INDEX,
                what=f"layer {layer} lacks a tensor",
                expected=missing[0],
                found=f"{len(names) - len(missing)} of its {len(names)} tensors",
            )
        return tuple(sorted({self.shard_of[n] for n in names}))

    def stop_line(self, limit: int | None = None) -> StopLine:
        """Layers that run with the shards at hand; `limit` asks for fewer layers.

        A layer runs only if every tensor of it is at hand. Raises Refusal if the index lacks
        a tensor, or if not even the embedding and layer 0 are there.
        """
        count = self.architecture.num_hidden_layers
        for layer in range(count):
            missing = [s for s in self.shards_of_layer(layer) if s not in self.present]
            if layer == 0:
                missing += [
                    s for s in [self._shard(EMBEDDING)] if s not in self.present + tuple(missing)
                ]
            if missing and layer == 0:
                raise Refusal(
                    where=missing[0],
                    what="file missing, no layer can run",
                    expected="the shard of the embedding and of layer 0",
                    found=", ".join(self.present) or "no shard",
                )
            if missing or layer == limit:
                return StopLine(
                    executed_layers=tuple(range(layer)),
                    reason="tensors_missing" if missing else "limit_asked_for",
                    first_missing_layer=layer,
                    missing_files=tuple(missing),
                )
        return StopLine(
            executed_layers=tuple(range(count)),
            reason="complete",
            first_missing_layer=None,
            missing_files=(),
        )

    def _shard(self, tensor: str) -> str:
        if tensor not in self.shard_of:
            raise Refusal(where=INDEX, what="tensor missing", expected=tensor)
        return self.shard_of[tensor]


def open_artifact(folder: Path, slug: str | None = None) -> Artifact:
    """Read config and index of `folder`, and find out which known model it is.

    `slug` names the model where the config's hash does not. Raises Refusal: missing file,
    unknown model, config without an MoE, index that is not one.
    """
    config_bytes, config = read_config(folder)
    model = model_called(slug) if slug else model_of_config(sha256(config_bytes).hexdigest())
    architecture = read_architecture(config)
    shard_of = read_index(read_small(folder / INDEX), checkpoint_shapes(architecture))
    present = tuple(s for s in sorted(set(shard_of.values())) if (folder / s).is_file())
    return Artifact(folder, model, architecture, config, shard_of, present)


def read_config(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """config.json of an artifact folder, as bytes and parsed. Raises Refusal."""
    if not folder.is_dir():
        raise Refusal(where=folder.name, what="artifact folder missing", expected="a folder")
    data = read_small(folder / "config.json")
    return data, _json_object(data, "config.json")


def read_small(path: Path) -> bytes:
    """Bytes of a small file. Raises Refusal if it is missing, unreadable or far too large."""
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise Refusal(
                where=path.name,
                what="file too large",
                expected=f"at most {MAX_JSON_BYTES} bytes",
                found=path.stat().st_size,
            )
        return path.read_bytes()
    except FileNotFoundError as error:
        raise Refusal(where=path.name, what="file missing", expected="a file") from error
    except OSError as error:
        raise Refusal(where=path.name, what="file cannot be read", found=error.strerror) from error


def read_architecture(config: dict[str, Any]) -> Architecture:
    """Architecture fields of a config.json. Raises Refusal, for a config without an MoE too."""
    if not config.get("n_routed_experts"):
        raise Refusal(
            where="config.json",
            what="model without a router",
            expected="n_routed_experts above 0",
            found=config.get("n_routed_experts"),
        )
    fields = {name: config[name] for name in Architecture.model_fields if name in config}
    # config.json may spell a float without a point, and no shared expert as null
    for name in ("routed_scaling_factor", "rope_theta"):
        if type(fields.get(name)) is int:
            fields[name] = float(fields[name])
    fields["n_shared_experts"] = fields.get("n_shared_experts") or 0
    try:
        architecture = Architecture(**fields)
        routing = architecture.routing
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Refusal(
            where="config.json",
            what=".".join(str(part) for part in first["loc"]) or "architecture",
            expected=first["msg"],
            found=str(first["input"])[:80],
        ) from error
    expected = ("softmax", "greedy", "bfloat16")
    found = (architecture.scoring_func, architecture.topk_method, architecture.torch_dtype)
    if found != expected:
        raise Refusal(where="config.json", what="router or dtype", expected=expected, found=found)
    del routing
    return architecture


def token_id(config: dict[str, Any], field: str, vocab_size: int) -> int:
    """A special token's id in config.json. Raises Refusal unless it is one of the vocabulary."""
    value = config.get(field)
    if type(value) is not int or not 0 <= value < vocab_size:
        raise Refusal(
            where="config.json",
            what=field,
            expected=f"an id from 0 to {vocab_size - 1}",
            found=repr(value)[:80],
        )
    return value


def read_index(data: bytes, shapes: dict[str, tuple[int, ...]]) -> dict[str, str]:
    """Tensor -> shard of an index file. Raises Refusal: not an index, a tensor twice, a tensor
    that the architecture does not have, a shard name that would leave the folder."""
    index = _json_object(data, INDEX)
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise Refusal(where=INDEX, what="weight_map", expected="an object of tensor names")
    for tensor, shard in weight_map.items():
        plain = (
            isinstance(shard, str) and shard == Path(shard).name and shard not in ("", "..", ".")
        )
        if not plain or "\\" in shard or "\0" in shard or not shard.endswith(".safetensors"):
            raise Refusal(
                where=INDEX,
                what=f"shard of {tensor[:80]}",
                expected="a .safetensors file name inside the folder",
                found=repr(shard)[:80],
            )
        if tensor not in shapes:
            raise Refusal(
                where=INDEX,
                what="tensor that the architecture does not have",
                expected="a tensor of config.json's architecture",
                found=tensor[:120],
            )
    return weight_map


def _json_object(data: bytes, name: str) -> dict[str, Any]:
    try:
        value = parse_json(data)
    except ValueError as error:
        raise Refusal(where=name, what=f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise Refusal(where=name, what="JSON", expected="an object", found=type(value).__name__)
    return value


def hash_file(path: Path, progress: Progress | None = None) -> str:
    """SHA-256 of a file, streamed; `progress` is called with the bytes just read."""
    digest = sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                if progress is not None:
                    progress(len(chunk))
    except OSError as error:
        raise Refusal(where=path.name, what="file cannot be read", found=error.strerror) from error
    return digest.hexdigest()


@dataclass(frozen=True)
class ShardHeader:
    """Header of a safetensors file: tensor -> (dtype, shape), and where its data starts."""

    tensors: dict[str, tuple[str, tuple[int, ...]]]


def read_shard_header(path: Path) -> ShardHeader:
    """Header of one shard, checked against the file's size.

    Format: 8 bytes little-endian header length, JSON header, tensor bytes (safetensors
    README, "Format"). Raises Refusal for a truncated or broken file.
    """
    name = path.name
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= length <= min(MAX_JSON_BYTES, size - 8):
                raise Refusal(
                    where=name,
                    what="shard header",
                    expected=f"a length up to {max(size - 8, 0)} bytes",
                    found=length,
                )
            header = _json_object(file.read(length), name)
    except OSError as error:
        raise Refusal(where=name, what="file cannot be read", found=error.strerror) from error
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    end = 0
    for tensor, entry in header.items():
        if tensor == "__metadata__":
            continue
        try:
            dtype, shape = str(entry["dtype"]), tuple(int(n) for n in entry["shape"])
            begin, stop = (int(n) for n in entry["data_offsets"])
        except (KeyError, TypeError, ValueError) as error:
            raise Refusal(
                where=name,
                what=f"header of {tensor[:80]}",
                expected="dtype, shape and data_offsets",
                found=json.dumps(entry)[:80],
            ) from error
        if not 0 <= begin <= stop:
            raise Refusal(where=name, what=f"data_offsets of {tensor[:80]}", found=[begin, stop])
        tensors[tensor] = (dtype, shape)
        end = max(end, stop)
    if size != 8 + length + end:
        raise Refusal(
            where=name,
            what="shard size",
            expected=f"{8 + length + end} bytes",
            found=f"{size} bytes",
        )
    return ShardHeader(tensors)


def check_shards(artifact: Artifact, layers: tuple[int, ...]) -> tuple[str, ...]:
    """Names of the shards that these layers and the embedding need, headers checked.

    Raises Refusal: a tensor that the index places in a shard and the shard lacks, another
    shape than the architecture's, another dtype than bfloat16.
    """
    needed = {EMBEDDING: checkpoint_shapes(artifact.architecture)[EMBEDDING]}
    for layer in layers:
        needed.update(layer_shapes(artifact.architecture, layer))
    headers: dict[str, ShardHeader] = {}
    for tensor, shape in needed.items():
        shard = artifact.shard_of[tensor]
        if shard not in headers:
            headers[shard] = read_shard_header(artifact.folder / shard)
        found = headers[shard].tensors.get(tensor)
        if found != ("BF16", shape):
            raise Refusal(
                where=shard,
                what=tensor,
                expected=f"BF16 {list(shape)}",
                found="no such tensor" if found is None else f"{found[0]} {list(found[1])}",
            )
    return tuple(sorted(headers))


def describe_pinned(
    folder: Path,
    model: KnownModel,
    names: tuple[str, ...],
    *,
    hash_shards: bool,
    progress: Progress | None = None,
) -> tuple[ArtifactFile, ...]:
    """Bytes and SHA-256 of the named files, compared with their pins.

    Raises Refusal for the first that is missing or differs from its pin. A file without a
    pin is recorded as not pinned; with `hash_shards` False a shard's hash is null.
    """
    files = []
    for name in names:
        path, pin = folder / name, model.pin(name)
        role = pin.role if pin else "shard"
        if not path.is_file():
            raise Refusal(where=name, what="file missing", expected=pin.sha256 if pin else "a file")
        size = path.stat().st_size
        if pin and pin.bytes != size:
            raise Refusal(
                where=name,
                what="size differs",
                expected=f"{pin.bytes} bytes",
                found=f"{size} bytes",
            )
        digest = hash_file(path, progress) if hash_shards or role != "shard" else None
        if pin and digest is not None and digest != pin.sha256:
            raise Refusal(
                where=name,
                what="SHA-256 differs from the pin",
                expected=pin.sha256,
                found=digest,
            )
        files.append(
            ArtifactFile(
                name=name, role=role, bytes=size, sha256=digest, pinned=bool(pin and digest)
            )
        )
    return tuple(files)
