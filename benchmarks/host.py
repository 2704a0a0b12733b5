"""The machine that a benchmark ran on, as its report names it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

IDLE = 0.5
"""Load averages up to this leave a core to the benchmark."""


def host() -> dict[str, Any]:
    """Processor, cores and Python; a benchmark adds what else its figures depend on."""
    names = []
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def load_average() -> float:
    """Of the last minute."""
    return round(os.getloadavg()[0], 2)


def load_text(before: float, after: float) -> str:
    """A sentence of the report. It cannot tell other work beside a run from work just before."""
    busy = ", so other work ran beside it or just before" if before > IDLE else ""
    return f"Load average of the last minute: {before:.1f} before, {after:.1f} after{busy}."
