"""Contexts and templates to HTML: one strict environment per language.

A template gets the fields of its context's dataclass and the names in GLOBALS, nothing else;
anything undefined is an error, and everything is escaped unless a template asks otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateError, TemplateNotFound
from jinja2.bccache import Bucket, BytecodeCache
from markupsafe import Markup, escape

from atlas.errors import SiteError
from atlas.numbers import text as number_text
from atlas.strings import Lang, Strings
from atlas.visible import shown

GLOBALS = ("t", "range")
"""Names that every template has beside its context: `t(key, **parameters)`, and range."""


class _Templates(BaseLoader):
    """Templates by name from a mapping, so that no template comes from anywhere else."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.sources = sources

    def get_source(
        self, environment: Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        if template not in self.sources:
            raise TemplateNotFound(template)
        return self.sources[template], None, None

    def list_templates(self) -> list[str]:
        return sorted(self.sources)


class _Compiled(BytecodeCache):
    """Compiled templates, in memory; jinja2 looks at the hash of the source before it uses one."""

    def __init__(self) -> None:
        self.code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self.code:
            bucket.bytecode_from_string(self.code[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.code[bucket.key] = bucket.bytecode_to_string()


_COMPILED = _Compiled()
"""One for both languages: a template is compiled once."""


def environment(sources: Mapping[str, str], lang: Lang, strings: Strings) -> Environment:
    """The environment of one language."""
    env = Environment(
        loader=_Templates(sources),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=_COMPILED,
    )

    def t(key: str, **parameters: object) -> str:
        return strings.get(lang, key, **parameters)

    env.globals = {"t": t, "range": range}
    env.filters["number"] = number_text
    env.filters["kept"] = kept
    env.filters["inert"] = Markup
    return env


def kept(text: str) -> Markup:
    """Text of a prompt: escaped, its line breaks and spaces kept, invisible characters shown."""
    safe = escape(shown(text))
    return Markup(str(safe).replace("\n", "&#10;").replace("\t", "&#9;"))


def fields_of(context: Any) -> dict[str, Any]:
    """The top level of a context by field name; nested dataclasses stay as they are."""
    return {f.name: getattr(context, f.name) for f in dataclasses.fields(context)}


def render(env: Environment, template: str, context: Any) -> bytes:
    """Bytes of one page. Raises SiteError naming the template."""
    try:
        text = env.get_template(template).render(fields_of(context))
    except TemplateError as error:
        raise SiteError(f"{template}: {type(error).__name__}: {error}") from error
    return _squeezed(text).encode("utf-8")


def _squeezed(text: str) -> str:
    """Without indentation and empty lines: nothing here shows them, and files get smaller.
    Text that keeps its line breaks (a prompt) carries them as character references."""
    return "\n".join(line.strip(" \t") for line in text.split("\n") if line.strip(" \t")) + "\n"
