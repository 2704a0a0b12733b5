"""Research notes: Markdown to inert HTML, with bound numbers, formulas and places for figures.

`render` is pure: text in, `Note` out, the same for the same datasets. What a note may hold is
narrower than Markdown, so that nothing is lost in silence: raw HTML, an unknown TeX command, a
list run into the paragraph above it, a link that leaves the site or leads nowhere, a number
that no dataset would change — each is an error of one line that names note and line.

Beyond Markdown there are

- `{{ … }}`, a bound number or a literal: see `atlas.references`, `atlas.bindings`;
- `::figure kind=load dataset=esft layer=4 domain=law`, a line of its own: a place for a figure,
  handed to the site as a `Figure` between the pieces of HTML;
- `::cannot` and `::end`, lines of their own: what stands between them cannot be said, and is
  marked so (`data-cannot-say`);
- links `other-note.md`, `other-note.md#heading`, `#heading`, `page:limits`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape, unescape
from itertools import islice
from urllib.parse import unquote

from atlas import formulas
from atlas.bindings import INTERVALS, BindingError, Bound, Resolver
from atlas.contract import Evidence
from atlas.converter import Heading, converted
from atlas.errors import SiteError
from atlas.figures import Figure, figure_of
from atlas.inert import LostError, cleaned
from atlas.prose import Fault, line_of, loose_numbers, masked, structure_faults
from atlas.references import MARK, GrammarError, Literal, parse
from atlas.shelf import EVIDENCE_ORDER
from atlas.strings import Lang
from atlas.visible import shown

_FIRST = 0xE000
"""Private-use characters stand for bound numbers while Markdown is at work; a note that
contains one shows its code point instead, so that none can be forged."""
_PLACE = re.compile("[\ue000-\uf8ff]")
_BLOCK = re.compile("<p>([\ue000-\uf8ff])</p>")
_LINE = re.compile(r"^::(?P<rest>.*)$", re.M)
_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[\[(](?P<latex>.*?)\\[\])]</(?P=tag)>', re.S
)
_ALIGN = re.compile(r'<(t[dh]) style="text-align: (left|right|center);">')
_HEADING = re.compile(r"<h1 [^>]*>(?P<title>.*?)</h1>\n?", re.S)
_LEAD = re.compile(r"<p>(.*?)</p>", re.S)

_NAMES: Mapping[Lang, Mapping[str, str]] = {
    "en": {"formula": "Formula", "table": "Table"},
    "zh": {"formula": "公式", "table": "表"},
}
"""What a screen reader calls a place that scrolls."""

ORDER = ("esft", "trace", "corpus", "reading", "limits")
"""Notes in the order of a reader: the real record first, limits last."""


@dataclass(frozen=True)
class NoteLink:
    """A link to another note, to be checked once all of them are there; see `check_links`."""

    line: int
    note: str
    anchor: str


@dataclass(frozen=True)
class Note:
    """A note as the site shows it. `parts` are pieces of HTML and figures in their order;
    `lead` is its first paragraph as plain text, the conclusion."""

    name: str
    lang: Lang
    title: str
    lead: str
    parts: tuple[str | Figure, ...]
    toc: tuple[Heading, ...]
    references: tuple[Bound, ...]
    anchors: frozenset[str]
    links: tuple[NoteLink, ...]

    @property
    def html(self) -> str:
        """The pieces of HTML without the figures."""
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def evidence(self) -> tuple[tuple[Evidence, int], ...]:
        """Kinds of evidence of the bound numbers with how many of each, real evidence first."""
        counted = Counter(bound.evidence for bound in self.references)
        return tuple((e, counted[e]) for e in EVIDENCE_ORDER if e in counted)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures, in their order."""
        return tuple(part for part in self.parts if isinstance(part, Figure))


def render(text: str, name: str, resolve: Resolver, language: Lang) -> Note:
    """The note `name` in one language. Raises SiteError naming note and line."""
    return _Rendering(text, name, resolve, language).note()


def place(name: str) -> tuple[int, str]:
    """Sort key of notes: those of ORDER first, then the others by name."""
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def check_links(notes: Mapping[str, Note]) -> None:
    """Raise SiteError for a link of one of `notes` (by name) to a note or heading that is not
    there."""
    for note in notes.values():
        for link in note.links:
            target = notes.get(link.note)
            where = f"research/{note.lang}/{note.name}.md, line {link.line}"
            if target is None:
                known = ", ".join(sorted(notes))
                raise SiteError(f"{where}: expected a note ({known}), found {link.note!r}")
            if link.anchor and link.anchor not in target.anchors:
                raise SiteError(
                    f"{where}: expected a heading of {link.note}.md, found #{link.anchor}"
                )


