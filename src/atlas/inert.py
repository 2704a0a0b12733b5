"""HTML that can do nothing but be read: an explicit list of tags and attributes, by nh3.

Nothing is dropped in silence. What the list does not hold is an error, so that a note never
loses a sentence to its own markup.
"""

from __future__ import annotations

from html.parser import HTMLParser

import nh3

from atlas import formulas
from atlas.visible import shown

TAGS = formulas.TAGS | {
    *("a", "blockquote", "br", "code", "div", "em", "h2", "h3", "h4", "hr", "li", "ol", "p", "pre"),
    *("section", "span", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
ATTRIBUTES: dict[str, set[str]] = {
    **formulas.ATTRIBUTES,
    "a": {"class", "href", "title", "data-source", "data-evidence"},
    "code": {"class"},
    "div": {"class", "tabindex", "role", "aria-label"},
    "h2": {"id"},
    "h3": {"id"},
    "h4": {"id"},
    "li": {"id"},
    "ol": {"start"},
    "pre": {"class"},
    "section": {"class", "data-cannot-say"},
    "span": {"class", "title"},
    "sup": {"id"},
    "td": {"class"},
    "th": {"class", "scope"},
}

_CLEANER = nh3.Cleaner(tags=set(TAGS), attributes=ATTRIBUTES, url_schemes=set(), link_rel=None)

_Event = tuple[str, str, tuple[tuple[str, str | None], ...]]


class LostError(Exception):
    """Markup that would be lost; `tag` is the first tag concerned."""

    def __init__(self, event: _Event) -> None:
        kind, self.tag, attributes = event
        shown = " ".join(f"{name}={value!r}" for name, value in attributes)
        super().__init__(f"{kind} {self.tag[:60]!r} {shown[:120]}".strip())


def cleaned(html: str) -> str:
    """`html` after nh3, control characters and direction marks shown by their code points.

    Raises LostError where nh3 would take something away.
    """
    kept = _CLEANER.clean(html)
    before, after = (events(html), events(kept)) if kept != html else ([], [])
    if before != after:
        pairs = zip(before, after, strict=False)
        raise LostError(next((b for b, a in pairs if a != b), (before or after)[-1]))
    # a character reference may have brought in what the text itself could not hold
    return shown(kept)


class _Events(HTMLParser):
    """Collects events."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.events: list[_Event] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.events.append(("start", tag, tuple(sorted(attrs))))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("br", "hr"):
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        self.events.append(("end", tag, ()))

    def handle_data(self, data: str) -> None:
        if self.events and self.events[-1][0] == "text":
            data = self.events.pop()[1] + data
        self.events.append(("text", data, ()))

    def handle_comment(self, data: str) -> None:
        self.events.append(("comment", data, ()))


def events(html: str) -> list[_Event]:
    """What a page says, apart from how it is spelled: tags, attributes, joined text."""
    parser = _Events()
    parser.feed(html)
    parser.close()
    return parser.events
