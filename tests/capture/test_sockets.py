"""The whole capture and the whole build open no socket.

Python raises an audit event whenever a socket is made, bound, connected or a name looked up,
from whatever library. The stages run in a process of their own in which every such event is an
error and is also counted, so that a library which swallows the error is found all the same.

One is known: urllib3, which transformers imports, asks at import whether the system has IPv6, by
binding a socket to this machine's own address. It is refused here too, and nothing misses it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from capture.demo.seal import CHECKPOINT

ROOT = Path(__file__).parents[2]
GUARD = """
import sys, traceback
opened = []

def no_socket(event, arguments):
    if event.startswith("socket."):
        frames = traceback.extract_stack(limit=8)
        if not any(f.name == "_has_ipv6" and "urllib3" in f.filename for f in frames):
            opened.append(event + "\\n" + "".join(traceback.format_list(frames)))
        raise OSError(f"{event} is not allowed here")

sys.addaudithook(no_socket)
"""
CAPTURE = """
from capture.__main__ import main
code = main(sys.argv[1:])
"""
BUILD = """
import build
code = build.main(sys.argv[1:])
"""
END = """
sys.stderr.write("".join(opened))
sys.exit(9 if opened else code)
"""


def run(stage: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", GUARD + stage + END, *argv],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [["trace"], ["corpus", "--probes", "--per-domain", "4", "--bootstrap", "20"]],
    ids=["trace", "corpus"],
)
def test_the_capture_opens_no_socket(command: list[str], tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    paths = ["--artifact-dir", str(CHECKPOINT), "--output", str(output)]
    done = run(CAPTURE, *command, *paths, "--layers", "2", "--quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    assert output.exists()


def test_the_build_opens_no_socket(tmp_path: Path) -> None:
    done = run(BUILD, "build", "--output", str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "site" / "index.html").exists()


def test_a_socket_would_be_found() -> None:
    done = run("import socket\ntry:\n    socket.socket()\nexcept OSError:\n    code = 0\n")
    assert done.returncode == 9
    assert done.stderr.startswith("socket.__new__")
