"""Python-Markdown as the notes use it: one converter per language, and its spelling of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import unescape

import markdown
from markdown.extensions.toc import slugify_unicode

from atlas.strings import Lang

_BACK: Mapping[Lang, str] = {"en": "Back to the text", "zh": "回到正文"}
_SPELLINGS = {"&#160;": " ", "&#8617;": "↩", "<hr />": "<hr>", "<br />": "<br>"}
"""What Python-Markdown writes and how it stands on a page; a space that may not break would be
shown by its code point."""
_REFUSED_BEFORE = ("image_link", "image_reference", "short_image_ref", "html", "automail")


@dataclass(frozen=True)
class Heading:
    """An entry of the table of contents; `level` is 1 to 6, 1 the title."""

    level: int
    anchor: str
    text: str


def converted(source: str, lang: Lang) -> tuple[str, tuple[Heading, ...]]:
    """HTML and headings of a note whose images and raw HTML were refused (`atlas.prose`)."""
    converter = _converter(lang)
    converter.reset()
    html = converter.convert(source)
    for written, said in _SPELLINGS.items():
        html = html.replace(written, said)
    return html, tuple(_flat(getattr(converter, "toc_tokens", [])))


@cache
def _converter(lang: Lang) -> markdown.Markdown:
    """One for all notes of a language: to make it takes as long as a page of text. What a note
    may not hold is not looked for again."""
    converter = markdown.Markdown(
        extensions=[
            "tables",
            "footnotes",
            "toc",
            "pymdownx.superfences",
            "pymdownx.highlight",
            "pymdownx.arithmatex",
        ],
        extension_configs={
            "footnotes": {"BACKLINK_TITLE": _BACK[lang]},
            "toc": {"slugify": slugify_unicode},
            "pymdownx.highlight": {"use_pygments": False},
            "pymdownx.arithmatex": {"generic": True},
        },
    )
    converter.preprocessors.deregister("html_block")
    for name in _REFUSED_BEFORE:
        converter.inlinePatterns.deregister(name)
    return converter


def _flat(tokens: list[dict[str, object]]) -> Iterator[Heading]:
    for token in tokens:
        yield Heading(int(str(token["level"])), str(token["id"]), unescape(str(token["name"])))
        children = token["children"]
        if isinstance(children, list):
            yield from _flat(children)
