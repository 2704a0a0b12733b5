"""`python -m capture export routes`: every ordered route as uint16 [tokens, layers, k].

From a published record (--scores-dir) or from a trace of this project (--trace). Writes
routes.npz and manifest.json into --output-dir; capture/routes.py describes both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from atlas.contract import parse
from atlas.contract.trace import Trace
from capture.errors import Refusal
from capture.imported import command, esft, provenance
from capture.imported.publisher import check_record
from capture.routes import ARCHIVE, MANIFEST, RoutedSequences, export, from_trace

HELP = "every ordered route, for studies of expert caches"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    command.add_record_arguments(parser, required=False)
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="a trace written by this project, instead"
    )
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--with-weights", action="store_true", help="gate weights too, as float32 in the same order"
    )


def run(args: argparse.Namespace) -> int:
    """Export as the arguments say; the exit code. Raises Refusal, with nothing written."""
    if (args.scores_dir is None) == (args.trace is None):
        raise Refusal(
            where="export routes",
            what="source",
            expected="either --scores-dir or --trace",
            found="neither" if args.trace is None else "both",
        )
    if args.output_dir.exists() and not args.output_dir.is_dir():
        raise Refusal(
            where=args.output_dir.name, what="output", expected="a folder", found="a file"
        )
    sequences = _of_record(args) if args.trace is None else _of_trace(args.trace)
    manifest = export(sequences, args.output_dir, args.with_weights)
    shape = "\u00d7".join(f"{size:,}" for size in sequences.expert_ids_NLK.shape)
    print(f"{len(manifest.prompts):,} sequences, expert_ids_NLK uint16 {shape}")
    print(f"{manifest.archive.sha256}  {ARCHIVE}")
    print(f"{MANIFEST} written")
    return 0


def _of_record(args: argparse.Namespace) -> RoutedSequences:
    record = command.read(args)
    checks = check_record(record).checks
    imported = provenance.imported_record(record, checks, provenance.read_pins())
    return esft.sequences(record, imported)


def _of_trace(path: Path) -> RoutedSequences:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refusal(
            where=path.name, what="file cannot be read", expected="a trace", found=error.strerror
        ) from error
    dataset = parse(data, path.name)
    if not isinstance(dataset, Trace):
        raise Refusal(
            where=path.name, what="schema", expected="llm-atlas/trace@1", found=dataset.schema_
        )
    return from_trace(dataset)
