"""The one string table, zh and en, read from templates/strings.toml.

A key holds both languages side by side; a missing key, language or parameter is an error.
Texts are plain text with `{name}` parameters: they are escaped where they are shown.
"""

from __future__ import annotations

import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from atlas.errors import SiteError

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, ...] = ("en", "zh")


@dataclass(frozen=True)
class Strings:
    """Texts by key and language."""

    table: Mapping[str, Mapping[str, str]]

    def get(self, lang: Lang, key: str, **parameters: object) -> str:
        """The text of `key`. Raises SiteError for an unknown key or a wrong parameter."""
        entry = self.table.get(key)
        if entry is None:
            raise SiteError(f"strings.toml: expected the key {key!r}, found nothing")
        text = entry[lang]
        expected = parameters_of(text)
        if expected != set(parameters):
            raise SiteError(
                f"strings.toml: {key}: expected parameters {sorted(expected)}, "
                f"found {sorted(parameters)}"
            )
        return text.format_map(parameters)


def parameters_of(text: str) -> set[str]:
    """Names of the `{name}` parameters in `text`."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def parse_strings(data: bytes) -> Strings:
    """The table of a TOML file. Raises SiteError for a key that lacks a language."""
    try:
        raw = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SiteError(f"strings.toml: expected TOML: {error}") from error
    table: dict[str, dict[str, str]] = {}
    for section, entries in raw.items():
        for name, entry in entries.items():
            key = f"{section}.{name}"
            if not isinstance(entry, dict) or set(entry) != set(LANGS):
                raise SiteError(f"strings.toml: {key}: expected en and zh, found {entry!r}"[:300])
            if parameters_of(entry["en"]) != parameters_of(entry["zh"]):
                raise SiteError(f"strings.toml: {key}: expected the same parameters in en and zh")
            table[key] = {lang: entry[lang] for lang in LANGS}
    return Strings(table)
