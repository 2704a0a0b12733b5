"""Research notes as pages: their text from `atlas.notes`, their figures from the datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from atlas import notes
from atlas.bindings import Resolver, sources
from atlas.contract import Evidence
from atlas.errors import SiteError
from atlas.numbers import COUNT
from atlas.pages.frame import Frame, Link, Page, Writer
from atlas.pages.notefigures import NoteFigure, note_figure
from atlas.shelf import EVIDENCE_ORDER
from atlas.strings import Lang
from atlas.urls import URLS

Texts = Mapping[str, str]
"""Markdown of one language by the note's name."""


@dataclass(frozen=True)
class Part:
    """A piece of a note: HTML that `atlas.notes` made inert, or a figure."""

    html: str
    figure: NoteFigure | None


@dataclass(frozen=True)
class NoteContext:
    """Context of note.html.j2. `toc` entries are (level, link); `kinds` are classes of evidence
    with the text that says how many of the bound numbers are of them."""

    frame: Frame
    headline: str
    toc: tuple[tuple[int, Link], ...]
    parts: tuple[Part, ...]
    bound: str
    kinds: tuple[tuple[Evidence, str], ...]


@dataclass(frozen=True)
class NotesContext:
    """Context of notes.html.j2."""

    frame: Frame
    headline: str
    lead: str
    notes: tuple[tuple[Link, str], ...]


@dataclass(frozen=True)
class Places:
    """Where links of the note at `path` lead."""

    writer: Writer
    path: str

    def source(self, file: str, key: str) -> str:
        """A printed figure's row, or the file on the data page."""
        lang = self.writer.lang
        for model in self.writer.shelf.models:
            held = model.published
            if held is not None and held.file.name == file:
                return URLS.link(self.path, URLS.published(lang, model.slug), key)
        return URLS.link(self.path, URLS.data(lang), file)

    def note(self, name: str, anchor: str) -> str:
        """Another note, or a heading of it."""
        return URLS.link(self.path, URLS.note(self.writer.lang, name), anchor)

    def page(self, name: str) -> str | None:
        """A page by its short name, None for a stranger."""
        lang, (kind, _, slug) = self.writer.lang, name.partition("/")
        plain = {"home": URLS.home, "data": URLS.data, "limits": URLS.limits, "notes": URLS.notes}
        if not slug and kind in plain:
            return URLS.link(self.path, plain[kind](lang))
        model = next((m for m in self.writer.shelf.models if m.slug == slug), None)
        if model is None:
            return None
        targets = {
            "model": (True, URLS.model),
            "compare": (model.corpus is not None, URLS.compare),
            "routes": (model.routes is not None, URLS.routes),
            "trace": (model.trace is not None, URLS.trace),
            "mla": (model.trace is not None, URLS.mla),
        }
        there, target = targets.get(kind, (False, URLS.model))
        return URLS.link(self.path, target(lang, slug)) if there else None


def require_twins(texts: Mapping[Lang, Texts]) -> None:
    """Raise SiteError unless both languages have the same notes."""
    for name in sorted(set(texts["en"]) ^ set(texts["zh"])):
        lang: Lang = "zh" if name in texts["en"] else "en"
        raise SiteError(f"research/{lang}: expected {name}.md beside its twin, found nothing")


def note_pages(writer: Writer, texts: Texts) -> Iterator[Page]:
    """The list of notes and a page per note; nothing without notes."""
    if not texts:
        return
    labels = {e: writer.t(f"evidence.{e}") for e in EVIDENCE_ORDER}
    held = sources(writer.shelf)
    made = {}
    for name in sorted(texts, key=notes.place):
        places = Places(writer, URLS.note(writer.lang, name))
        made[name] = notes.render(texts[name], name, Resolver(held, places, labels), writer.lang)
    notes.check_links(made)
    for name, note in made.items():
        path = URLS.note(writer.lang, name)
        yield Page(path, "note.html.j2", writer.lang, _note(writer, note, path, labels))
    path = URLS.notes(writer.lang)
    context = NotesContext(
        frame=writer.frame(path, writer.t("nav.notes"), writer.t("notes.lead")),
        headline=writer.t("notes.headline"),
        lead=writer.t("notes.lead"),
        notes=tuple(
            (Link(URLS.link(path, URLS.note(writer.lang, name)), note.title), note.lead)
            for name, note in made.items()
        ),
    )
    yield Page(path, "notes.html.j2", writer.lang, context)


def _note(
    writer: Writer, note: notes.Note, path: str, labels: Mapping[Evidence, str]
) -> NoteContext:
    files = {reference.file for reference in note.references}
    figures = iter(range(1, len(note.figures) + 1))
    return NoteContext(
        frame=writer.frame(
            path,
            note.title,
            note.lead,
            crumbs=[(URLS.notes(writer.lang), writer.t("nav.notes")), (None, note.title)],
            sources=[f for f in writer.shelf.files if f.name in files],
        ),
        headline=note.title,
        toc=tuple((h.level, Link(f"#{h.anchor}", h.text)) for h in note.toc if h.level < 4),
        parts=tuple(
            Part(part, None)
            if isinstance(part, str)
            else Part("", note_figure(writer, part, path, f"figure-{next(figures)}"))
            for part in note.parts
        ),
        bound=writer.t("notes.bound", count=COUNT.text(len(note.references))),
        kinds=tuple(
            (evidence, writer.t("notes.kind", count=COUNT.text(count), kind=labels[evidence]))
            for evidence, count in note.evidence
        ),
    )
