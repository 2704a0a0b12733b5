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
from dataclasses import dataclass, field, replace
from typing import Any

from atlas.guard.claims import said_problems
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
QUOTED = frozenset(
    {
        "code",
        "style",
        "pre",
    }
)
"""Elements whose text is quoted data."""
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
    r"<(?:(?P<tag>[a-zA-Z][\w:-]*)(?P<attributes>(?:\s+[\w:.-]+(?:=\"[^\"<>]*\")?)*)\s*"
    r"(?P<closed>/?)>|/(?P<end>[a-zA-Z][\w:-]*)\s*>|(?P<doctype>!doctype html>)|)",
    re.IGNORECASE,
)
"""A tag, or a `<` that belongs to none."""
_ATTRIBUTE = re.compile(r'([\w:.-]+)(?:="([^"]*)")?')
_NOTABLE = re.compile(
    r"\s(?:on|data-(?:layer|marks|quoted|cannot-say)|style|content|"
    + "|".join(sorted({*LINKS, *SPOKEN}))
    + ")",
    re.IGNORECASE,
)
"""Attributes that the guard looks at begin so; most marks of a drawing have none."""
_CONTROLS = re.compile(r"[\x00-\x20]")
"""What browsers leave out of a URL before they read its scheme."""
_EXTERNAL = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|[/\\]{2})", re.IGNORECASE)


@dataclass
class _Drawing:
    """An outermost svg element: its layers, and whether something is drawn outside them."""

    layers: set[str] = field(default_factory=set)
    loose: str = ""


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the elements around a place say about it; elements that say nothing share one."""

    layer: str | None = None
    quoted: bool = False
    cannot: bool = False
    svg: _Drawing | None = None


class _Reader:
    """Reads one file and collects problems. `stack` holds the open tags with their scopes."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self.problems: list[Problem] = []
        self.stack: list[tuple[str, _Scope]] = [("", _Scope())]
        self.drawings: list[_Drawing] = []
        self.sentence: list[str] = []
        self.at = 0

    def problem(self, text: str) -> None:
        line = self.text.count("\n", 0, self.at) + 1
        self.problems.append(Problem(self.file, f"line {line}", text))

    def read(self) -> list[Problem]:
        start, text = 0, self.text
        for match in _TOKEN.finditer(text):
            at = match.start()
            if at > start:
                self._data(text[start:at])
            self.at, start = at, match.end()
            tag, attributes, closed, end, doctype = match.groups()
            if tag:
                self._start(tag.lower(), attributes, bool(closed))
            elif end:
                self._end(end.lower())
            elif not doctype:
                self.problem(f"markup that cannot be read: {text[at : at + 31]!r}")
        self._data(text[start:])
        self._flush()
        if len(self.stack) > 1:
            self.problem(f"<{self.stack[-1][0]}> is never closed")
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
        scope = self.stack[-1][1]
        if tag not in INLINE:
            self._flush()
        refused = tag == "style" and not self.file.endswith(".svg")
        if tag in FORBIDDEN and not (tag == "script" and self._is_known_script(attributes)):
            refused = True
        if refused:
            self.problem(f"<{tag}> on a reading page")
        if tag == "svg" and scope.svg is None:
            self.drawings.append(_Drawing())
            scope = self._scoped(scope, svg=self.drawings[-1])
        if attributes and _NOTABLE.search(attributes):
            scope = self._attributes(tag, attributes, scope)
        if scope.svg is not None and scope.layer is None and tag in DRAWS:
            scope.svg.loose = tag
        if tag in QUOTED:
            scope = self._scoped(scope, quoted=True)
        if not closed and tag not in VOID:
            self.stack.append((tag, scope))

    @staticmethod
    def _scoped(scope: _Scope, **changes: Any) -> _Scope:
        """`scope` with changes; a drawing learns of the layer that it shows here."""
        scope = replace(scope, **changes)
        if scope.svg is not None and scope.layer is not None:
            scope.svg.layers.add(scope.layer)
        return scope

    def _is_known_script(self, attributes: str) -> bool:
        """Whether a script element of an explore page names one of the two scripts."""
        values = dict(_ATTRIBUTE.findall(attributes))
        source = posixpath.join(posixpath.dirname(self.file), values.get("src", ""))
        return (
            self.file.endswith(EXPLORE_PAGE)
            and set(values) == {"src", "defer"}
            and posixpath.normpath(source) in SCRIPTS
        )

    def _attributes(self, tag: str, attributes: str, scope: _Scope) -> _Scope:
        """The scope inside an element that stands in `scope`."""
        values = {n.lower(): html.unescape(v) for n, v in _ATTRIBUTE.findall(attributes)}
        layer = values.get("data-layer", scope.layer)
        if "data-layer" in values and layer is not None:
            if not (layer.isascii() and layer.isdigit()):
                self.problem(f"data-layer: expected one layer number, found {layer!r}")
            if scope.layer not in (None, layer):
                self.problem(f"data-layer {layer} inside data-layer {scope.layer}")
        if "data-marks" in values and layer is None:
            self.problem(f"marks of {values['data-marks']}s outside a data-layer")
        quoted = scope.quoted or "data-quoted" in values
        cannot = scope.cannot or "data-cannot-say" in values
        if (layer, quoted, cannot) != (scope.layer, scope.quoted, scope.cannot):
            scope = self._scoped(scope, layer=layer, quoted=quoted, cannot=cannot)
        for name, value in values.items():
            if name.startswith("on") or name in ("style", "srcdoc"):
                self.problem(f"attribute {name} on <{tag}>")
            elif name in LINKS and _EXTERNAL.match(_CONTROLS.sub("", value)):
                self.problem(f"{name} leaves the site: {value[:80]!r}")
            elif name in SPOKEN or (name == "content" and values.get("name") == "description"):
                self._say(value, scope)
        return scope

    def _end(self, tag: str) -> None:
        if tag not in INLINE:
            self._flush()
        if self.stack[-1][0] != tag or len(self.stack) == 1:
            self.problem(f"</{tag}> closes <{self.stack[-1][0]}>")
            return
        self.stack.pop()

    def _data(self, text: str) -> None:
        tag, scope = self.stack[-1]
        space = text.isspace()
        if tag == "script" and not space:
            self.problem("a script inside a page")
        if not (space or scope.quoted):
            self.sentence.append(html.unescape(text) if "&" in text else text)
        elif self.sentence:
            self.sentence.append(" ")

    def _flush(self) -> None:
        if self.sentence:
            self._say("".join(self.sentence), self.stack[-1][1])
            self.sentence.clear()

    def _say(self, text: str, scope: _Scope) -> None:
        if not scope.quoted:
            for problem in said_problems(text, scope.cannot):
                self.problem(problem)


def markup_problems(file: str, text: str) -> list[Problem]:
    """Problems of one page or drawing called `file`."""
    return _Reader(file, text).read()
