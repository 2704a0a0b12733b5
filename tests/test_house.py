"""The house stands: who may import whom, how long a module is, what a clone may not contain."""

from __future__ import annotations

import ast
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST_MODULE = 399
OWN = {"atlas", "capture", "build", "tests"}
MACHINE_PATH = re.compile(r"(?<![\w.-])/(?:work|root|home|Users|tmp|mnt)/\w")

FORBID_AT_IMPORT = """
import importlib.abc, sys

class Forbid(importlib.abc.MetaPathFinder):
    names = {"torch", "transformers", "tokenizers", "safetensors", "pyarrow", "scipy", "capture"}

    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] in self.names:
            raise AssertionError(f"the build stage imports {fullname}")
        return None

sys.meta_path.insert(0, Forbid())
"""


def run_without_capture(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `program` in a fresh interpreter in which capture and its libraries do not exist."""
    return subprocess.run(
        [sys.executable, "-c", FORBID_AT_IMPORT + program, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@cache
def project_files() -> tuple[Path, ...]:
    """Files that are or would be committed."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone, to know which files belong to the project")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    paths = (ROOT / name for name in sorted(set(listed.split("\0"))) if name)
    return tuple(p for p in paths if p.is_file())


def python_files(*rooms: str) -> Iterator[Path]:
    for room in rooms:
        path = ROOT / room
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def imports(path: Path) -> set[str]:
    """Top-level names of every absolute import, those inside functions included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- one direction ---


def test_the_import_hook_of_these_tests_does_forbid() -> None:
    done = run_without_capture("import capture.errors")
    assert done.returncode != 0
    assert "the build stage imports capture" in done.stderr


def test_every_module_of_atlas_imports_without_torch_and_without_capture() -> None:
    done = run_without_capture(
        "import importlib, pkgutil, atlas\n"
        "names = [m.name for m in pkgutil.walk_packages(atlas.__path__, 'atlas.')]\n"
        "for name in names: importlib.import_module(name)\n"
        "assert 'torch' not in sys.modules\n"
        "print(len(names))"
    )
    assert done.returncode == 0, done.stderr
    modules = [p for p in python_files("src/atlas") if p != ROOT / "src/atlas/__init__.py"]
    assert int(done.stdout) == len(modules)


def test_a_whole_build_never_imports_torch(tmp_path: Path) -> None:
    output = tmp_path / "site"
    done = run_without_capture(
        "import runpy\n"
        "sys.argv = ['build.py', 'build', '--output', sys.argv[1]]\n"
        "try: runpy.run_path('build.py', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules",
        str(output),
    )
    assert done.returncode == 0, done.stderr
    assert (output / "index.html").is_file()


def test_the_source_of_atlas_and_of_the_build_names_neither_torch_nor_capture() -> None:
    found = {
        relative(p): sorted(imports(p) & {"torch", "transformers", "capture"})
        for p in python_files("src/atlas", "build.py")
    }
    assert {name: names for name, names in found.items() if names} == {}


# --- rooms ---


def test_every_module_has_under_400_lines() -> None:
    lengths = {
        relative(p): len(p.read_text(encoding="utf-8").splitlines())
        for p in python_files("src", "capture", "build.py", "benchmarks")
    }
    assert lengths
    assert {name: n for name, n in lengths.items() if n > LONGEST_MODULE} == {}


# --- dependencies ---


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def declared(*extras: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"]]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return {normal(re.match(r"[\w.-]+", line)[0]) for line in lines}  # type: ignore[index]


@pytest.mark.parametrize(
    ("rooms", "extras"),
    [(("src/atlas", "build.py"), ()), (("capture",), ("capture", "cluster"))],
    ids=["build", "capture"],
)
def test_every_import_is_a_declared_dependency(
    rooms: tuple[str, ...], extras: tuple[str, ...]
) -> None:
    distributions = packages_distributions()
    used = {name for p in python_files(*rooms) for name in imports(p)}
    third_party = used - OWN - set(sys.stdlib_module_names)
    undeclared = {
        name
        for name in third_party
        if not {normal(d) for d in distributions.get(name, [name])} & declared(*extras)
    }
    assert undeclared == set()


def locked(name: str) -> dict[str, str]:
    """Distribution -> version of one lock and of those it stands on."""
    pins: dict[str, str] = {}
    for line in (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("-r "):
            pins |= locked(line.removeprefix("-r "))
        elif line and not line.startswith("#"):
            match = re.fullmatch(r"([\w.-]+)==([\w.]+)", line)
            assert match, f"{name}: expected name==version, found {line}"
            assert normal(match[1]) not in pins, f"{name}: {match[1]} is pinned twice"
            pins[normal(match[1])] = match[2]
    return pins


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("site.txt", ()),
        ("capture.txt", ("capture",)),
        ("test.txt", ("capture", "dev")),
        ("cluster.txt", ("capture", "cluster")),
    ],
)
def test_a_lock_pins_every_declared_dependency(lock: str, extras: tuple[str, ...]) -> None:
    assert declared(*extras) - set(locked(lock)) == set()


def test_the_locks_of_tests_and_peer_agree_on_torch_and_differ_in_transformers() -> None:
    tests, peer = locked("test.txt"), locked("peer.txt")
    assert tests["torch"] == peer["torch"] == "2.13.0"
    assert tests["transformers"] == "4.41.2"
    assert tuple(map(int, peer["transformers"].split("."))) >= (5, 15, 1)


# --- what a clone contains ---


def test_no_project_file_names_a_path_of_a_machine() -> None:
    found = []
    for path in project_files():
        data = path.read_bytes()
        if b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode("utf-8").splitlines(), start=1):
            match = MACHINE_PATH.search(line)
            if match:
                found.append(f"{relative(path)}:{number}: {line[match.start() :][:60]}")
    assert found == []


@pytest.mark.parametrize(
    ("line", "is_path"),
    [
        ("see {}work/x", True),
        ("'{}home/me/file'", True),
        ("src{}home/page.py", False),
        ("..{}tmp/x", False),
        ("{}usr/bin/chromium", False),
    ],
)
def test_a_path_of_a_machine_is_told_from_a_relative_one(line: str, is_path: bool) -> None:
    # the slash is put in here, or this file would name such a path itself
    assert bool(MACHINE_PATH.search(line.format("/"))) is is_path


def test_no_committed_file_is_larger_than_20_megabytes() -> None:
    sizes = {relative(p): p.stat().st_size for p in project_files()}
    assert {name: size for name, size in sizes.items() if size > 20_000_000} == {}


# --- tests ---


def reasonless(source: str) -> list[int]:
    """Lines of skips and expected failures that give no reason of four words or more."""
    lines = []
    tree = ast.parse(source)
    called = {id(n.func): n for n in ast.walk(tree) if isinstance(n, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        if node.attr not in ("skip", "skipif", "xfail", "importorskip"):
            continue
        owner = ast.unparse(node.value)
        if owner not in ("pytest", "pytest.mark"):
            continue
        call = called.get(id(node))
        reason = None
        if call is not None:
            reason = next((k.value for k in call.keywords if k.arg == "reason"), None)
            if reason is None and owner == "pytest" and node.attr in ("skip", "xfail"):
                reason = call.args[0] if call.args else None
        if reason is None or (
            isinstance(reason, ast.Constant) and len(str(reason.value).split()) < 4
        ):
            lines.append(node.lineno)
    return lines


def test_every_skipped_test_says_why() -> None:
    found = {relative(p): reasonless(p.read_text(encoding="utf-8")) for p in python_files("tests")}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("@pytest.mark.skip\ndef test_a(): ...", [1]),
        ("@pytest.mark.skipif(True)\ndef test_a(): ...", [1]),
        ("pytest.skip('later')", [1]),
        ("pytest.importorskip('torch')", [1]),
        ("pytest.skip('needs the file that x makes')", []),
        ("@pytest.mark.skipif(True, reason=f'needs {X}')\ndef test_a(): ...", []),
    ],
)
def test_a_skip_without_a_reason_is_found(source: str, lines: list[int]) -> None:
    assert reasonless(source) == lines


# --- what the README promises ---


def readme_commands() -> list[str]:
    """Lines of the README's fenced blocks, continuation lines joined."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [" ".join(line.split("  #")[0].split()) for line in joined.splitlines() if line.strip()]


def test_every_make_target_of_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", text, flags=re.MULTILINE))
    assert {"site", "demo", "test"} <= named
    assert named - targets == set()


def test_every_capture_command_and_flag_of_the_readme_exists() -> None:
    commands = [c for c in readme_commands() if "-m capture " in c]
    assert commands
    for command in commands:
        words = command.split("-m capture ", 1)[1].split()
        subcommand = itertools.takewhile(lambda word: not word.startswith("-"), words)
        usage = usage_of(tuple(w for w in subcommand if w.isalpha()))
        for flag in (w for w in words if w.startswith("--")):
            assert re.search(rf"(?<![\w-]){flag}(?![\w-])", usage), f"{command}: {flag}"


@cache
def usage_of(subcommand: tuple[str, ...]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "capture", *subcommand, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(subcommand)}: {done.stderr}"
    return done.stdout
