"""Data of the atlas in forms that other studies ask for."""

from __future__ import annotations

import argparse

from capture import routes_command as routes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    sub = kinds.add_parser("routes", help=routes.HELP, description=routes.__doc__)
    routes.add_arguments(sub)
    sub.set_defaults(run_kind=routes.run)


def run(args: argparse.Namespace) -> int:
    code: int = args.run_kind(args)
    return code
