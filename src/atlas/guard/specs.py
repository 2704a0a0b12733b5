"""Vega-Lite specs: no drawing of experts across layers, however it is nested or renamed.

A field carries experts if its name says so, if its values look like expert ids, or if a
transform makes it from such a field. Refused are

- data with experts of more than one layer, or of a layer that cannot be told;
- a line, trail, area, rule or other connected mark with experts on any channel;
- where a spec shows several layers, experts on a channel or a selection that views share.

Data is looked at wherever it stands: inline, named, in a lookup, or in a file of the site.
"""

from __future__ import annotations

import csv
import io
import json
import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from atlas.guard.problem import Problem

CONNECTED = frozenset(
    {
        "line",
        "trail",
        "area",
        "rule",
        "errorband",
        "errorbar",
        "geoshape",
        "arc",
    }
)
SHARED = frozenset(
    {
        "color",
        "fill",
        "stroke",
        "shape",
        "detail",
        "strokedash",
        "opacity",
        "fillopacity",
        "strokeopacity",
        "size",
        "text",
        "key",
        "order",
        "strokewidth",
        "angle",
    }
)
_NAME = re.compile(r"^L(\d+)\W*E\d+$")
_BARE = re.compile(r"^E\d+$")
_NUMBER = re.compile(r"\d+")
_FIELD = re.compile(r"datum(?:\.([A-Za-z_]\w*)|\[\s*['\"]([^'\"]+)['\"]\s*\])")

Rows = list[dict[str, Any]]


def spec_problems(file: str, spec: Any, files: Mapping[str, bytes]) -> list[Problem]:
    """Problems of one spec; `files` are those of the site, for data behind a URL."""
    return [Problem(file, place, text) for place, text in _Spec(file, spec, files).problems()]


@lru_cache(maxsize=1 << 14)
def _fold(name: object) -> str:
    return unicodedata.normalize("NFKC", str(name)).casefold()


