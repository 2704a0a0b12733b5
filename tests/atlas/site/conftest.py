"""A whole site, built once in memory from small datasets of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from atlas.effects import Memory
from atlas.site import Options, build
from tests.atlas.site import samples

ROOT = Path(__file__).resolve().parents[3]
DATA, TEMPLATES, OUTPUT = Path("data"), Path("templates"), Path("site")
OPTIONS = Options(DATA, TEMPLATES, OUTPUT)


def template_files() -> dict[str, bytes]:
    """The committed templates, by name."""
    folder = ROOT / "templates"
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def memory(data: dict[str, bytes] | None = None) -> Memory:
    """Effects that hold the committed templates and `data`, or one dataset of every kind."""
    return Memory({DATA: samples.folder() if data is None else data, TEMPLATES: template_files()})


@pytest.fixture(scope="session")
def site() -> dict[str, bytes]:
    """Files of the small site."""
    return build(OPTIONS, memory())


@pytest.fixture(scope="session")
def pages(site: dict[str, bytes]) -> dict[str, str]:
    """Its HTML pages as text."""
    return {n: b.decode("utf-8") for n, b in site.items() if n.endswith(".html")}
