"""Trace and corpus on a GPU, twice each, at V2-Lite's shapes: do the runs agree, and how fast?

    python benchmarks/gpu.py                        one CUDA GPU, 8 GB of disk, under ten minutes
    python benchmarks/gpu.py --device cpu --quick   small shapes on the CPU, to test this script

Makes the checkpoint where it runs. Writes benchmarks/results/gpu.json and gpu.md, with the
device's name; exit 1 if two runs differ in a byte. It has not been run on a GPU yet: the file
is not there until it has.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from make_checkpoint import V2_LITE, make_checkpoint, official_tokenizer
from streaming import GB, RESULTS, machine, measure

from atlas.canonical import canonical_json, write_atomically
from capture.demo.seal import CHECKPOINT
from capture.errors import Refusal

RUNS = 2


def run(folder: Path, device: str, layers: int, batches: int) -> dict[str, Any]:
    """Each experiment RUNS times, each in a process of its own."""
    found: dict[str, Any] = {}
    for what in ("trace", "corpus"):
        more = ("--device", device)
        more += ("--batches", str(batches)) if what == "corpus" else ()
        rows = [measure(what, folder, layers, *more) for _ in range(RUNS)]
        for row in rows:
            row.pop("counts", None)
        found[what] = {"runs": rows, "same": len({row["digest"] for row in rows}) == 1}
    return found


def markdown(report: dict[str, Any]) -> str:
    host = report["machine"]
    lines = [
        f"# On {report['device']}",
        "",
        f"Made by `python benchmarks/gpu.py`. {host['cores']} cores ({host['cpu']}), torch "
        f"{host['torch']}. Random weights at the shapes of {report['shapes']}, "
        f"{report['layers']} layers; the corpus is {report['batches']} × [16,96]. Seconds without "
        "imports.",
        "",
        "| run | s | GB/s of weights | peak device memory, GB | peak RSS, GB | same bytes |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for what, group in report["experiments"].items():
        for number, row in enumerate(group["runs"], start=1):
            memory = row.get("peak_device_memory")
            lines.append(
                f"| {what} {number} | {row['seconds']:.2f} "
                f"| {row['weight_bytes'] / GB / row['seconds']:.2f} "
                f"| {'–' if memory is None else f'{memory / GB:.2f}'} "
                f"| {row['peak_rss'] / GB:.2f} | {'yes' if group['same'] else 'NO'} |"
            )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="small shapes; writes nothing")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    args = parser.parse_args(arguments)
    layers, batches = (3, 2) if args.quick else (7, 8)
    import torch

    if args.device == "cuda" and not torch.cuda.is_available():
        print("--device: no such device: expected a CUDA GPU, found none", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="llm-atlas-gpu-") as temporary:
        folder = Path(temporary) / "checkpoint"
        config = CHECKPOINT / "config.json" if args.quick else V2_LITE
        tokenizer = None if args.quick else official_tokenizer()
        try:
            make_checkpoint(folder, config, tokenizer=tokenizer, layers=layers)
        except Refusal as refusal:
            print(refusal, file=sys.stderr)
            return 2
        report = {
            "machine": machine(),
            "shapes": "the embedded checkpoint" if args.quick else "V2-Lite",
            "layers": layers,
            "batches": batches,
            "experiments": run(folder, args.device, layers, batches),
        }
    first = report["experiments"]["trace"]["runs"][0]
    report["device"] = first.get("device", report["machine"]["cpu"])
    text = markdown(report)
    print(text, end="")
    if not args.quick:
        args.output.mkdir(parents=True, exist_ok=True)
        write_atomically(args.output / "gpu.json", canonical_json(report))
        write_atomically(args.output / "gpu.md", text.encode())
    return 0 if all(group["same"] for group in report["experiments"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
