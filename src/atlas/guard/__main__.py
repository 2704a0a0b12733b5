"""`python -m atlas.guard DIR`: inspect a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from atlas.guard import inspect


def main(argv: list[str]) -> int:
    """0 clean, 1 with a line per problem, 2 without a folder."""
    folder = Path(argv[0]) if len(argv) == 1 else None
    if folder is None or not folder.is_dir():
        print("guard: expected one folder to inspect", file=sys.stderr)
        return 2
    files = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    found = inspect(files)
    for problem in found:
        print(problem)
    print(f"guard: {len(found)} problem{'' if len(found) == 1 else 's'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
