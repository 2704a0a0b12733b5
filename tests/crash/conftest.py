"""Captures that are started, killed and started again.

A fork server imports torch once, so that a kill falls into the run and not into the imports.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atlas.canonical import canonical_json
from atlas.contract import parse
from atlas.contract.trace import Timing
from capture.demo.seal import CHECKPOINT

LAYERS = 3
TIMELESS = Timing(layer_seconds=(), total_seconds=0.0)
EXPERIMENTS: dict[str, list[str]] = {
    "trace": ["trace"],
    "corpus": ["corpus", "--probes", "--per-domain", "8", "--batch-size", "4", "--bootstrap", "40"],
}


def capture(argv: list[str], log: str) -> None:
    """Run the command line in a child process; its output goes to `log`."""
    from capture.__main__ import main

    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os._exit(main(argv))


@pytest.fixture(scope="session")
def start() -> Callable[[list[str], Path], Any]:
    """Start one capture; gives its process."""
    # read at import by the server's children: a fork must not inherit a pool of threads
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["capture.session", "capture.trace", "capture.corpus.run", "transformers.modeling_utils"]
    )

    def started(argv: list[str], log: Path) -> Any:
        process = context.Process(target=capture, args=(argv, str(log)))
        process.start()
        return process

    return started


def arguments(experiment: str, output: Path, work: Path, *more: str) -> list[str]:
    paths = ["--artifact-dir", str(CHECKPOINT), "--output", str(output), "--work-dir", str(work)]
    return [*EXPERIMENTS[experiment], *paths, "--quiet", "--layers", str(LAYERS), *more]


def content(path: Path) -> bytes:
    """A file's bytes; of a trace, those that do not depend on the clock."""
    dataset = parse(path.read_bytes(), path.name)
    if hasattr(dataset, "timing"):
        dataset = dataset.model_copy(update={"timing": TIMELESS})
        return canonical_json(dataset)
    return path.read_bytes()
