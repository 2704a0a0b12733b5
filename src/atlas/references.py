"""What stands between `{{` and `}}` in a note, as data: a reference or a literal.

    reference = alias step* [ "|" format ]
    step      = "." name [ "(" argument ("," argument)* ")" ]
    literal   = "literal" number ":" why

A parser of its own and nothing else: no expression is ever evaluated. What a reference means
is said by `atlas.fields`, what it looks like by `atlas.bindings`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

MARK = re.compile(r"\{\{(?P<inner>[^\n]*?)\}\}")
"""A reference or literal in a note; it may not run over a line."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*"
_ARGUMENT = r"[A-Za-z0-9_.:-]+"
_STEP = re.compile(rf"\.(?P<name>{_NAME})(?:\((?P<arguments>[^()]*)\))?")
_ALIAS = re.compile(_NAME)
_LITERAL = re.compile(r"literal\s+(?P<text>[^:\s][^:]*?)\s*:\s*(?P<why>.*)", re.DOTALL)


class GrammarError(Exception):
    """A text between braces that is neither a reference nor a literal: expected, found."""


@dataclass(frozen=True)
class Step:
    """One step from a dataset to a field: `.cv`, `.layer(4)`, `.jsd(law,intent)`."""

    name: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name + (f"({','.join(self.arguments)})" if self.arguments else "")


@dataclass(frozen=True)
class Reference:
    """A field of a dataset and the format to show it in (None: the field's own)."""

    alias: str
    steps: tuple[Step, ...]
    format: str | None = None

    @property
    def path(self) -> str:
        """`esft.layer(4).law.cv`: the field, without a format."""
        return ".".join([self.alias, *map(str, self.steps)])


@dataclass(frozen=True)
class Literal:
    """A number that is no field of a dataset, and why it may stand here."""

    text: str
    why: str


# the same fields are named in both languages, and again and again in one
@lru_cache(maxsize=4096)
def parse(inner: str) -> Reference | Literal:
    """The reference or literal in `inner`, the text between the braces. Raises GrammarError."""
    inner = inner.strip()
    if re.match(r"literal\b", inner):
        match = _LITERAL.fullmatch(inner)
        if match is None or not match["why"].strip():
            raise GrammarError(f"expected `literal NUMBER : why`, found {inner[:80]!r}")
        return Literal(match["text"], match["why"].strip())
    path, bar, form = (part.strip() for part in inner.partition("|"))
    if bar and not re.fullmatch(_NAME, form):
        raise GrammarError(f"expected one format after the bar, found {form[:80]!r}")
    alias = _ALIAS.match(path)
    if alias is None:
        raise GrammarError(f"expected `alias.name(argument)…`, found {inner[:80]!r}")
    steps, at = [], alias.end()
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise GrammarError(f"expected `.name` or `.name(argument)`, found {path[at:][:80]!r}")
        steps.append(Step(match["name"], _arguments(match["arguments"])))
        at = match.end()
    if not steps:
        raise GrammarError(f"expected a field of {alias[0]!r}, found none")
    return Reference(alias[0], tuple(steps), form or None)


def _arguments(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    arguments = tuple(part.strip() for part in text.split(","))
    for argument in arguments:
        if not re.fullmatch(_ARGUMENT, argument):
            raise GrammarError(f"expected a number or a name in brackets, found {argument[:80]!r}")
    return arguments
