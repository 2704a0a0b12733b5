"""The whole capture on the embedded checkpoint, on the CPU: no download, no GPU.

Runs, each in a process of its own, with the first shard only, so that the stop line is real:
  trace twice and compare: "31 / 31 exact"
  corpus over the embedded probe texts twice: the same bytes
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from capture import output
from capture.demo.layout import SHARDS
from capture.demo.seal import CHECKPOINT
from capture.errors import Refusal

TRACE, TRACE_AGAIN = "demo-trace.json", "demo-trace-repro.json"
COMPARISON = "demo-trace-comparison.json"
CORPUS, CORPUS_AGAIN = "demo-routing-corpus.json", "demo-routing-corpus-repro.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output-dir",
        type=Path,
        default=Path("build/demo"),
        metavar="DIR",
        help="where the files go (default: build/demo)",
    )
    parser.add_argument(
        "--captured-at", metavar="ISO", help="time to record (default: none; no clock is read)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bars")


def run(args: argparse.Namespace) -> int:
    output.captured_at(args.captured_at)
    try:
        args.output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(
            where=args.output_dir.name, what="output folder", found=error.strerror
        ) from error
    folder = args.output_dir
    with tempfile.TemporaryDirectory(prefix="llm-atlas-demo-") as temporary:
        artifact = first_shard_only(Path(temporary))
        common = ["--artifact-dir", str(artifact)]
        common += ["--captured-at", args.captured_at] if args.captured_at else []
        common += ["--quiet"] if args.quiet else []
        for title, name in (("Trace", TRACE), ("Trace again", TRACE_AGAIN)):
            step(title, ["trace", *common, "--output", str(folder / name)])
        pair = ["--first", str(folder / TRACE), "--second", str(folder / TRACE_AGAIN)]
        step("Compare", ["compare", *pair, "--output", str(folder / COMPARISON)])
        for title, name in (("Corpus", CORPUS), ("Corpus again", CORPUS_AGAIN)):
            step(title, ["corpus", "--probes", *common, "--output", str(folder / name)])
    digests = [sha256((folder / n).read_bytes()).hexdigest() for n in (CORPUS, CORPUS_AGAIN)]
    same = digests[0] == digests[1]
    print(f"\n{'same bytes' if same else 'DIFFERENT bytes'}: {' '.join(digests)}")
    return 0 if same else 1


def first_shard_only(folder: Path) -> Path:
    """Links to the embedded checkpoint's files, all but the last shard."""
    for file in sorted(CHECKPOINT.iterdir()):
        if file.is_file() and file.name != SHARDS[-1]:
            (folder / file.name).symlink_to(file.resolve())
    return folder


def step(title: str, argv: list[str]) -> None:
    """One command in a process of its own. Raises Refusal if it fails."""
    print(f"\n== {title}: python -m capture {argv[0]}", flush=True)
    code = subprocess.run([sys.executable, "-m", "capture", *argv], check=False).returncode
    if code:
        raise Refusal(where=f"capture {argv[0]}", what="failed", expected="exit 0", found=code)
