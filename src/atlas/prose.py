"""Rules about the text of a note, line by line: structure, and numbers that stand loose.

A number is loose if it has a decimal point, is a percentage, or is an integer above 99, and
stands in the text itself. It then has to be bound to a field or declared a literal, because
it would not change when the dataset does. Numbers that are none, and stay free:

- integers up to 99, fractions of them such as 1/64;
- code points shown in place of hidden characters, such as ⟨U+202E⟩;
- code, addresses, targets of links, names of footnotes, hashes of 7 hexadecimal digits or more
  (letters and digits), arXiv ids, versions of three parts such as 4.41.2;
- dates such as 2026-07-29, a year followed by 年 or after in, of, since, from, year;
- whole numbers that are part of a name: L4·E29, BF16, SHA-256, top-6, GSM8K;
- the 95 % of "95 % interval", which names the interval.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from atlas.references import MARK

_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})")
_CODE_SPAN = re.compile(
    r"(?<![`\\])(?P<ticks>`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)(?P=ticks)(?!`)", re.S
)
_ITEM = re.compile(r"(?P<indent> *)(?:[-*+]|\d{1,9}[.)])\s+\S")
_DELIMITER = re.compile(r" {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*|\s*\|\s*:?-+:?\s*\|\s*")
_IMAGE = re.compile(r"!\[")
_BRACES = re.compile(r"\{\{")
_RAW = re.compile(r"<(?!https?://)[A-Za-z/!?][^<>\n]*>?")
_FOOTNOTE_USE = re.compile(r"\[\^(?P<name>[^\]\s]+)\](?!:)")
_FOOTNOTE_TEXT = re.compile(r"^\[\^(?P<name>[^\]\s]+)\]:", re.M)

_UNSEEN = re.compile("[*\\\\\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_FREE = re.compile(
    r"https?://\S+|⟨U\+[0-9A-F]+⟩"
    r"|\]\([^)\s]*\)|\[\^[^\]\s]+\]"
    r"|arXiv[: ]\d{4}\.\d{4,5}"
    r"|\d{4}-\d{2}-\d{2}(?:T[0-9:.]+(?:Z|[+-]\d{2}:\d{2})?)?"
    r"|(?:19|20)\d{2}(?=\s?年)|(?<=\bin )(?:19|20)\d{2}\b|(?<=\bof )(?:19|20)\d{2}\b"
    r"|(?<=\bsince )(?:19|20)\d{2}\b|(?<=\bfrom )(?:19|20)\d{2}\b|(?<=\byear )(?:19|20)\d{2}\b"
    r"|(?<![\d.])\d+\.\d+\.\d+[A-Za-z0-9.+]*"
    r"|(?<![A-Za-z0-9])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7,64}(?![A-Za-z0-9])"
    r"|[A-Za-z][A-Za-z_]*-?\d+(?![\d.,]*\d|\s?%)"
    r"|(?<![\d.])95\s?%(?=\s?(?:bootstrap|percentile|confidence|BCa|interval|自助|百分位|置信|区间))"
)
_NUMBER = re.compile(
    r"(?P<digits>\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?P<percent>\s?(?:%|‰|per\s?cent\b))?"
)
_LARGEST_FREE = 99
_PERHAPS = re.compile(r"\d{3}|\.\d|\d,\d|[%‰]|cent\b")
"""Every loose number has one of these in its line."""


@dataclass(frozen=True)
class Fault:
    """Something that a note may not contain, by its line (from 1)."""

    line: int
    text: str


def line_of(text: str, offset: int) -> int:
    """Line of a place in `text`, from 1."""
    return text.count("\n", 0, offset) + 1


def masked(text: str) -> str:
    """`text` with code blocks and code spans blanked, every other character in its place."""
    lines, fence = [], ""
    for line in text.split("\n"):
        opening = _FENCE.match(line)
        if fence:
            closed = opening is not None and opening["fence"].startswith(fence)
            if closed and not line.strip().strip(fence[0]):
                fence = ""
            lines.append(" " * len(line))
        elif opening is not None:
            fence = opening["fence"]
            lines.append(" " * len(line))
        else:
            lines.append(line)
    return _CODE_SPAN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), "\n".join(lines))


def structure_faults(text: str) -> Iterator[Fault]:
    """Lists and tables that Markdown would run into the text above, raw HTML, loose footnotes.

    `text` is masked.
    """
    lines = text.split("\n")
    inside = False
    for number, line in enumerate(lines, 1):
        above = lines[number - 2] if number > 1 else ""
        item = _ITEM.match(line)
        if not line.strip():
            # a list goes on after an empty line only with another item or an indented line
            after = lines[number] if number < len(lines) else ""
            inside = inside and (after.startswith(" ") or _ITEM.match(after) is not None)
        elif item is not None:
            if not inside and above.strip():
                yield Fault(number, "expected an empty line above the list, found text")
            if len(item["indent"]) % 4:
                found = len(item["indent"])
                yield Fault(number, f"expected a list indented by 4 spaces or none, found {found}")
            inside = True
        if _DELIMITER.fullmatch(line) and "|" in above:
            before = lines[number - 3] if number > 2 else ""
            if before.strip():
                yield Fault(number - 1, "expected an empty line above the table, found text")
    for match in _RAW.finditer(text):
        yield Fault(
            line_of(text, match.start()), f"expected Markdown, found raw HTML {match[0][:40]!r}"
        )
    for match in _IMAGE.finditer(text):
        yield Fault(line_of(text, match.start()), "expected ::figure, found an image")
    for match in _BRACES.finditer(MARK.sub(lambda m: " " * len(m[0]), text)):
        yield Fault(
            line_of(text, match.start()),
            f"expected {{{{ … }}}} on one line, found {match[0]} alone",
        )
    yield from _footnote_faults(text)


def _footnote_faults(text: str) -> Iterator[Fault]:
    uses = {m["name"]: m.start() for m in reversed(list(_FOOTNOTE_USE.finditer(text)))}
    texts: dict[str, int] = {}
    for match in _FOOTNOTE_TEXT.finditer(text):
        if match["name"] in texts:
            yield Fault(
                line_of(text, match.start()),
                f"expected one text of the footnote {match['name']!r}, found two",
            )
        texts.setdefault(match["name"], match.start())
    for name in sorted(uses.keys() - texts.keys()):
        yield Fault(
            line_of(text, uses[name]), f"expected a text of the footnote {name!r}, found none"
        )
    for name in sorted(texts.keys() - uses.keys()):
        yield Fault(
            line_of(text, texts[name]), f"expected a use of the footnote {name!r}, found none"
        )


@dataclass(frozen=True)
class Loose:
    """A loose number as written, percent sign included, by its line."""

    line: int
    text: str


def loose_numbers(text: str) -> Iterator[Loose]:
    """Loose numbers of a masked text, references and literals aside; see the module."""
    for number, line in enumerate(MARK.sub(" ", text).split("\n"), 1):
        # a full-width comma parts two numbers and would become one that joins them
        line = unicodedata.normalize("NFKC", html.unescape(line).replace("，", "、"))
        line = _UNSEEN.sub("", line)
        if not _PERHAPS.search(line):
            continue
        line = _FREE.sub(" ", line)
        for match in _NUMBER.finditer(line):
            digits = match["digits"]
            if match["percent"] or "." in digits or int(digits.replace(",", "")) > _LARGEST_FREE:
                yield Loose(number, digits + ("%" if match["percent"] else ""))
