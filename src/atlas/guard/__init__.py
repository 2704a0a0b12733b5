"""What may not be published: the last look at every file before it leaves the build.

1. Chart data holds one layer: by type, see `atlas.charts.load.LayerLoadChart`.
2. Vega-Lite specs: `specs`.
3. Drawings and pages, marks and markup: `markup`.
4. Text, an expert without its layer and claims that figures cannot carry: `claims`.

Each problem names file and place. Run alone: `python -m atlas.guard DIR`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from atlas.errors import SiteError
from atlas.guard.markup import markup_problems
from atlas.guard.problem import Problem as Problem
from atlas.guard.specs import spec_problems

SPEC_SUFFIX = ".vl.json"
"""Vega-Lite specs of the site end so, and only they."""
SCRIPT_SUFFIX = ".vl.js"
"""Scripts that hold nothing but a spec end so: one layer's, for the explore page."""
SCRIPT_HEAD, SCRIPT_TAIL = b"atlasLayer(", b");\n"
SCRIPTS = frozenset({"assets/explore.js"})
"""The site's own scripts, read by people."""
VENDOR = "assets/vendor/"
"""Third-party scripts; no page but an explore page may ask for them."""


def inspect(files: Mapping[str, bytes]) -> list[Problem]:
    """Problems of every page, drawing and spec among `files`, sorted by file."""
    found: list[Problem] = []
    for name in sorted(files):
        if name.endswith((".html", ".svg")) and not name.startswith("assets/"):
            found += markup_problems(name, files[name].decode("utf-8"))
        elif name.endswith(SPEC_SUFFIX):
            found += spec_problems(name, json.loads(files[name]), files)
        elif name.endswith(SCRIPT_SUFFIX):
            found += _script_problems(name, files[name], files)
        elif name.endswith((".js", ".mjs")) and not _known(name):
            found.append(Problem(name, "file", "a script that is none of the site's own"))
    return found


def _known(name: str) -> bool:
    return name in SCRIPTS or name.startswith(VENDOR)


def _script_problems(name: str, data: bytes, files: Mapping[str, bytes]) -> list[Problem]:
    """Problems of a script that hands over a spec and may do nothing else."""
    spec: object = None
    if data.startswith(SCRIPT_HEAD) and data.endswith(SCRIPT_TAIL):
        try:
            spec = json.loads(data[len(SCRIPT_HEAD) : -len(SCRIPT_TAIL)])
        except ValueError:
            spec = None
    if not isinstance(spec, dict):
        return [Problem(name, "file", "expected a script that holds one spec and nothing else")]
    return spec_problems(name, spec, files)


def require_clean(files: Mapping[str, bytes]) -> None:
    """Raise SiteError naming the first problem, if there is one."""
    found = inspect(files)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise SiteError(f"guard: {found[0]}{more}")
