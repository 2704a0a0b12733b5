"""Set-up of every test. Light: the peer environment loads it too, with pytest and numpy alone."""

from __future__ import annotations

import importlib.util
import os

# No library may ask a hub for anything; read at import, so it is set before any of them is.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

if importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    # deadline: the first example of a numpy or torch test pays for imports.
    settings.register_profile("local", deadline=None)
    # the same examples in every run, so that a red run means a change and not luck
    settings.register_profile("ci", deadline=None, derandomize=True)
    settings.load_profile("ci" if os.environ.get("CI") else "local")
