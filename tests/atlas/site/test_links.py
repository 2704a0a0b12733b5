"""Every link, anchor and id of the committed site, and what its data files point to."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from hashlib import sha256
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.atlas.site.conftest import ROOT

SITE = ROOT / "site"
LINKS = ("href", "src", "data", "poster", "action", "xlink:href")
NAMES = ("for", "aria-labelledby", "aria-describedby", "aria-controls", "headers", "list")
VENDOR = "assets/vendor/"
"""Written by the build and ignored by git: a fresh clone may lack it."""


class Reader(HTMLParser):
    """Ids, links and references to ids of one page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: Counter[str] = Counter()
        self.links: set[str] = set()
        self.names: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id":
                self.ids[value or ""] += 1
            elif key in LINKS:
                self.links.add(value or "")
            elif key in NAMES:
                self.names.update((value or "").split())

    handle_startendtag = handle_starttag


def problems(files: dict[str, bytes]) -> list[str]:
    """What is wrong with the links of pages and drawings: file, link, and why."""
    pages = {
        name: Reader(data.decode("utf-8"))
        for name, data in files.items()
        if name.endswith((".html", ".svg"))
    }
    found = []
    for name, page in pages.items():
        found += [f"{name}: id {i!r} stands {n} times" for i, n in page.ids.items() if n > 1]
        found += [f"{name}: no id {i!r}" for i in sorted(page.names - set(page.ids))]
        for link in sorted(page.links):
            url, fragment = urldefrag(link)
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or url.startswith("/") or parts.query:
                found.append(f"{name}: {link} is not a plain relative link")
                continue
            target = name
            if url:
                target = posixpath.normpath(
                    posixpath.join(posixpath.dirname(name), unquote(parts.path))
                )
            if target not in files and not target.startswith(VENDOR):
                found.append(f"{name}: {link} leads nowhere")
            elif fragment and unquote(fragment) not in getattr(pages.get(target), "ids", ()):
                found.append(f"{name}: {link}: no such anchor")
    return found


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    if not (SITE / "index.html").is_file():
        pytest.skip("site/ is not built; python build.py build un-skips this")
    return {
        p.relative_to(SITE).as_posix(): p.read_bytes()
        for p in sorted(SITE.rglob("*"))
        if p.is_file() and not p.relative_to(SITE).as_posix().startswith(VENDOR)
    }


def test_every_link_anchor_and_id_of_the_committed_site_holds(files: dict[str, bytes]) -> None:
    assert problems(files) == []


def test_every_page_can_be_reached_from_the_first_one_by_links(files: dict[str, bytes]) -> None:
    seen, waiting = set(), ["index.html"]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in files:
            continue
        seen.add(name)
        if name.endswith(".html"):
            for link in Reader(files[name].decode("utf-8")).links:
                url = urldefrag(link)[0]
                if url:
                    waiting.append(
                        posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(url)))
                    )
    assert sorted(n for n in files if n.endswith((".html", ".csv")) and n not in seen) == []


def test_the_manifest_names_every_file_with_its_hash(files: dict[str, bytes]) -> None:
    listed = json.loads(files["manifest.json"])["files"]
    assert listed == {
        name: sha256(data).hexdigest() for name, data in files.items() if name != "manifest.json"
    }


def test_every_link_of_the_dataset_card_in_markdown_is_a_file(files: dict[str, bytes]) -> None:
    for card in ("data/README.md", "data/README.zh.md"):
        targets = re.findall(r"\]\(([^)]*)\)", files[card].decode("utf-8"))
        assert targets
        assert [t for t in targets if f"data/{t}" not in files] == []


def test_a_checker_that_meets_every_kind_of_wrong_link_names_each() -> None:
    page = (
        '<a href="gone.html">x</a><a href="#nowhere">x</a><a href="b.html#no">x</a><i id=a><i id=a>'
        '<a href="https://example.org/">x</a><a href="/b.html">x</a><label for="none">x</label>'
        '<a href="b.html#yes">x</a><a href="assets/vendor/v.js">x</a><a href="b.html?q=1">x</a>'
    )
    files = {"a.html": page.encode(), "b.html": b"<p id=yes>"}
    assert problems(files) == [
        "a.html: id 'a' stands 2 times",
        "a.html: no id 'none'",
        "a.html: #nowhere: no such anchor",
        "a.html: /b.html is not a plain relative link",
        "a.html: b.html#no: no such anchor",
        "a.html: b.html?q=1 is not a plain relative link",
        "a.html: gone.html leads nowhere",
        "a.html: https://example.org/ is not a plain relative link",
    ]