class _Rendering:
    """One note on its way; `places` are what private-use characters stand for."""

    def __init__(self, text: str, name: str, resolve: Resolver, lang: Lang) -> None:
        self.name, self.resolve, self.lang = name, resolve, lang
        lines = text.replace("\r\n", "\n").replace("\r", "\n")
        self.text = shown(lines)
        self.lines = self.text.split("\n")
        self.masked = masked(self.text)
        self.places: list[str | Figure] = []
        self.references: list[Bound] = []
        self.links: list[NoteLink] = []

    def refuse(self, line: int, problem: str) -> SiteError:
        return SiteError(f"research/{self.lang}/{self.name}.md, line {line}: {problem}")

    def note(self) -> Note:
        """Steps in order: rules on the text, marks out, Markdown, marks in, nh3, checks."""
        self._check_prose()
        source = self._without_blocks(self._without_references())
        html, toc = self._markdown(source)
        title, html = self._titled(html)
        html = _FORMULA.sub(self._formula, html)
        html = _ALIGN.sub(r'<\1 class="align-\2">', html).replace("<th", '<th scope="col"')
        html = html.replace('<th scope="col"ead', "<thead")
        opened = _scrolling("scroll", _NAMES[self.lang]["table"])
        html = html.replace("<table>", f"{opened}<table>").replace("</table>", "</table></div>")
        html = self._linked(html)
        parts = tuple(self._parts(html))
        whole = "".join(part for part in parts if isinstance(part, str))
        lead = _LEAD.search(whole)
        if lead is None:
            raise self.refuse(1, "expected a first paragraph with the conclusion, found none")
        return Note(
            name=self.name,
            lang=self.lang,
            title=title,
            lead=unescape(re.sub(r"<[^>]*>", "", lead[1])),
            parts=parts,
            toc=toc,
            references=tuple(self.references),
            anchors=frozenset(re.findall(r' id="([^"]*)"', whole)),
            links=tuple(self.links),
        )

    def _check_prose(self) -> None:
        faults = sorted(structure_faults(self.masked), key=lambda f: f.line)
        faults += [self._loose(line, number) for line, number in islice(self._loose_numbers(), 1)]
        if faults:
            first = min(faults, key=lambda f: f.line)
            raise self.refuse(first.line, first.text)

    def _loose_numbers(self) -> Iterator[tuple[int, str]]:
        text = re.sub(r"^::figure .*$", "", self.masked, flags=re.M)
        for loose in loose_numbers(text):
            yield loose.line, loose.text

    def _loose(self, line: int, number: str) -> Fault:
        known = self.resolve.knows(number)
        if known is not None:
            return Fault(line, f"expected a bound number, found {number} loose: {known} has it")
        return Fault(
            line,
            f"expected a bound number or {{{{ literal {number} : why }}}}, found {number} loose",
        )

    def _placed(self, content: str | Figure) -> str:
        if len(self.places) > 0xF8FF - _FIRST:
            raise self.refuse(1, f"expected fewer numbers and figures, found {len(self.places)}")
        self.places.append(content)
        return chr(_FIRST + len(self.places) - 1)

    def _without_references(self) -> str:
        """The text with every mark outside code replaced by its character."""
        pieces, last, line = [], 0, 1
        points: set[tuple[int, str]] = set()
        for match in MARK.finditer(self.masked):
            line += self.text.count("\n", last, match.start())
            pieces.append(self.text[last : match.start()])
            pieces.append(self._mark(match["inner"], line, points))
            last = match.end()
        return "".join([*pieces, self.text[last:]])

    def _mark(self, inner: str, line: int, points: set[tuple[int, str]]) -> str:
        if self.lines[line - 1].startswith("#"):
            raise self.refuse(line, "expected a heading without a bound number, found one")
        try:
            parsed = parse(inner)
            if isinstance(parsed, Literal):
                return self._placed(self.resolve.literal(parsed))
            bound = self.resolve.bind(parsed)
        except (GrammarError, BindingError) as error:
            raise self.refuse(line, str(error)) from error
        block = self._block(line)
        if parsed.format in INTERVALS and (block, bound.path) not in points:
            raise self.refuse(
                line, f"expected the point of {bound.path} before its interval, found none"
            )
        points.add((block, bound.path))
        self.references.append(bound)
        return self._placed(bound.html)

    def _block(self, line: int) -> int:
        """First line of the paragraph or item around `line`; a row of a table is its own."""
        lines = self.lines
        while not lines[line - 1].startswith("|") and line > 1 and lines[line - 2].strip():
            line -= 1
        return line

    def _without_blocks(self, text: str) -> str:
        """`text` with the lines that begin with `::` replaced by their characters."""
        open_line = 0
        lines = text.split("\n")
        for number, (line, seen) in enumerate(zip(lines, self.masked.split("\n"), strict=True), 1):
            if not seen.startswith("::"):
                continue
            around = [lines[number - 2] if number > 1 else "", *lines[number : number + 1]]
            if any(neighbour.strip() for neighbour in around):
                raise self.refuse(number, f"expected empty lines around {line[:40]!r}, found text")
            if line.rstrip() == "::cannot" and not open_line:
                open_line = number
                content: str | Figure = '<section class="cannot" data-cannot-say="">'
            elif line.rstrip() == "::end" and open_line:
                open_line, content = 0, "</section>"
            elif line.startswith("::figure") and not open_line:
                content = self._figure(line, number)
            else:
                raise self.refuse(
                    number, f"expected ::figure, or ::cannot and then ::end, found {line[:40]!r}"
                )
            lines[number - 1] = self._placed(content)
        if open_line:
            raise self.refuse(open_line, "expected ::end after ::cannot, found none")
        return "\n".join(lines)

    def _figure(self, line: str, number: int) -> Figure:
        try:
            figure = figure_of(line)
        except ValueError as error:
            raise self.refuse(number, str(error)) from error
        if not self.resolve.has(figure.dataset, figure.layer, figure.domain):
            raise self.refuse(
                number, f"expected a dataset with this layer and domain, found none: {line[:80]}"
            )
        return figure

    def _markdown(self, source: str) -> tuple[str, tuple[Heading, ...]]:
        html, headings = converted(source, self.lang)
        toc = tuple(h for h in headings if h.level > 1)
        if len(toc) != len(headings) - 1 or headings[0].level != 1:
            found = len(headings) - len(toc)
            raise self.refuse(1, f"expected one title (#) above all headings, found {found}")
        return html, toc

    def _titled(self, html: str) -> tuple[str, str]:
        match = _HEADING.match(html)
        if match is None:
            raise self.refuse(1, "expected the title (#) as the first line, found text")
        return unescape(re.sub(r"<[^>]*>", "", match["title"])), html[match.end() :]

    def _formula(self, match: re.Match[str]) -> str:
        latex = unescape(match["latex"]).strip()
        line = self._found(_PLACE.split(latex.split("\n")[0])[0])
        if _PLACE.search(latex):
            raise self.refuse(line, "expected numbers bound in the text, found one in a formula")
        try:
            made = formulas.mathml(latex, block=match["tag"] == "div")
        except formulas.FormulaError as error:
            raise self.refuse(line, str(error)) from error
        if match["tag"] == "span":
            return made
        return f"{_scrolling('formula', _NAMES[self.lang]['formula'])}{made}</div>"

    def _linked(self, html: str) -> str:
        """Links as the site writes them; a bound number may not stand in one."""
        anchors = set(re.findall(r' id="([^"]*)"', html))

        def link(match: re.Match[str]) -> str:
            target = unescape(match["href"])
            line = self._found(target)
            if _PLACE.search(match[0]):
                raise self.refuse(line, "expected a link without a bound number, found one")
            if target.startswith("#"):
                if unquote(target[1:]) not in anchors:
                    raise self.refuse(line, f"expected a heading of this note, found {target!r}")
                return match[0]
            return (
                f'<a{match["before"]} href="{escape(self._target(target, line))}"' + match["rest"]
            )

        pattern = r'<a(?P<before>[^>]*?) href="(?P<href>[^"]*)"(?P<rest>[^>]*>.*?</a>)'
        return re.sub(pattern, link, html, flags=re.S)

    def _target(self, target: str, line: int) -> str:
        note = re.fullmatch(r"(?P<note>[a-z0-9-]+)\.md(?:#(?P<anchor>.+))?", target)
        if note is not None:
            anchor = unquote(note["anchor"] or "")
            self.links.append(NoteLink(line, note["note"], anchor))
            return self.resolve.places.note(note["note"], anchor)
        page = self.resolve.places.page(target[5:]) if target.startswith("page:") else None
        if page is None:
            raise self.refuse(
                line,
                "expected a link to another note (name.md), a heading (#heading) or a page "
                f"(page:name), found {target[:60]!r}",
            )
        return page

    def _parts(self, html: str) -> Iterator[str | Figure]:
        """HTML cut at the figures, marks put in, cleaned; it may lose nothing by that."""
        held: list[str] = []
        for piece in re.split(f"({_BLOCK.pattern.replace('(', '(?:')})", html):
            block = _BLOCK.fullmatch(piece)
            content = self._content(block[1]) if block is not None else None
            if isinstance(content, Figure):
                yield self._clean("".join(held))
                held = []
                yield content
            elif content is not None and content.startswith(("<section", "</section")):
                held.append(content)
            else:
                held.append(_PLACE.sub(lambda m: str(self._content(m[0])), piece))
        yield self._clean("".join(held))

    def _content(self, place: str) -> str | Figure:
        return self.places[ord(place) - _FIRST]

    def _clean(self, html: str) -> str:
        try:
            return cleaned(html)
        except LostError as error:
            line = self._found(f"<{error.tag}")
            raise self.refuse(line, f"expected text that is safe to show, found {error}") from error

    def _found(self, text: str) -> int:
        """Line of the first place where `text` stands, 1 if it is nowhere as it is."""
        at = self.text.find(text)
        return line_of(self.text, at) if at >= 0 else 1


def _scrolling(kind: str, name: str) -> str:
    """The start of what scrolls where it is wider than a phone: the keyboard has to reach it."""
    return f'<div class="{kind}" tabindex="0" role="group" aria-label="{name}">'
