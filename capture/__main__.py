"""`python -m capture COMMAND`: see `python -m capture --help`.

Exit codes: 0 done; 1 a comparison or check found differences; 2 refused, one line says why
and nothing was written; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from atlas.contract import ContractError
from capture.errors import Refusal

COMMANDS = {
    "inspect": ("inspect", "what is in an artifact folder, and how far it runs"),
    "trace": ("trace", "four fixed prompts, every route, the MLA cache"),
    "compare": ("compare", "two traces, check by check"),
    "verify": ("verify", "a regenerated file against the published figures"),
    "corpus": ("corpus", "four text domains, expert loads with intervals"),
    "import": ("importing", "a published routing record, as a routing corpus"),
    "export": ("exporting", "every ordered route, as arrays"),
    "demo": ("demo", "both experiments on the embedded checkpoint"),
}
"""Command -> its module under capture.commands, and what it does."""

DESCRIPTION = """\
Capture stage of llm-atlas: runs a model's official code and weights layer by layer
and writes what the router did as JSON. Start with

  python -m capture demo                       the whole capture on the embedded checkpoint
  python -m capture inspect --artifact-dir DIR what is in an artifact folder, and how far it runs
"""


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """Parser that knows the arguments of `command`; no other command's module is imported,
    so that commands which run no layer do not pay for torch."""
    parser = argparse.ArgumentParser(
        prog="python -m capture",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module_name, summary) in COMMANDS.items():
        module = import_module(f"capture.commands.{module_name}") if name == command else None
        sub = subparsers.add_parser(
            name,
            help=summary,
            description=module.__doc__ if module else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if module:
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser(argv[0] if argv else None).parse_args(argv)
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
