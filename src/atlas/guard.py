"""What may not be published: the last look at every file before it leaves the build.

Rules, each refusal naming file and place:

1. Chart data holds one layer: by type, see `atlas.charts.load.LayerLoadChart`.
2. Drawings: a mark that shows an expert belongs to exactly one `data-layer`; no line leaves
   its group in a drawing that shows more than one layer.
3. Text: an expert id stands with its layer (L4·E29), unless the text is quoted data.
4. Pages ask nothing of other servers and run nothing: no script, no inline style, no handler.

Run alone: `python -m atlas.guard DIR`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from atlas.errors import SiteError

LINES = frozenset({"path", "line", "polyline", "polygon", "rect", "use", "circle", "ellipse"})
"""Elements that draw."""

VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())

BARE_EXPERT = re.compile(r"(?<![\w·./+-])[EeＥ][0-9０-９]{1,3}(?![\w.])")
"""An expert id that no layer stands before. `E` is a capital letter in every text of ours."""

EXTERNAL = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


@dataclass(frozen=True)
class Problem:
    """One refusal."""

    file: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.place}: {self.text}"


@dataclass
class _Open:
    """An open element and what it says about its content."""

    tag: str
    layer: str | None
    quoted: bool
    svg: int | None


class _Reader(HTMLParser):
    """Reads one page or drawing and collects problems."""

    def __init__(self, file: str) -> None:
        super().__init__(convert_charrefs=True)
        self.file = file
        self.problems: list[Problem] = []
        self.stack: list[_Open] = []
        self.svgs: list[dict[str, object]] = []

    def problem(self, text: str) -> None:
        line, column = self.getpos()
        self.problems.append(Problem(self.file, f"line {line}, column {column + 1}", text))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        parent = self.stack[-1] if self.stack else _Open("", None, False, None)
        layer = values.get("data-layer", parent.layer)
        if "data-layer" in values:
            if not values["data-layer"].isascii() or not values["data-layer"].isdigit():
                self.problem(f"data-layer: expected one layer number, found {values['data-layer']!r}")
            if parent.layer is not None and parent.layer != layer:
                self.problem(f"data-layer {layer} inside data-layer {parent.layer}: one layer only")
        svg = parent.svg
        if tag == "svg" and svg is None:
            svg = len(self.svgs)
            self.svgs.append({"layers": set(), "loose": 0, "place": self.getpos()})
        if "data-marks" in values and layer is None:
            self.problem(f"marks of {values['data-marks']}s outside a data-layer")
        if svg is not None:
            self._drawn(tag, layer, svg)
        self._inert(tag, values)
        if tag not in VOID:
            quoted = parent.quoted or "data-quoted" in values or tag in ("style", "code")
            self.stack.append(_Open(tag, layer, quoted, svg))
        for name in ("title", "alt", "aria-label", "content"):
            if name in values and not parent.quoted:
                self._text(values[name])

    def _drawn(self, tag: str, layer: str | None, svg: int) -> None:
        state = self.svgs[svg]
        layers = state["layers"]
        assert isinstance(layers, set)
        if layer is not None:
            layers.add(layer)
        elif tag in LINES:
            state["loose"] = self.getpos()
        if len(layers) > 1 and state["loose"]:
            self.problem(
                f"a mark outside the layers' groups in a drawing of layers {', '.join(sorted(layers))}"
            )
            state["loose"] = 0

    def _inert(self, tag: str, values: Mapping[str, str]) -> None:
        if tag in ("script", "iframe", "object", "embed", "base", "form"):
            self.problem(f"<{tag}> on a reading page")
        for name in values:
            if name.startswith("on") or name in ("style", "srcdoc"):
                self.problem(f"attribute {name} on <{tag}>")
        for name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
            if name in values and EXTERNAL.match(values[name]):
                self.problem(f"{name} leaves the site: {values[name][:80]!r}")

    def handle_endtag(self, tag: str) -> None:
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place].tag == tag:
                del self.stack[place:]
                return

    def handle_data(self, data: str) -> None:
        if not (self.stack and self.stack[-1].quoted):
            self._text(data)

    def _text(self, text: str) -> None:
        match = BARE_EXPERT.search(text)
        if match:
            around = " ".join(text[max(0, match.start() - 20) : match.end() + 20].split())
            self.problem(f"expert {match.group()} without its layer: {around!r}")


def problems_of(file: str, text: str) -> list[Problem]:
    """Problems of one page or drawing."""
    reader = _Reader(file)
    reader.feed(text)
    reader.close()
    if file.endswith(".svg"):
        layers = {x for svg in reader.svgs for x in _layers(svg)}
        if len(layers) != 1:
            found = ", ".join(sorted(layers)) or "none"
            reader.problems.append(
                Problem(file, "drawing", f"expected exactly one data-layer, found {found}")
            )
    return reader.problems


def _layers(svg: Mapping[str, object]) -> set[str]:
    layers = svg["layers"]
    assert isinstance(layers, set)
    return layers


def inspect(files: Mapping[str, bytes]) -> list[Problem]:
    """Problems of every page and drawing among `files`, sorted by file."""
    found: list[Problem] = []
    for name in sorted(files):
        if name.endswith((".html", ".svg")) and not name.startswith("assets/"):
            found += problems_of(name, files[name].decode("utf-8"))
    return found


def require_clean(files: Mapping[str, bytes]) -> None:
    """Raise SiteError naming the first problem, if there is one."""
    found = inspect(files)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise SiteError(f"guard: {found[0]}{more}")


def main(argv: list[str]) -> int:
    """Inspect a folder; 0 clean, 1 with a line per problem, 2 without a folder."""
    folder = Path(argv[0]) if len(argv) == 1 else None
    if folder is None or not folder.is_dir():
        print("guard: expected one folder to inspect", file=sys.stderr)
        return 2
    files = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    found = inspect(files)
    for problem in found:
        print(problem)
    print(f"guard: {len(found)} problem{'' if len(found) == 1 else 's'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
