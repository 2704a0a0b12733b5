"""A regenerated file against the published figures. Exit 0 if none differs, 1 if any does.

Reads a trace, a routing corpus or an official file, and compares each printed figure with the
file's value rounded to the printed decimals. A figure that the file does not hold is listed
with the reason. Some figures depend on inputs that were not published (the trace prompts'
texts, how a source_id is spelled, the bootstrap's random stream) and may rightly differ; they
are compared all the same, and the table names the input.

  python -m capture verify --data src/data/deepseek-v2-lite-routing-corpus.json \\
    --against src/data/deepseek-v2-lite-published.json --output report.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from atlas.contract import Official, Published, RoutingCorpus, Trace, parse
from atlas.contract.verification import Verification, VerifiedFigure
from capture import output
from capture.artifacts import read_small
from capture.errors import Refusal
from capture.tables import table
from capture.verify import verify


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="FILE")
    parser.add_argument("--against", type=Path, required=True, metavar="FILE")
    parser.add_argument("--output", type=Path, metavar="REPORT", help="JSON report")
    parser.add_argument(
        "--differing", action="store_true", help="list only the figures that differ"
    )


def run(args: argparse.Namespace) -> int:
    if args.output is not None:
        output.require_writable(args.output)
    data, against = read_small(args.data), read_small(args.against)
    dataset, published = parse(data, args.data.name), parse(against, args.against.name)
    if not isinstance(published, Published):
        raise Refusal(
            where=args.against.name,
            what="schema",
            expected="llm-atlas/published@1",
            found=published.schema_,
        )
    if not isinstance(dataset, Trace | RoutingCorpus | Official):
        raise Refusal(
            where=args.data.name,
            what="schema",
            expected="llm-atlas/trace@1, llm-atlas/routing-corpus@1 or llm-atlas/official@1",
            found=dataset.schema_,
        )
    report = verify(dataset, data, args.data.name, published, against, args.against.name)
    if args.output is not None:
        output.write(args.output, report)
    print(figures_table(report, differing_only=args.differing))
    print(summary(report))
    return 1 if report.counts.differs else 0


def figures_table(report: Verification, *, differing_only: bool = False) -> str:
    """One row per printed figure or interval end, in the documents' order."""
    rows = [
        (
            _name(figure),
            _short(figure.printed),
            _short(figure.regenerated or "–"),
            figure.outcome,
            _why(figure),
        )
        for figure in report.figures
        if not differing_only or figure.outcome == "differs"
    ]
    return table(("figure", "printed", "regenerated", "outcome", "why"), rows)


def summary(report: Verification) -> str:
    """`n of m` in words, and what the differences may rest on."""
    c = report.counts
    lines = [
        f"\nequal to the published figure: {c.equal} of {c.equal + c.differs} compared; "
        f"{c.absent} of {c.total} not in this file"
    ]
    if c.differs:
        lines.append(
            f"differing: {c.differs}, of which {c.differs_with_unpublished_inputs} depend on "
            f"inputs that were not published, {c.differs_in_environment} on the environment, "
            f"{c.differs_otherwise} on neither"
        )
    return "\n".join(lines)


def _name(figure: VerifiedFigure) -> str:
    return figure.id if figure.part == "value" else f"{figure.id} [{figure.part}]"


def _short(text: str) -> str:
    """Hashes and lists by both ends; the report holds them in full."""
    return text if len(text) <= 32 else f"{text[:15]}…{text[-15:]}"


def _why(figure: VerifiedFigure) -> str:
    if figure.reason is not None:
        return figure.reason.en
    if figure.outcome == "equal":
        return ""
    parts = [] if figure.difference is None else [f"by {figure.difference:+g}"]
    if figure.unpublished_inputs:
        named = ", ".join(name.replace("_", " ") for name in figure.unpublished_inputs)
        parts.append(f"not published: {named}")
    return "; ".join(parts)
