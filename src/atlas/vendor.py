"""The one third-party script of the site: Vega, bundled when the site is built.

It belongs to explore pages only, lies in a folder that git ignores, and is no part of what
`check` compares: with it or without it, every page is the same bytes. vl-convert carries the
script and bundles it without a network; where it is not installed explore pages stay static.
"""

from __future__ import annotations

from hashlib import sha256
from importlib.metadata import version

import altair

SNIPPET = "window.vegaEmbed = vegaEmbed;"
"""All that explore.js needs. Vega-Embed brings Vega's interpreter of expressions, which runs
under a policy without unsafe-eval."""


def bundle(earlier: bytes | None = None) -> bytes | None:
    """Bytes of the script, or None where vl-convert is not installed.

    `earlier` is what an earlier build left: it is kept if it is whole and of the same versions,
    for bundling takes longer than many a site.
    """
    try:
        import vl_convert
    except ImportError:
        return None
    # the Vega-Lite that Altair writes for, as vl-convert names it: 6.4
    vega_lite = ".".join(altair.VEGALITE_VERSION.split(".")[:2])
    made_by = f"vl-convert {version('vl-convert-python')}, Vega-Lite {vega_lite}"
    if earlier is not None and earlier == _signed(made_by, earlier.partition(b"\n")[2]):
        return earlier
    script = vl_convert.javascript_bundle(SNIPPET, vl_version=vega_lite)
    return _signed(made_by, script.encode("utf-8"))


def _signed(made_by: str, script: bytes) -> bytes:
    """`script` under a line that names its origin and its hash."""
    digest = sha256(script + SNIPPET.encode()).hexdigest()
    return f"/* Vega, BSD-3-Clause, by {made_by}; {digest} */\n".encode() + script
