"""One measurement in one process: prints a JSON line. Started by benchmarks/streaming.py.

    python benchmarks/measures.py trace|corpus|batch-outer|read|memory|whole FOLDER --layers N

Seconds run from an opened session (imports and small files done) to the last result. Peak RSS
is VmHWM of this process, so imports are in it. Storage bytes are what the kernel read from
the disk for this process (/proc/self/io).

Axes: B batch row, T position, D hidden.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

READ_PIECE = 1 << 20
FRESH_BYTES = 4 << 30
COLD: Path | None = None
"""A folder whose shards are dropped from the page cache when the clock starts, no earlier: the
host below a virtual machine may take freed memory back within seconds, and handing it out again
takes longer than the disk. Ways that start up slowly would pay for that, and others not."""
CORPUS_BATCHES, CORPUS_SHAPE = 8, (16, 96)


def peak_rss() -> int:
    """Bytes; VmHWM starts afresh with the program, unlike ru_maxrss, which outlives exec."""
    return _proc("status", "VmHWM") * 1024


def storage_bytes() -> int:
    return _proc("io", "read_bytes")


def _proc(file: str, field: str) -> int:
    for line in Path("/proc/self", file).read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise KeyError(field)


def timed(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    if COLD:
        evict(COLD)
    before, started = storage_bytes(), time.perf_counter()
    found = work()
    return {
        "seconds": time.perf_counter() - started,
        "storage_bytes": storage_bytes() - before,
        "peak_rss": peak_rss(),
        **found,
    }


def evict(folder: Path) -> None:
    """Drop the shards from the page cache; the next read comes from the disk."""
    for path in sorted(folder.glob("*.safetensors")):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def read(folder: Path, spans: list[tuple[str, int, int]]) -> dict[str, Any]:
    """Plain sequential read of (file, first, past the last) byte spans, into one small buffer."""
    buffer = memoryview(bytearray(READ_PIECE))
    total = 0
    for name, begin, end in spans:
        with (folder / name).open("rb", buffering=0) as file:
            file.seek(begin)
            while begin < end:
                count = file.readinto(buffer[: min(READ_PIECE, end - begin)])
                assert count, f"{name} ended early"
                begin, total = begin + count, total + count
    return {"weight_bytes": total}


def fresh_memory() -> dict[str, Any]:
    """Touch FRESH_BYTES of new memory: what a host below a virtual machine takes to back it."""
    memory = mmap.mmap(-1, FRESH_BYTES)
    for begin in range(0, FRESH_BYTES, mmap.PAGESIZE):
        memory[begin] = 1
    return {"bytes": FRESH_BYTES}


def layer_spans(folder: Path, layers: int) -> list[tuple[str, int, int]]:
    """Where the layers' bytes lie, neighbours joined, in file order."""
    from capture.artifacts import INDEX

    weight_map = json.loads((folder / INDEX).read_text())["weight_map"]
    wanted = tuple(f"model.layers.{n}." for n in range(layers))
    spans: list[tuple[str, int, int]] = []
    for shard in sorted({s for n, s in weight_map.items() if n.startswith(wanted)}):
        with (folder / shard).open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            entries = json.loads(file.read(length))
        own = [e["data_offsets"] for n, e in entries.items() if n.startswith(wanted)]
        for begin, end in sorted(own):
            begin, end = begin + 8 + length, end + 8 + length
            if spans and spans[-1][0] == shard and spans[-1][2] == begin:
                spans[-1] = (shard, spans[-1][1], end)
            else:
                spans.append((shard, begin, end))
    return spans


def peak_on_device(device: Any) -> dict[str, Any]:
    import torch

    if device.type != "cuda":
        return {}
    return {
        "device": torch.cuda.get_device_name(device),
        "peak_device_memory": torch.cuda.max_memory_allocated(device),
    }


def trace(folder: Path, layers: int, prefetch: bool, device: str) -> dict[str, Any]:
    from unpinned import open_unpinned

    import capture.trace
    from atlas.canonical import canonical_json
    from atlas.contract.trace import Timing
    from capture.stream import Streamer

    session = open_unpinned(folder, layers=layers, device=device)
    streamers: list[Any] = []

    class Counted(Streamer):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, prefetch=prefetch)
            streamers.append(self)

    capture.trace.Streamer = Counted  # type: ignore[misc]

    def work() -> dict[str, Any]:
        result = capture.trace.trace(session, captured_at=None)
        untimed = result.model_copy(update={"timing": Timing(layer_seconds=(), total_seconds=0.0)})
        return {
            "digest": sha256(canonical_json(untimed)).hexdigest(),
            "final_hidden_sha256": result.final_hidden_sha256,
            "shape": list(result.batch.shape),
            "layer_seconds": list(result.timing.layer_seconds),
        }

    found = timed(work)
    return {
        **found,
        **weights_read_once(streamers, layers),
        **peak_on_device(session.device),
    }


def weights_read_once(streamers: list[Any], layers: int) -> dict[str, Any]:
    """Bytes of the layers' tensors, each of which must have been read exactly once."""
    from math import prod

    from capture.tensors import layer_shapes

    (streamer,) = streamers
    total = largest = 0
    for number in range(layers):
        shapes = layer_shapes(streamer.artifact.architecture, number)
        for name in shapes:
            assert streamer.reads[name] == 1, f"{name}: read {streamer.reads[name]} times"
        size = sum(2 * prod(shape) for shape in shapes.values())
        total, largest = total + size, max(largest, size)
    return {"weight_bytes": total, "largest_layer_bytes": largest}


