"""Two traces check by check. Exit 0 if all are exact, 1 if any differs.

Compared: provenance, configuration, tokenization; initial and final hidden states; per layer
hidden states and MLA shapes; per MoE layer load and routes. Timing and the clock are not.
"""

from __future__ import annotations

import argparse
from hashlib import sha256
from pathlib import Path

from atlas.contract import parse
from atlas.contract.trace import Trace
from capture import output
from capture.artifacts import read_small
from capture.compare import compare
from capture.errors import Refusal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--first", type=Path, required=True, metavar="FILE")
    parser.add_argument("--second", type=Path, required=True, metavar="FILE")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")


def run(args: argparse.Namespace) -> int:
    output.require_writable(args.output)
    first, first_sha256 = read_trace(args.first)
    second, second_sha256 = read_trace(args.second)
    result = compare(first, second, first_sha256, second_sha256)
    output.write(args.output, result)
    for check in result.checks:
        if not check.exact:
            where = "" if check.layer is None else f"layer {check.layer}: "
            print(f"{where}{check.name} differs: {check.first[:12]}… and {check.second[:12]}…")
    print(f"{result.exact} / {result.total} exact")
    return 0 if result.exact == result.total else 1


def read_trace(path: Path) -> tuple[Trace, str]:
    """A trace file and its SHA-256. Raises Refusal or ContractError."""
    data = read_small(path)
    dataset = parse(data, path.name)
    if not isinstance(dataset, Trace):
        raise Refusal(where=path.name, what="schema", expected="llm-atlas/trace@1")
    return dataset, sha256(data).hexdigest()
