"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from capture.errors import Refusal

if TYPE_CHECKING:
    from capture.session import Session


def add_artifact_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--artifact-dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="Hugging Face snapshot folder: config, code, tokenizer, index and any of the shards",
    )
    parser.add_argument(
        "--model", metavar="SLUG", help="which pinned model (default: known by config.json's hash)"
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    add_artifact_arguments(parser)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--layers",
        type=int,
        metavar="N",
        help="run at most N layers (default: all that are complete in the shards at hand)",
    )
    parser.add_argument(
        "--captured-at",
        metavar="ISO",
        help="time to record, as 2026-07-29T07:45:00+00:00 (default: none; no clock is read)",
    )
    parser.add_argument(
        "--skip-shard-hashes",
        action="store_true",
        help="do not hash the shards (minutes for 31 GB); the file then says so",
    )
    parser.add_argument(
        "--work-dir",
        type=Path,
        metavar="DIR",
        help="keep each whole layer there, so that a killed run can go on",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from the last whole layer in --work-dir"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bars")


def session_of(args: argparse.Namespace) -> Session:
    """The session that the run arguments ask for. Raises Refusal."""
    if args.resume and args.work_dir is None:
        raise Refusal(where="--resume", what="nothing to resume from", expected="--work-dir DIR")
    # torch is imported only by commands that run layers, and only once they do
    from capture.session import open_session

    return open_session(
        args.artifact_dir,
        device=args.device,
        model=args.model,
        layers=args.layers,
        hash_shards=not args.skip_shard_hashes,
        quiet=args.quiet,
    )
