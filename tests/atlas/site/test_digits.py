"""One printed digit changes every page that shows it, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from atlas.canonical import canonical_json
from atlas.effects import MARKER, Memory
from atlas.site import VENDOR, build
from tests.atlas.site.conftest import DATA, OPTIONS, ROOT, TEMPLATES, template_files
from tests.atlas.site.parsed import Node, tree
from tests.atlas.site.test_printed import NAME, committed

NOTES = Path("research")
NOTE = """# {title}

**CV {{{{ v2lite.layer(4).zh_news.cv | estimate }}}}.**

::figure kind=metrics dataset=v2lite measure=cv
"""
SMALL = {
    "en/a.md": NOTE.format(title="One").encode(),
    "zh/a.md": NOTE.format(title="一").encode(),
    "en/b.md": b"# Two\n\n**{{ v2lite.trace.mla.eager_bytes }} bytes.**\n",
    "zh/b.md": "# 二\n\n**{{ v2lite.trace.mla.eager_bytes }} 字节。**\n".encode(),
}
MODEL = ("models/deepseek-v2-lite/index.html", "models/deepseek-v2-lite/published.html")
CHANGES = {
    "corpus.layer-4.zh_news.prompt_balanced.cv": (
        "0.910",
        "0.920",
        (*MODEL, "notes/a.html", "notes/index.html"),
    ),
    "corpus.layer-1.code.prompt_balanced.cv": ("0.566", "0.567", (*MODEL, "notes/a.html")),
    "corpus.layer-4.prompt_balanced.jsd": ("0.1502", "0.1503", MODEL),
    "trace.layer-1.mean_weight_sum": ("0.3949", "0.3948", MODEL),
    "trace.mla.eager_bytes": (
        "10,240",
        "10,241",
        (*MODEL, "notes/b.html", "notes/index.html"),
    ),
    "corpus.math.candidates": ("1,319", "1,318", MODEL[1:]),
}
"""Figure -> as printed, with another last digit, and the pages that show it."""


def changed(identity: str, printed: str, to: str) -> bytes:
    """The published file with one figure printed otherwise."""
    content = json.loads(committed()[NAME])
    (figure,) = [f for f in content["figures"] if f["id"] == identity]
    assert figure["printed"] == printed
    figure["printed"] = to
    digits = to.replace(",", "")
    figure["value"] = float(digits) if figure["decimals"] else int(digits)
    return canonical_json(content)


@cache
def templates() -> dict[str, bytes]:
    """Templates, read once: both builds must have the same."""
    return template_files()


def built(data: Mapping[str, bytes], notes: Mapping[str, bytes]) -> dict[str, bytes]:
    effects = Memory({DATA: data, TEMPLATES: templates(), NOTES: notes})
    return build(replace(OPTIONS, notes=NOTES), effects)


def showing(site: Mapping[str, bytes], identity: str) -> set[str]:
    """Pages with the figure: bound to the file under its id, or its row among all figures."""
    found = set()
    for name, data in site.items():
        if name.endswith(".html") and NAME.encode() in data:
            root = tree(data.decode())
            bound = any(
                link.attributes["title"].endswith(f" · {identity}")
                for link in root.all("a", class_="num", data_source=NAME)
            )
            if bound or (name.endswith("/published.html") and root.all("tr", id=identity)):
                found.add(name)
    return found | {
        # the list of notes repeats the leads of notes as plain text
        f"{lang}/notes/index.html"
        for lang in ("en", "zh")
        for name in found
        if name.startswith(f"{lang}/notes/")
        if any(
            link.attributes["title"].endswith(f" · {identity}")
            for link in lead_of(site[name]).all("a", class_="num")
        )
    }


def lead_of(page: bytes) -> Node:
    return tree(page.decode()).one("article", class_="prose").all("p")[0]


def difference(
    before: Mapping[str, bytes], after: Mapping[str, bytes], old: bytes, new: bytes
) -> tuple[set[str], set[str]]:
    """Files whose bytes differ, and those that differ in more than the file's own hash."""
    assert before.keys() == after.keys()
    hashes = [sha256(data).hexdigest() for data in (old, new)]
    pairs = [(a.encode(), b.encode()) for a, b in (hashes, [h[:12] for h in hashes])]
    every = {name for name in before if before[name] != after[name]}
    more = set()
    for name in every:
        expected = before[name]
        for a, b in pairs:
            expected = expected.replace(a, b)
        if expected != after[name]:
            more.add(name)
    return every, more


def compare(
    data: Mapping[str, bytes],
    notes: Mapping[str, bytes],
    before: Mapping[str, bytes],
    identity: str,
) -> set[str]:
    """Pages that show the figure, after a check that they and no others changed."""
    printed, to, _ = CHANGES[identity]
    old, new = data[NAME], changed(identity, printed, to)
    files = built({**data, NAME: new}, notes)
    after = {name: page for name, page in files.items() if not name.startswith(VENDOR)}
    every, more = difference(before, after, old, new)
    shown = showing(before, identity)
    assert shown and shown == showing(after, identity)
    # the file itself as a download, and the list of all hashes
    kept = {f"data/files/{NAME}", MARKER}
    assert more - kept == shown
    hash_ = sha256(old).hexdigest().encode()
    named = {name for name, page in before.items() if hash_ in page}
    assert every == kept | named | shown
    for name in shown:
        assert after[name].count(to.encode()) > before[name].count(to.encode())
    return shown


@pytest.fixture(scope="module")
def small() -> dict[str, bytes]:
    return built(committed(), SMALL)


@pytest.mark.parametrize("identity", CHANGES)
def test_a_digit_changes_every_page_that_shows_it_and_no_other(
    small: dict[str, bytes], identity: str
) -> None:
    shown = compare(committed(), SMALL, small, identity)
    pages = CHANGES[identity][2]
    assert shown == {f"{lang}/{page}" for lang in ("en", "zh") for page in pages}


def test_a_digit_changes_every_page_of_the_committed_site_that_shows_it() -> None:
    if not (ROOT / "site" / MARKER).is_file():
        pytest.skip("site/ holds no built site yet; python build.py build un-skips this")
    data, notes = files_of("src/data", "*.json"), files_of("research", "*/*.md")
    site = files_of("site", "**/*")
    before = {name: page for name, page in site.items() if not name.startswith(VENDOR)}
    identity = "corpus.layer-4.zh_news.prompt_balanced.cv"
    shown = compare(data, notes, before, identity)
    assert {f"{lang}/notes/corpus.html" for lang in ("en", "zh")} < shown


def files_of(folder: str, pattern: str) -> dict[str, bytes]:
    found = sorted((ROOT / folder).glob(pattern))
    return {p.relative_to(ROOT / folder).as_posix(): p.read_bytes() for p in found if p.is_file()}
