"""The dataset card: what the data folder is, how it came to be, what it may be used for.

One content, two forms: a page of the site, and Markdown for whoever takes the folder away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from atlas.contract import Routes, RoutingCorpus
from atlas.croissant import CITATION, LICENCE, TITLE, licence_of
from atlas.numbers import COUNT
from atlas.pages.frame import Frame, Link, Page, Writer
from atlas.pages.limits import CANNOT, PAIRS
from atlas.shelf import EVIDENCE_ORDER
from atlas.urls import URLS


@dataclass(frozen=True)
class CardFile:
    """One dataset."""

    name: str
    href: str
    evidence: str
    evidence_name: str
    bytes: str
    sha256: str
    licence: str


@dataclass(frozen=True)
class CardSection:
    """A heading with its text and list; `cannot` says that the list may not be said."""

    title: str
    text: str
    items: tuple[str, ...] = ()
    cannot: bool = False


@dataclass(frozen=True)
class DataCardContext:
    """Context of data_card.html.j2. `after` are the sections below the table of files."""

    frame: Frame
    headline: str
    lead: str
    downloads: tuple[Link, ...]
    before: tuple[CardSection, ...]
    files: tuple[CardFile, ...]
    after: tuple[CardSection, ...]
    citation: str


def data_card_page(writer: Writer) -> Page:
    """The card's page in the writer's language."""
    path = URLS.data_card(writer.lang)
    return Page(path, "data_card.html.j2", writer.lang, _context(writer, path))


def data_card_text(writer: Writer) -> bytes:
    """The card as Markdown, with the front matter that dataset hubs read."""
    t = writer.t
    context = _context(writer, URLS.data_card_text(writer.lang))
    lines = ["---", f"pretty_name: {TITLE!r}", "license: mit", "language:", "- en", "- zh"]
    lines += ["tags:", "- mixture-of-experts", "- expert-routing", "---", ""]
    lines += [f"# {_plain(context.headline)}", "", _plain(context.lead), ""]
    for section in context.before:
        lines += _markdown(section)
    heads = [t("datacard.file"), t("datacard.evidence"), t("data.bytes"), "SHA-256"]
    heads.append(t("data.licence"))
    lines += [f"## {_plain(t('datacard.files'))}", "", _row(heads), _row(["---"] * len(heads))]
    for file in context.files:
        link = f"[{_plain(file.name)}]({file.href})"
        rest = [_plain(file.evidence_name), file.bytes, f"`{file.sha256}`", _plain(file.licence)]
        lines.append(_row([link, *rest]))
    lines.append("")
    for section in context.after:
        lines += _markdown(section)
    lines += [f"## {_plain(t('data.cite'))}", "", _plain(t("datacard.cite_text")), ""]
    lines += ["```bibtex", context.citation, "```", ""]
    return "\n".join(lines).encode("utf-8")


def _context(writer: Writer, path: str) -> DataCardContext:
    t = writer.t
    page = URLS.data_card(writer.lang)
    return DataCardContext(
        frame=writer.frame(
            page,
            t("datacard.title"),
            t("datacard.lead"),
            crumbs=[(URLS.data(writer.lang), t("data.title")), (None, t("datacard.title"))],
        ),
        headline=t("datacard.headline"),
        lead=t("datacard.lead"),
        downloads=card_links(writer, path)[1:],
        before=tuple(_before(writer)),
        files=tuple(
            CardFile(
                name=file.name,
                href=URLS.link(path, URLS.dataset(file.name)),
                evidence=file.dataset.evidence,
                evidence_name=t(f"evidence.{file.dataset.evidence}"),
                bytes=COUNT.text(file.bytes),
                sha256=file.sha256,
                licence=licence_of(file) or "–",
            )
            for file in writer.shelf.files
        ),
        after=tuple(_after(writer)),
        citation=CITATION,
    )


def card_links(writer: Writer, path: str) -> tuple[Link, ...]:
    """The card and its two forms for taking away, as the page `path` links them."""
    t = writer.t
    return (
        Link(URLS.link(path, URLS.data_card(writer.lang)), t("datacard.title")),
        Link(URLS.link(path, URLS.data_card_text(writer.lang)), t("datacard.markdown")),
        Link(URLS.link(path, URLS.croissant), t("datacard.croissant")),
    )


def _before(writer: Writer) -> Iterator[CardSection]:
    t = writer.t
    yield CardSection(t("datacard.purpose"), t("datacard.purpose_text"))
    yield CardSection(
        t("datacard.content"),
        t("datacard.content_text"),
        tuple(t(f"datacard.content_{kind}") for kind in ("corpus", "trace", "routes", "rest")),
    )


def _after(writer: Writer) -> Iterator[CardSection]:
    t = writer.t
    kinds = {file.dataset.evidence for file in writer.shelf.files}
    colon = t("datacard.colon")
    yield CardSection(
        t("datacard.made"),
        t("datacard.made_text"),
        tuple(
            t(f"evidence.{e}") + colon + t(f"evidence.{e}_meaning")
            for e in EVIDENCE_ORDER
            if e in kinds
        ),
    )
    yield CardSection(t("datacard.people"), t("datacard.people_text"))
    yield CardSection(
        t("datacard.uses"),
        t("datacard.uses_text"),
        tuple(t(f"limits.can_{name}") for name in PAIRS),
    )
    yield CardSection(
        t("datacard.not_uses"),
        t("datacard.not_uses_text"),
        (
            *(t(f"limits.not_{name}") for name in PAIRS),
            *(t(f"limits.cannot_{name}") for name in CANNOT),
        ),
        cannot=True,
    )
    missing = dict.fromkeys(
        writer.pick(text)
        for file in writer.shelf.files
        if isinstance(file.dataset, RoutingCorpus | Routes) and file.dataset.record is not None
        for text in file.dataset.record.not_recorded
    )
    if missing:
        yield CardSection(
            t("provenance.not_recorded"), t("datacard.missing_text"), tuple(missing), cannot=True
        )
    yield CardSection(t("datacard.upkeep"), t("datacard.upkeep_text"))
    yield CardSection(t("data.licence"), t("datacard.licence_text", licence=LICENCE))


def _markdown(section: CardSection) -> list[str]:
    lines = [f"## {_plain(section.title)}", "", _plain(section.text), ""]
    if section.items:
        lines += [*(f"- {_plain(item)}" for item in section.items), ""]
    return lines


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text that Markdown shows as it stands: nothing in it begins markup or HTML."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)
