"""A routing record that someone else published, as a routing corpus of evidence `imported`."""

from __future__ import annotations

import argparse

from capture.imported import command as esft


def add_arguments(parser: argparse.ArgumentParser) -> None:
    records = parser.add_subparsers(dest="record", metavar="RECORD", required=True)
    sub = records.add_parser("esft", help=esft.HELP, description=esft.__doc__)
    esft.add_arguments(sub)
    sub.set_defaults(run_record=esft.run)


def run(args: argparse.Namespace) -> int:
    code: int = args.run_record(args)
    return code
