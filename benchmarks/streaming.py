"""Streaming at V2-Lite's real shapes: speed, memory, bytes read, growth. Random weights.

    python benchmarks/streaming.py             makes 7.6 GB of weights in a temporary folder
    python benchmarks/streaming.py --full DIR  also 14 and 27 layers; DIR is what
                                               make_checkpoint.py DIR --layers all wrote (31 GB),
                                               or is made so where it is new or empty
    python benchmarks/streaming.py --quick     the embedded checkpoint's shapes; writes nothing

Every measurement is a process of its own; the ways that are compared take turns, and medians
are shown. "Cold" means that the shards were dropped from the page cache as the clock started;
what the kernel then read from the disk is shown, so a run that was not cold shows. A host below
a virtual machine may still cache, and may take long to back memory that was free for a while:
how long is measured too, since a cold run fills as much memory as it reads.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from host import host, load_average
from make_checkpoint import V2_LITE, make_checkpoint, official_tokenizer
from measures import CORPUS_SHAPE, whole_folder
from unpinned import open_unpinned

from atlas.canonical import canonical_json, write_atomically
from capture.artifacts import INDEX
from capture.demo.seal import CHECKPOINT
from capture.errors import Refusal
from capture.prompts import PROMPTS

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PEER = HERE.parent / ".venv-peer" / "bin" / "python"
GB = 1e9
Row = dict[str, Any]


def measure(
    what: str, folder: Path, layers: int, *more: str, cold: Path | None = None, python: str = ""
) -> Row:
    """One measurement in a fresh process; `cold` is a folder to drop from the cache first."""
    if cold:
        more += ("--cold", str(cold))
    command = [python or sys.executable, str(HERE / "measures.py"), what, str(folder)]
    done = subprocess.run(
        [*command, "--layers", str(layers), *more], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{what}: failed\n{done.stderr[-2000:]}")
    row: Row = json.loads(done.stdout.splitlines()[-1])
    print(
        f"  {what} {' '.join(more)}: {row['seconds']:.2f} s",
        flush=True,
    )
    return row


def middle(rows: Sequence[Row]) -> Row:
    """Median seconds, and the largest memory and storage bytes, of repeated runs."""
    return {
        **rows[0],
        "seconds": median(r["seconds"] for r in rows),
        "least_seconds": min(r["seconds"] for r in rows),
        "most_seconds": max(r["seconds"] for r in rows),
        "all_seconds": [round(r["seconds"], 3) for r in rows],
        "peak_rss": max(r["peak_rss"] for r in rows),
        "storage_bytes": median(r["storage_bytes"] for r in rows),
    }


def token_ids(folder: Path) -> Row:
    """The trace's batch, for the whole models: right-padded with the end-of-sentence id."""
    session = open_unpinned(folder, layers=1)
    rows = [session.tokenizer.encode(p.text) for p in PROMPTS]
    width = max(map(len, rows))
    padded = [row + [session.pad_token_id] * (width - len(row)) for row in rows]
    return {"input_ids_BT": padded, "lengths_B": [len(row) for row in rows]}


def compare_trace(folder: Path, layers: int, rounds: int, peer: str | None) -> dict[str, Row]:
    """Trace, plain read and whole models, cold and warm, taking turns."""
    ways: dict[str, tuple[str, tuple[str, ...], bool]] = {
        "plain read": ("read", (), False),
        # a session takes seconds to open: the memory that is free then is what a trace finds
        "plain read after the trace's start": ("read", ("--session",), False),
        "trace": ("trace", (), False),
        "trace, no prefetch": ("trace", ("--no-prefetch",), False),
        "whole model, transformers 4.41.2": ("whole", (), True),
    }
    if peer:
        ways["whole model, native in transformers 5"] = ("native", (), True)
    rows: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(prefix="llm-atlas-whole-") as temporary:
        linked = Path(temporary)
        whole_folder(folder, layers, linked, token_ids(folder))
        for _ in range(rounds):
            for name, (what, more, is_whole) in ways.items():
                where = linked if is_whole else folder
                python = peer or "" if what == "native" else ""
                for cold in (folder, None):
                    row = measure(what, where, layers, *more, cold=cold, python=python)
                    rows.setdefault(f"{name}, {'cold' if cold else 'warm'}", []).append(row)
    found = {name: middle(group) for name, group in rows.items()}
    expected = found["trace, cold"]["final_hidden_sha256"]
    for name, group in rows.items():
        if name.startswith(("trace", "whole model, transformers 4")):
            assert all(r["final_hidden_sha256"] == expected for r in group), name
    return found


