#!/usr/bin/env python3
"""Build stage: committed JSON to a static site. Needs no GPU, no network and no torch."""

from __future__ import annotations

import argparse
import functools
import http.server
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent
DATA = ROOT / "src" / "data"
if (ROOT / "src" / "atlas").is_dir():
    # a checkout works without being installed
    sys.path.insert(0, str(ROOT / "src"))

from atlas.effects import Disk  # noqa: E402
from atlas.errors import SiteError  # noqa: E402
from atlas.site import Options, build, check  # noqa: E402
from atlas.urls import VEGA  # noqa: E402
from atlas.vendor import bundle  # noqa: E402


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="build.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("build", "build the site"),
        ("check", "compare the site with what a build gives now; exit 1 if they differ"),
        ("serve", "serve the built site on this machine"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--output", type=Path, default=ROOT / "site", metavar="DIR")
        if name == "serve":
            command.add_argument("--port", type=int, default=8000)
        else:
            command.add_argument("--data-dir", type=Path, default=DATA, metavar="DIR")
            command.add_argument(
                "--notes-dir",
                type=Path,
                metavar="DIR",
                help="notes, en/ and zh/ (default: research, which speaks of the committed data)",
            )
    return parser.parse_args(argv)


def _serve(folder: Path, port: int) -> int:
    if not (folder / "index.html").is_file():
        raise SiteError(f"{folder.name}: expected a built site, found no index.html")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except (OSError, OverflowError) as error:
        raise SiteError(f"port {port}: cannot be served: {error}") from error
    with server:
        print(f"http://127.0.0.1:{server.server_address[1]}/ (end with Ctrl+C)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def _vendor(output: Path) -> dict[str, bytes]:
    """The script of the explore pages, if it can be had; one line says so if not."""
    earlier = output / VEGA
    script = bundle(earlier.read_bytes() if earlier.is_file() else None)
    if script is None:
        print("vl-convert is not installed: explore pages stay static")
        return {}
    return {VEGA: script}


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 done, 1 the committed site differs, 2 refused."""
    arguments = _arguments(argv)
    try:
        if arguments.command == "serve":
            return _serve(arguments.output, arguments.port)
        notes = arguments.notes_dir
        if notes is None and arguments.data_dir == DATA and (ROOT / "research").is_dir():
            notes = ROOT / "research"
        options = Options(arguments.data_dir, ROOT / "templates", arguments.output, notes)
        if arguments.command == "build":
            options = replace(options, vendor=_vendor(arguments.output))
            files = build(options, Disk())
            size = sum(len(data) for data in files.values())
            print(f"{arguments.output.name}: {len(files):,} files, {size / 1e6:.1f} MB")
            return 0
        differences = check(options, Disk())
    except SiteError as error:
        print(error, file=sys.stderr)
        return 2
    for difference in differences:
        print(f"{difference.kind}: {difference.name}")
    verdict = "equals" if not differences else "differs from"
    print(f"{arguments.output.name} {verdict} what a build gives now")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