class _Spec:
    """One spec with its datasets and the names of fields that carry experts and layers."""

    def __init__(self, file: str, spec: Any, files: Mapping[str, bytes]) -> None:
        self.file, self.spec, self.files = file, spec, files
        self.unread: list[tuple[str, str]] = []
        self.datasets = list(self._datasets(spec, "spec"))
        self.experts = self._carriers("expert", lambda v: bool(_NAME.match(v) or _BARE.match(v)))
        self.layers = self._carriers("layer", lambda v: False)

    def problems(self) -> Iterator[tuple[str, str]]:
        if not isinstance(self.spec, dict):
            yield "spec", "expected an object"
            return
        yield from self.unread
        shown: set[str] = set()
        for place, rows in self.datasets:
            fields = {f for row in rows for f in row}
            if not any(_fold(f) in self.experts for f in fields):
                continue
            found = self._layers_of(rows)
            shown |= found
            if not found:
                yield place, "experts of a layer that cannot be told"
            elif len(found) > 1:
                yield place, f"experts of layers {', '.join(sorted(found))} in one dataset"
        yield from self._views(self.spec, "spec", len(shown) > 1)

    def _datasets(self, node: Any, place: str) -> Iterator[tuple[str, Rows]]:
        """Every dataset below `node`: named ones, inline values, files behind URLs."""
        if isinstance(node, list):
            for i, item in enumerate(node):
                yield from self._datasets(item, f"{place}[{i}]")
        if not isinstance(node, dict):
            return
        for key, value in node.items():
            inner = f"{place}.{key}"
            if key == "datasets" and isinstance(value, dict):
                for name, rows in value.items():
                    yield f"{inner}.{name}", self._rows(rows, inner)
            elif key == "data" and isinstance(value, dict):
                yield from self._source(value, inner)
            elif key != "values":
                yield from self._datasets(value, inner)

    def _source(self, data: dict[str, Any], place: str) -> Iterator[tuple[str, Rows]]:
        if "values" in data:
            yield place, self._rows(data["values"], place)
        elif "url" in data:
            name = posixpath.normpath(
                posixpath.join(posixpath.dirname(self.file), str(data["url"]))
            )
            if name not in self.files:
                self.unread.append((place, f"data that cannot be looked at: {data['url']!r}"))
            else:
                text = self.files[name].decode("utf-8")
                yield place, self._rows(text if name.endswith(".csv") else json.loads(text), place)
        elif "name" not in data:
            self.unread.append((place, f"data that cannot be looked at: {sorted(data)}"))

    def _rows(self, values: Any, place: str) -> Rows:
        if isinstance(values, str):
            return list(csv.DictReader(io.StringIO(values)))
        if isinstance(values, dict):
            values = [values]
        if not isinstance(values, list):
            self.unread.append((place, "data that cannot be looked at"))
            return []
        return [row if isinstance(row, dict) else {"data": row} for row in values]

    def _carriers(self, word: str, looks: Any) -> set[str]:
        """Folded names of fields that carry `word`, followed through transforms."""
        names = {
            _fold(field)
            for _, rows in self.datasets
            for row in rows
            for field, value in row.items()
            if word in _fold(field)
            or (isinstance(value, str) and looks(unicodedata.normalize("NFKC", value).strip()))
        }
        names |= {_fold(f) for f in _fields(self.spec) if word in _fold(f)}
        while True:
            made = {
                _fold(target)
                for sources, targets in _transforms(self.spec)
                if any(_fold(s) in names or word in _fold(s) for s in sources)
                for target in targets
            }
            if made <= names:
                return names
            names |= made

    def _layers_of(self, rows: Rows) -> set[str]:
        found: set[str] = set()
        for row in rows:
            for field, value in row.items():
                text = unicodedata.normalize("NFKC", str(value)).strip()
                name = _NAME.match(text)
                if name is not None:
                    found.add(str(int(name[1])))
                elif _fold(field) in self.layers and value is not None:
                    number = _NUMBER.search(text)
                    found.add(str(int(number[0])) if number is not None else text)
        return found

    def _views(self, node: Any, place: str, several: bool) -> Iterator[tuple[str, str]]:
        """Problems of every view below `node`; encodings reach down into layered views."""
        yield from self._view(node, place, several, {})

    def _view(
        self, node: Any, place: str, several: bool, outer: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        if isinstance(node, list):
            for i, item in enumerate(node):
                yield from self._view(item, f"{place}[{i}]", several, outer)
            return
        if not isinstance(node, dict):
            return
        own = node.get("encoding")
        encoding = {**outer, **own} if isinstance(own, dict) else dict(outer)
        mark = node.get("mark")
        if mark is not None:
            yield from self._mark(mark, encoding, place)
        if several:
            for channel, definition in (own if isinstance(own, dict) else {}).items():
                if _fold(channel) in SHARED and self._carries(definition):
                    yield f"{place}.encoding.{channel}", "experts on a channel across layers"
            for i, parameter in enumerate(_list(node.get("params"))):
                if self._carries(parameter):
                    yield f"{place}.params[{i}]", "experts in a selection across layers"
        for key in ("layer", "concat", "hconcat", "vconcat", "spec"):
            if key in node:
                yield from self._view(node[key], f"{place}.{key}", several, encoding)

    def _mark(
        self, mark: Any, encoding: Mapping[str, Any], place: str
    ) -> Iterator[tuple[str, str]]:
        kind = _fold(mark.get("type", "")) if isinstance(mark, dict) else _fold(mark)
        joined = kind in CONNECTED or (isinstance(mark, dict) and bool(mark.get("line")))
        channels = [c for c, definition in encoding.items() if self._carries(definition)]
        if joined and channels:
            yield f"{place}.mark", f"a {kind} over experts on {', '.join(sorted(channels))}"

    def _carries(self, node: Any) -> bool:
        """Whether a definition uses a field that carries experts, at any depth."""
        return any(_fold(f) in self.experts or "expert" in _fold(f) for f in _fields(node))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _fields(node: Any) -> Iterator[str]:
    """Every field name that a part of a spec uses."""
    if isinstance(node, list):
        for item in node:
            yield from _fields(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in ("field", "groupby", "fields", "fold", "key", "row", "column", "as"):
                yield from (str(v) for v in _list(value) if isinstance(v, str))
            if isinstance(value, str) and "datum" in value:
                yield from (a or b for a, b in _FIELD.findall(value))
            if key not in ("values", "datasets", "data"):
                yield from _fields(value)


def _transforms(node: Any) -> Iterator[tuple[list[str], list[str]]]:
    """(source fields, made fields) of every transform, and of repeats that name fields."""
    if isinstance(node, list):
        for item in node:
            yield from _transforms(item)
    elif isinstance(node, dict):
        for step in _list(node.get("transform")):
            if isinstance(step, dict):
                made = list(_made(step))
                yield [f for f in _fields(step) if f not in made], made
        for key, value in node.items():
            if key not in ("values", "datasets", "data"):
                yield from _transforms(value)


def _made(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from _made(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "as":
                yield from (str(v) for v in _list(value))
            else:
                yield from _made(value)