def compare_corpus(folder: Path, layers: int, rounds: int, batches: int) -> dict[str, Row]:
    rows: dict[str, list[Row]] = {}
    for _ in range(rounds):
        for name, what in (("layer-outer", "corpus"), ("batch-outer", "batch-outer")):
            rows.setdefault(name, []).append(
                measure(what, folder, layers, "--batches", str(batches), cold=folder)
            )
    # other batches beside it change nothing in a batch: both orders count the same selections
    counts = [r.pop("counts") for group in rows.values() for r in group]
    assert all(c == counts[0] for c in counts), "the two orders count other selections"
    return {name: {"layers": layers, **middle(group)} for name, group in rows.items()}


def growth(folder: Path, sizes: Sequence[tuple[int, int]], *, cold: bool) -> list[Row]:
    """Corpus runs at (layers, batches); 0 batches: the trace."""
    found = []
    for layers, batches in sizes:
        more = ("--batches", str(batches)) if batches else ()
        what = "corpus" if batches else "trace"
        row = measure(what, folder, layers, *more, cold=folder if cold else None)
        row.pop("counts", None)
        per_batch = CORPUS_SHAPE[0] * CORPUS_SHAPE[1]
        tokens = batches * per_batch if batches else row["shape"][0] * row["shape"][1]
        found.append({"layers": layers, "tokens": tokens, "cold": cold, **row})
    return found


def machine() -> Row:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        **host(),
        "memory_bytes": memory,
        "kernel": platform.release().split("-")[0],
        "torch": version("torch"),
        "transformers": version("transformers"),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "load_average_before": load_average(),
    }


def peer_python(given: str | None) -> str | None:
    return given or (str(PEER) if PEER.exists() else None)