def corpus(
    folder: Path, layers: int, batches: int, device: str, *, batch_outer: bool
) -> dict[str, Any]:
    """Counts of `batches` batches [16,96] of random ids in every MoE layer."""
    import torch
    from unpinned import open_unpinned

    from capture.stream import Streamer, TokenBatch

    session = open_unpinned(folder, layers=layers, device=device)
    architecture = session.artifact.architecture
    generator = torch.Generator().manual_seed(1)
    rows, width = CORPUS_SHAPE
    fixed = [
        TokenBatch(
            torch.randint(architecture.vocab_size, CORPUS_SHAPE, generator=generator),
            (width,) * rows,
        )
        for _ in range(batches)
    ]

    def work() -> dict[str, Any]:
        streamer = Streamer(session.artifact, session.code, session.device)
        hashes = sha256()
        counts = torch.zeros(layers, architecture.n_routed_experts, dtype=torch.int64)
        total = 0
        for group in [[b] for b in fixed] if batch_outer else [fixed]:
            for result in streamer.run(group, range(layers), streamer.embed(group)):
                total += result.weight_bytes
                hashes.update("".join(result.hidden_sha256).encode())
                for seen in result.observations:
                    for routes in seen.router or ():
                        ids = routes.expert_ids_TK.flatten()
                        counts[result.layer] += torch.bincount(ids, minlength=counts.shape[1])
        return {
            "weight_bytes": total,
            "selections": int(counts.sum()),
            "counts": counts.tolist(),
            "digest": hashes.hexdigest(),
        }

    return {**timed(work), **peak_on_device(session.device)}


def whole(folder: Path, layers: int, native: bool) -> dict[str, Any]:
    """The whole model in transformers: from_pretrained and one forward over `ids.json`.

    Needs nothing of this project with `native`, so that it runs in the peer environment.
    """
    import torch
    import transformers

    ids = json.loads((folder / "ids.json").read_text())
    input_ids_BT = torch.tensor(ids["input_ids_BT"])
    lengths_B = torch.tensor(ids["lengths_B"])
    mask_BT = (torch.arange(input_ids_BT.shape[1]) < lengths_B[:, None]).long()
    if native:
        model_class: Any = transformers.DeepseekV2Model
        options: dict[str, Any] = {"dtype": torch.bfloat16, "attn_implementation": "eager"}
    else:
        from capture.official import load_official_code
        from capture.pins import model_called

        code = load_official_code(folder, model_called("demo").hashes)
        model_class = sys.modules[code.causal_lm_class.__module__].DeepseekV2Model
        options = {"torch_dtype": torch.bfloat16}

    def work() -> dict[str, Any]:
        model = model_class.from_pretrained(folder, **options).eval()
        with torch.inference_mode():
            if native:
                out = model(input_ids_BT, mask_BT, output_hidden_states=True, use_cache=False)
            else:
                out = model(input_ids_BT, mask_BT)
        # the state after the last layer, before the final norm, is there in ours only
        last = out.hidden_states[-1]
        raw = last.contiguous().view(torch.uint8).numpy().tobytes()
        return {
            "final_hidden_sha256": sha256(raw).hexdigest(),
            "transformers": transformers.__version__,
            "layers": len(model.layers),
        }

    return timed(work)


def whole_folder(folder: Path, layers: int, target: Path, ids: dict[str, Any]) -> None:
    """Links that make a whole model of the first layers, as from_pretrained wants it."""
    from capture.artifacts import INDEX

    config = json.loads((folder / "config.json").read_text())
    config |= {"num_hidden_layers": layers, "model_type": "deepseek_v2"}
    index = json.loads((folder / INDEX).read_text())
    wanted = ("model.embed_tokens.", *(f"model.layers.{n}." for n in range(layers)))
    index["weight_map"] = {n: s for n, s in index["weight_map"].items() if n.startswith(wanted)}
    (target / "config.json").write_text(json.dumps(config))
    (target / INDEX).write_text(json.dumps(index))
    (target / "ids.json").write_text(json.dumps(ids))
    for path in [*folder.glob("*.py"), *folder.glob("*.safetensors")]:
        (target / path.name).symlink_to(path.resolve())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "what", choices=("trace", "corpus", "batch-outer", "read", "memory", "whole", "native")
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--batches", type=int, default=CORPUS_BATCHES)
    parser.add_argument("--no-prefetch", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--session", action="store_true", help="read: open a session before")
    parser.add_argument("--cold", type=Path, metavar="DIR", help="drop DIR's shards first")
    args = parser.parse_args()
    global COLD
    COLD = args.cold
    if args.what == "trace":
        found = trace(args.folder, args.layers, not args.no_prefetch, args.device)
    elif args.what in ("corpus", "batch-outer"):
        outer = args.what == "batch-outer"
        found = corpus(args.folder, args.layers, args.batches, args.device, batch_outer=outer)
    elif args.what == "read":
        if args.session:
            from unpinned import open_unpinned

            open_unpinned(args.folder, layers=args.layers)
        spans = layer_spans(args.folder, args.layers)
        found = timed(lambda: read(args.folder, spans))
    elif args.what == "memory":
        found = timed(fresh_memory)
    else:
        found = whole(args.folder, args.layers, args.what == "native")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
