"""`python -m capture import esft`: the ESFT record as a routing corpus of evidence `imported`.

Reads every layer file once, recomputes the publisher's own figures and prints how many agree.
Exit 1 if one does not: the file is written and says so.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from atlas.resample import REPLICATES, SEED, Resampling
from capture import output
from capture.errors import Refusal
from capture.imported import esft, provenance
from capture.imported.publisher import Verdict, check_record
from capture.imported.record import Record, read_record

HELP = "DeepSeek's published routing record of ESFT-vanilla-lite"
CONFIGS = "expert_configs"
SHOWN_DIFFERENCES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_record_arguments(parser, required=True)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--routes-output",
        type=Path,
        metavar="FILE",
        help="also write the ordered routes of a few short prompts per task",
    )


def add_record_arguments(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """The arguments that locate a record; `export routes` has them too."""
    parser.add_argument(
        "--scores-dir",
        type=Path,
        required=required,
        metavar="DIR",
        help="results/expert_scores of github.com/deepseek-ai/ESFT",
    )
    parser.add_argument(
        "--configs-dir",
        type=Path,
        metavar="DIR",
        help=f"results/{CONFIGS} (default: the folder of this name beside the scores, if any)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Import as the arguments say; the exit code. Raises Refusal, with nothing written."""
    outputs = [path for path in (args.output, args.routes_output) if path is not None]
    for path in outputs:
        output.require_writable(path)
    if len({path.resolve() for path in outputs}) != len(outputs):
        raise Refusal(where=args.output.name, what="outputs", expected="two files", found="one")
    record = read(args)
    verdict = check_record(record)
    pins = provenance.read_pins()
    imported = provenance.imported_record(record, verdict.checks, pins)
    with _bar("statistics", "layer", args.quiet) as bar:
        corpus = esft.routing_corpus(record, imported, Resampling(REPLICATES, SEED), bar)
    routes = None if args.routes_output is None else esft.ordered_routes(record, imported)
    digests = [(args.output, output.write(args.output, corpus))]
    if routes is not None:
        digests.append((args.routes_output, output.write(args.routes_output, routes)))
    _report(record, verdict)
    pinned = sum(file.pinned for file in imported.files)
    print(f"files of commit {pins.commit[:12]}: {pinned:,} / {len(imported.files):,}")
    if imported.commit == provenance.UNVERIFIED:
        print(
            "record: these are not the publisher's bytes; the file says so and names no commit",
            file=sys.stderr,
        )
    for path, digest in digests:
        print(f"{digest}  {path.name}")
    return 0 if verdict.agrees else 1


def read(args: argparse.Namespace) -> Record:
    """The record that the arguments locate, with a progress bar. Raises Refusal."""
    scores_dir: Path = args.scores_dir
    configs_dir: Path | None = args.configs_dir
    if configs_dir is None:
        beside = scores_dir.resolve().parent / CONFIGS
        configs_dir = beside if beside.is_dir() else None
    elif not configs_dir.is_dir():
        raise Refusal(
            where=configs_dir.name or str(configs_dir),
            what="configs folder",
            expected="a folder",
            found="none",
        )
    with _bar("layer files", "file", args.quiet) as bar:
        return read_record(scores_dir, configs_dir, bar)


def _report(record: Record, verdict: Verdict) -> None:
    tokens = sum(int(task.lengths_P.sum()) for task in record.tasks)
    prompts = sum(len(task.lengths_P) for task in record.tasks)
    selections = sum(task.expert_ids_LNK.size for task in record.tasks)
    print(
        f"{prompts:,} prompts, {tokens:,} tokens, {len(record.layers)} layers, "
        f"{selections:,} selections"
    )
    scores = [check for check in verdict.checks if check.name.startswith("summary.json")]
    lists = [check for check in verdict.checks if check not in scores]
    for name, checks in (("scores of summary.json", scores), ("lists of expert_configs", lists)):
        if checks:
            agreeing, total = sum(c.agreeing for c in checks), sum(c.total for c in checks)
            print(f"{name}: {agreeing:,} / {total:,}")
    if not record.lists_checked:
        print(f"lists of {CONFIGS}: not checked, the folder is not there")
    for difference in verdict.differences[:SHOWN_DIFFERENCES]:
        print(
            f"{difference.where}: recomputed {difference.recomputed}, found {difference.printed}",
            file=sys.stderr,
        )
    if len(verdict.differences) > SHOWN_DIFFERENCES:
        print(f"and {len(verdict.differences) - SHOWN_DIFFERENCES:,} more", file=sys.stderr)


class _bar:  # noqa: N801 — read as a function: `with _bar(...) as bar`
    """A progress bar that is told the total with every step; silent where stderr is no terminal."""

    def __init__(self, what: str, unit: str, quiet: bool) -> None:
        self._tqdm = tqdm(
            desc=what, unit=unit, file=sys.stderr, leave=False, disable=True if quiet else None
        )

    def __enter__(self) -> _bar:
        return self

    def __call__(self, total: int) -> None:
        self._tqdm.total = total
        self._tqdm.update()

    def __exit__(self, *_: object) -> None:
        self._tqdm.close()
