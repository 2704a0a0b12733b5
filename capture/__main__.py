"""`python -m capture COMMAND`: see `python -m capture --help`.

Exit codes: 0 done; 1 a comparison or check found differences; 2 refused, one line says why
and nothing was written; 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from atlas.contract import ContractError
from capture.errors import Refusal

COMMANDS = {
    "inspect": "capture.commands.inspect",
    "trace": "capture.commands.trace",
    "compare": "capture.commands.compare",
    "import": "capture.commands.importing",
    "export": "capture.commands.exporting",
    "corpus": "capture.commands.corpus",
    "demo": "capture.commands.demo",
}

DESCRIPTION = """\
Capture stage of llm-atlas: runs a model's official code and weights layer by layer
and writes what the router did as JSON. Start with

  python -m capture demo                       the whole capture on the embedded checkpoint
  python -m capture inspect --artifact-dir DIR what is in an artifact folder, and how far it runs
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m capture",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module_name in COMMANDS.items():
        module = importlib.import_module(module_name)
        sub = subparsers.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        code: int = args.run(args)
        return code
    except (Refusal, ContractError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
