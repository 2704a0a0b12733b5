"""What every page has: language, links, badge, crumbs, sources; and who writes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from atlas.contract.base import Bilingual, Evidence
from atlas.contract.identity import ArtifactFile
from atlas.shelf import Model, Shelf, SourceFile
from atlas.strings import Lang, Strings
from atlas.urls import ICON, ROOT, STYLE, URLS
from atlas.visible import label


@dataclass(frozen=True)
class Link:
    """A link as a template writes it."""

    href: str
    text: str
    current: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Badge:
    """Evidence of a page or figure: class, its name, where it comes from, what it means."""

    evidence: Evidence
    name: str
    detail: str
    meaning: str


@dataclass(frozen=True)
class Source:
    """A dataset that the page's figures are fields of."""

    name: str
    sha256: str
    href: str


@dataclass(frozen=True)
class Frame:
    """Head, header and footer of a page."""

    lang: Lang
    html_lang: str
    title: str
    description: str
    style: str
    icon: str
    home: Link
    nav: tuple[Link, ...]
    other: Link
    crumbs: tuple[Link, ...]
    badge: Badge | None
    demo: bool
    sources: tuple[Source, ...]
    data_page: str


@dataclass(frozen=True)
class Page:
    """One page: its path, its template, and the context that the template gets."""

    path: str
    template: str
    lang: Lang
    context: Any


HTML_LANG: dict[Lang, str] = {"en": "en", "zh": "zh-Hans"}
LANGUAGE_NAME: dict[Lang, str] = {"en": "English", "zh": "中文"}


@dataclass(frozen=True)
class Writer:
    """Writes pages of one language: texts, links and frames."""

    lang: Lang
    strings: Strings
    shelf: Shelf
    has_notes: bool = False

    def t(self, key: str, **parameters: object) -> str:
        """Text of the string table in the writer's language."""
        return self.strings.get(self.lang, key, **parameters)

    def pick(self, text: Bilingual) -> str:
        """The writer's language of a bilingual field, on one line, nothing invisible in it."""
        return label(text.zh if self.lang == "zh" else text.en)

    def badge(self, model: Model, evidence: Evidence | None = None) -> Badge:
        """Evidence badge of a model, or of a page with its own class of evidence; an imported
        record names who made it."""
        record = None
        if model.corpus is not None:
            record = model.corpus.corpus.record
        elif model.routes is not None:
            record = model.routes.routes.record
        evidence = evidence or model.evidence
        detail = (
            self.t("evidence.imported_from", publisher=record.publisher, commit=record.commit[:7])
            if record is not None and evidence == "imported"
            else self.t(f"evidence.{evidence}_detail")
        )
        return Badge(
            evidence, self.t(f"evidence.{evidence}"), detail, self.t(f"evidence.{evidence}_meaning")
        )

    def badges(self, model: Model) -> tuple[Badge, ...]:
        """A badge for each class of evidence among a model's files."""
        return tuple(self.badge(model, evidence) for evidence in model.kinds)

    def domain_title(self, domain: str) -> str:
        """Title of a domain of the corpus experiment; a stranger keeps its short name. A
        document prints figures of domains without a dataset that names them."""
        key = f"corpus_domain.{domain}"
        return self.t(key) if key in self.strings.table else domain

    def frame(
        self,
        path: str,
        title: str,
        description: str,
        *,
        crumbs: Iterable[tuple[str | None, str]] = (),
        model: Model | None = None,
        sources: Iterable[SourceFile] = (),
    ) -> Frame:
        """Frame of the page at `path`. Crumbs are (target path or None, text); the badge shows
        the evidence of the first source."""
        files = tuple(sources)
        evidence = files[0].dataset.evidence if files else None
        pages: tuple[tuple[str, str, str], ...] = (
            (URLS.home(self.lang), "nav.models", "models"),
            *([(URLS.notes(self.lang), "nav.notes", "")] if self.has_notes else []),
            (URLS.data(self.lang), "nav.data", ""),
            (URLS.limits(self.lang), "nav.limits", ""),
        )
        other: Lang = "zh" if self.lang == "en" else "en"
        return Frame(
            lang=self.lang,
            html_lang=HTML_LANG[self.lang],
            title=title,
            description=description,
            style=URLS.link(path, STYLE),
            icon=URLS.link(path, ICON),
            home=Link(URLS.link(path, URLS.home(self.lang)), self.t("site.name")),
            nav=tuple(
                Link(URLS.link(path, target, part), self.t(key), target == path and not part)
                for target, key, part in pages
            ),
            other=Link(
                URLS.link(path, URLS.other_language(path)),
                LANGUAGE_NAME[other],
                hint=HTML_LANG[other],
            ),
            crumbs=tuple(
                Link(URLS.link(path, target) if target else "", text) for target, text in crumbs
            ),
            badge=self.badge(model, evidence) if model is not None else None,
            demo=model.is_demo if model is not None else False,
            sources=tuple(
                Source(file.name, file.sha256, URLS.link(path, URLS.dataset(file.name)))
                for file in files
            ),
            data_page=URLS.link(path, URLS.data(self.lang)),
        )

    def model_crumbs(self, model: Model) -> list[tuple[str | None, str]]:
        """Crumbs down to a model's own page."""
        return [
            (URLS.home(self.lang), self.t("nav.models")),
            (URLS.model(self.lang, model.slug), model.identity.title),
        ]


@dataclass(frozen=True)
class FileRow:
    """One file that a dataset was made from."""

    name: str
    role: str
    bytes: int
    sha256: str
    pinned: bool


def file_rows(files: Iterable[ArtifactFile], t: Any) -> tuple[FileRow, ...]:
    """Rows of an artifact table; a hash that was skipped says so."""
    return tuple(
        FileRow(f.name, t(f"role.{f.role}"), f.bytes, f.sha256 or t("provenance.no_hash"), f.pinned)
        for f in files
    )


__all__ = [
    "Badge",
    "FileRow",
    "Frame",
    "LANGUAGE_NAME",
    "Link",
    "Page",
    "ROOT",
    "Source",
    "Writer",
    "file_rows",
]
