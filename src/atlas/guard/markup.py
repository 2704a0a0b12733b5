"""Pages and drawings: where expert marks stand, what runs, what leaves the site, what is said.

The reader is strict: markup that it cannot read is a problem, so nothing passes unread.

- A mark that shows an expert (`data-marks="expert"`) belongs to exactly one `data-layer`; layers
  do not nest, and in a drawing that shows several layers nothing is drawn outside them.
- A drawing that is a file of its own shows exactly one layer.
- No script, frame, form, inline style or handler; no link that leaves the site. An explore page
  may name the two scripts of SCRIPTS, with nothing inside their elements.
- Text follows `claims`, unless it is quoted data (`data-quoted`, or code).
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from atlas.guard.claims import claim_problems, expert_problems
from atlas.guard.problem import Problem

DRAWS = frozenset(
    {
        "path",
        "line",
        "polyline",
        "polygon",
        "rect",
        "use",
        "circle",
        "ellipse",
        "image",
    }
)
VOID = frozenset(
    {
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
    }
)
INLINE = frozenset(
    {
        "a",
        "abbr",
        "b",
        "bdi",
        "br",
        "code",
        "em",
        "i",
        "mark",
        "q",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "tspan",
        "wbr",
    }
)
"""Elements that do not end a sentence."""
FORBIDDEN = frozenset(
    {
        "script",
        "iframe",
        "frame",
        "object",
        "embed",
        "base",
        "form",
        "foreignobject",
        "template",
    }
)
LINKS = frozenset(
    {
        "src",
        "href",
        "xlink:href",
        "action",
        "data",
        "poster",
        "srcset",
    }
)
EXPLORE_PAGE = "/explore.html"
SCRIPTS = frozenset({"assets/explore.js", "assets/vendor/vega.js"})
SPOKEN = frozenset(
    {
        "title",
        "alt",
        "aria-label",
        "aria-description",
    }
)

_TOKEN = re.compile(
    r"<!doctype html>|</(?P<end>[a-zA-Z][\w:-]*)\s*>"
    r'|<(?P<tag>[a-zA-Z][\w:-]*)(?P<attrs>(?:\s+[\w:.-]+(?:="[^"<>]*")?)*)\s*(?P<closed>/?)>|(?P<odd><)',
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r'([\w:.-]+)(?:="([^"]*)")?')
_CONTROLS = re.compile(r"[\x00-\x20]")
"""What browsers leave out of a URL before they read its scheme."""
_EXTERNAL = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|[/\\]{2})", re.IGNORECASE)


@dataclass
class _Open:
    """An open element and what it says about its content."""

    tag: str
    layer: str | None = None
    quoted: bool = False
    cannot: bool = False
    svg: _Drawing | None = None


@dataclass
class _Drawing:
    """An outermost svg element: its layers, and whether something is drawn outside them."""

    layers: set[str] = field(default_factory=set)
    loose: str = ""


class _Reader:
    """Reads one file and collects problems."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self.problems: list[Problem] = []
        self.stack: list[_Open] = [_Open("")]
        self.drawings: list[_Drawing] = []
        self.sentence: list[str] = []
        self.at = 0

    def problem(self, text: str) -> None:
        line = self.text.count("\n", 0, self.at) + 1
        self.problems.append(Problem(self.file, f"line {line}", text))

    def read(self) -> list[Problem]:
        start = 0
        for match in _TOKEN.finditer(self.text):
            if match.start() > start:
                self._data(self.text[start : match.start()])
            self.at, start = match.start(), match.end()
            if match["tag"]:
                self._start(match["tag"].lower(), match["attrs"], bool(match["closed"]))
            elif match["end"]:
                self._end(match["end"].lower())
            elif match["odd"]:
                self.problem(f"markup that cannot be read: {self.text[start - 1 : start + 30]!r}")
        self._data(self.text[start:])
        self._flush()
        if len(self.stack) > 1:
            self.problem(f"<{self.stack[-1].tag}> is never closed")
        for drawing in self.drawings:
            if len(drawing.layers) > 1 and drawing.loose:
                layers = ", ".join(sorted(drawing.layers))
                self.problem(f"<{drawing.loose}> outside the groups of layers {layers}")
        if self.file.endswith(".svg"):
            layers = ", ".join(sorted({x for d in self.drawings for x in d.layers})) or "none"
            if "," in layers or layers == "none":
                self.problem(f"expected exactly one data-layer in the drawing, found {layers}")
        return self.problems

    def _start(self, tag: str, attributes: str, closed: bool) -> None:
        parent = self.stack[-1]
        here = _Open(tag, parent.layer, parent.quoted, parent.cannot, parent.svg)
        if tag not in INLINE:
            self._flush()
        if tag == "script" and self._is_known_script(attributes):
            pass
        elif tag in FORBIDDEN or (tag == "style" and not self.file.endswith(".svg")):
            self.problem(f"<{tag}> on a reading page")
        if tag == "svg" and here.svg is None:
            here.svg = _Drawing()
            self.drawings.append(here.svg)
        values = (
            {n.lower(): html.unescape(v) for n, v in _ATTRIBUTE.findall(attributes)}
            if attributes
            else {}
        )
        if values:
            self._attributes(tag, values, here, parent)
        if here.svg is not None:
            if here.layer is not None:
                here.svg.layers.add(here.layer)
            elif tag in DRAWS:
                here.svg.loose = tag
        if tag in ("code", "style", "pre"):
            here.quoted = True
        if not closed and tag not in VOID:
            self.stack.append(here)

    def _is_known_script(self, attributes: str) -> bool:
        """Whether a script element of an explore page names one of the two scripts."""
        values = dict(_ATTRIBUTE.findall(attributes))
        source = posixpath.join(posixpath.dirname(self.file), values.get("src", ""))
        return (
            self.file.endswith(EXPLORE_PAGE)
            and set(values) == {"src", "defer"}
            and posixpath.normpath(source) in SCRIPTS
        )

    def _attributes(self, tag: str, values: Mapping[str, str], here: _Open, parent: _Open) -> None:
        if "data-layer" in values:
            here.layer = values["data-layer"]
            if not (here.layer.isascii() and here.layer.isdigit()):
                self.problem(f"data-layer: expected one layer number, found {here.layer!r}")
            if parent.layer not in (None, here.layer):
                self.problem(f"data-layer {here.layer} inside data-layer {parent.layer}")
        if "data-marks" in values and here.layer is None:
            self.problem(f"marks of {values['data-marks']}s outside a data-layer")
        here.quoted = here.quoted or "data-quoted" in values
        here.cannot = here.cannot or "data-cannot-say" in values
        for name, value in values.items():
            if name.startswith("on") or name in ("style", "srcdoc"):
                self.problem(f"attribute {name} on <{tag}>")
            elif name in LINKS and _EXTERNAL.match(_CONTROLS.sub("", value)):
                self.problem(f"{name} leaves the site: {value[:80]!r}")
            elif name in SPOKEN or (name == "content" and values.get("name") == "description"):
                self._say(value, here)

    def _end(self, tag: str) -> None:
        if tag not in INLINE:
            self._flush()
        if self.stack[-1].tag != tag or len(self.stack) == 1:
            self.problem(f"</{tag}> closes <{self.stack[-1].tag}>")
            return
        self.stack.pop()

    def _data(self, text: str) -> None:
        if self.stack[-1].tag == "script" and not text.isspace():
            self.problem("a script inside a page")
        if not text.isspace() and not self.stack[-1].quoted:
            self.sentence.append(html.unescape(text) if "&" in text else text)
        elif self.sentence:
            self.sentence.append(" ")

    def _flush(self) -> None:
        if self.sentence:
            self._say("".join(self.sentence), self.stack[-1])
            self.sentence.clear()

    def _say(self, text: str, where: _Open) -> None:
        if where.quoted:
            return
        for problem in expert_problems(text, where.cannot):
            self.problem(problem)
        if not where.cannot:
            for problem in claim_problems(text):
                self.problem(problem)


def markup_problems(file: str, text: str) -> list[Problem]:
    """Problems of one page or drawing called `file`."""
    return _Reader(file, text).read()