def markdown(report: Row) -> str:
    where, trace = report["machine"], report["trace"]
    cold, read = trace["trace, cold"], trace["plain read, cold"]
    warm, whole = trace["trace, warm"], trace["whole model, transformers 4.41.2, warm"]
    largest, fresh = cold["largest_layer_bytes"], report["fresh_memory"]
    lines = [
        "# Streaming at real shapes",
        "",
        f"Made by `python benchmarks/streaming.py`. {report['about']} {where['cores']} cores "
        f"({where['cpu']}), {where['memory_bytes'] / GB:.0f} GB memory, Linux {where['kernel']}, "
        f"Python {where['python']}, torch {where['torch']}; compute threads: {where['threads']}. "
        f"Load average of the minute before: {where['load_average_before']}. Ways take turns, each "
        f"in a process of its own; medians of {report['rounds']}. The "
        "values of the weights are random.",
        "",
        f"To touch 1 GB of fresh memory took {fresh['seconds'] / fresh['bytes'] * GB:.2f} s "
        f"({fresh['least_seconds'] / fresh['bytes'] * GB:.2f}–"
        f"{fresh['most_seconds'] / fresh['bytes'] * GB:.2f}). A cold run fills as much memory as "
        "it reads, and whether that is fresh depends on what ran before it.",
        "",
        f"## Trace {cold['shape']}, layers 0–{report['layers'] - 1}, "
        f"{cold['weight_bytes'] / GB:.2f} GB of weights",
        "",
        "The final hidden states of the streamed and the whole model (4.41.2) are equal, bit for "
        "bit; every tensor was read exactly once.",
        "",
        "| way | s | all runs, s | GB/s | read from disk, GB | peak RSS, GB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, row in trace.items():
        spread = f"{row['least_seconds']:.2f}–{row['most_seconds']:.2f}"
        rate = cold["weight_bytes"] / GB / row["seconds"]
        lines.append(
            f"| {name} | {row['seconds']:.2f} | {spread} | {rate:.2f} "
            f"| {row['storage_bytes'] / GB:.2f} | {row['peak_rss'] / GB:.2f} |"
        )
    ceiling = {"trace": 2.5, "trace, no prefetch": 1.5}
    lines += [
        "",
        "| aim | found |",
        "|---|---|",
        f"| cold trace within 1.15 × the plain read | {cold['seconds'] / read['seconds']:.2f} × |",
        f"| warm trace under 1/3 of the whole model | {warm['seconds'] / whole['seconds']:.2f} |",
    ]
    for name, times in ceiling.items():
        peak = max(trace[f"{name}, {state}"]["peak_rss"] for state in ("cold", "warm"))
        lines.append(
            f"| {name}: peak RSS at most {times} × the largest layer ({largest / GB:.2f} GB) "
            f"| {peak / largest:.2f} × |"
        )
    if "corpus" in report:
        lines += corpus_lines(report)
    if "growth" in report:
        lines += growth_lines(report)
    return "\n".join(lines) + "\n"


def corpus_lines(report: Row) -> list[str]:
    rows = report["corpus"]
    peak, last = rows["layer-outer"]["peak_rss"] / GB, rows["layer-outer"]["layers"] - 1
    lines = [
        f"| corpus: peak RSS at most 3 GB | {peak:.2f} GB |",
        "",
        f"## Corpus {report['batches']} × [16,96], layers 0–{last}, cold start",
        "",
        "| order | s | weights bound, GB | read from disk, GB | peak RSS, GB |",
        "|---|---:|---:|---:|---:|",
    ]
    return lines + [
        f"| {name} | {row['seconds']:.1f} | {row['weight_bytes'] / GB:.2f} "
        f"| {row['storage_bytes'] / GB:.2f} | {row['peak_rss'] / GB:.2f} |"
        for name, row in rows.items()
    ]


def growth_lines(report: Row) -> list[str]:
    rows = sorted(report["growth"], key=lambda r: (r["layers"], r["tokens"], r["cold"]))
    lines = [
        "",
        "## Growth",
        "",
        "The trace where a row has its tokens, else batches [16,96]; one run each.",
        "",
        "| layers | tokens | start | s | weights bound, GB | read from disk, GB | peak RSS, GB |",
        "|---:|---:|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['layers']} | {row['tokens']:,} | {'cold' if row['cold'] else 'warm'} "
        f"| {row['seconds']:.1f} "
        f"| {row['weight_bytes'] / GB:.2f} | {row['storage_bytes'] / GB:.2f} "
        f"| {row['peak_rss'] / GB:.2f} |"
        for row in rows
    ]
    if rows[-1]["layers"] == report["layers"]:
        lines += ["", "All 27 layers (31 GB) were not measured here: `--full DIR` does it."]
    return lines


def run(folder: Path, args: argparse.Namespace, about: str) -> Iterator[Row]:
    """The report as it grows; what was measured is kept if the rest is interrupted."""
    layers, rounds, batches = (3, 1, 2) if args.quick else (7, args.rounds, 8)
    if args.threads:
        # inherited by every measurement
        os.environ["OMP_NUM_THREADS"] = str(args.threads)
    report: Row = {
        "machine": machine(),
        "about": about,
        "layers": layers,
        "rounds": rounds,
        "batches": batches,
    }
    report["fresh_memory"] = middle([measure("memory", folder, layers) for _ in range(rounds)])
    report["trace"] = compare_trace(folder, layers, rounds, peer_python(args.peer))
    yield report
    report["growth"] = growth(folder, [(layers, 0), (layers, 1)], cold=False)
    if args.full:
        sizes = [(layers, 0), (14, 0), (27, 0), (27, batches)]
        report["growth"] += growth(args.full, sizes, cold=True)
    yield report
    report["corpus"] = compare_corpus(folder, args.corpus_layers or layers, 1, batches)
    tokens = batches * CORPUS_SHAPE[0] * CORPUS_SHAPE[1]
    outer = report["corpus"]["layer-outer"]
    report["growth"].append({"layers": outer["layers"], "tokens": tokens, "cold": True, **outer})
    yield report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small shapes; writes nothing")
    parser.add_argument("--folder", type=Path, help="a folder that make_checkpoint wrote")
    parser.add_argument("--full", type=Path, metavar="DIR", help="all 27 layers; made if empty")
    parser.add_argument(
        "--peer", metavar="PYTHON", help=f"transformers 5 (default: {PEER.parts[-3]})"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--corpus-layers", type=int, metavar="N", help="default: 7")
    parser.add_argument("--threads", type=int, metavar="N", help="compute threads (default: all)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    args = parser.parse_args(arguments)
    temporary = None
    try:
        if args.folder:
            folder = args.folder
        else:
            temporary = Path(tempfile.mkdtemp(prefix="llm-atlas-bench-"))
            folder = temporary / "checkpoint"
            config = CHECKPOINT / "config.json" if args.quick else V2_LITE
            layers = 3 if args.quick else 7
            tokenizer = None if args.quick else official_tokenizer()
            make_checkpoint(folder, config, tokenizer=tokenizer, layers=layers)
        if args.full and not (args.full / INDEX).is_file():
            make_checkpoint(args.full, V2_LITE, tokenizer=official_tokenizer(), layers=None)
        shapes = "Shapes of the embedded checkpoint." if args.quick else "Shapes of V2-Lite."
        for report in run(folder, args, shapes):
            text = markdown(report)
            if not args.quick:
                args.output.mkdir(parents=True, exist_ok=True)
                write_atomically(args.output / "streaming.json", canonical_json(report))
                write_atomically(args.output / "streaming.md", text.encode())
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2
    finally:
        if temporary:
            shutil.rmtree(temporary)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
