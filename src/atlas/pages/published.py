"""Figures that source documents print, kept as printed and not run again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atlas.contract.published import Published, PublishedFigure
from atlas.numbers import COUNT, expert_name
from atlas.pages.frame import Frame, Page, Writer
from atlas.pages.verified import Verified, outcomes, verified
from atlas.shelf import HeldPublished, Model
from atlas.urls import URLS
from atlas.visible import label


@dataclass(frozen=True)
class PrintedRow:
    """One figure: what it measures, of what, as printed, where."""

    anchor: str
    quantity: str
    of: str
    printed: str
    interval: str
    section: str
    note: str
    outcomes: tuple[str, ...]


@dataclass(frozen=True)
class DocumentView:
    """A source document with its figures."""

    anchor: str
    title: str
    name: str
    date: str
    sha256: str
    note: str
    rows: tuple[PrintedRow, ...]


@dataclass(frozen=True)
class PublishedContext:
    """Context of published.html.j2."""

    frame: Frame
    headline: str
    lead: str
    verified: tuple[Verified, ...]
    documents: tuple[DocumentView, ...]


def published_pages(writer: Writer, model: Model, held: HeldPublished) -> Iterator[Page]:
    """The one page."""
    t, published = writer.t, held.published
    path = URLS.published(writer.lang, model.slug)
    headline = t("published.headline", figures=COUNT.text(len(published.figures)))
    context = PublishedContext(
        frame=writer.frame(
            path,
            f"{t('nav.published')} · {model.identity.title}",
            headline,
            crumbs=[*writer.model_crumbs(model), (None, t("nav.published"))],
            model=model,
            sources=[held.file],
        ),
        headline=headline,
        lead=t("published.lead"),
        verified=verified(writer, model, path),
        documents=tuple(
            DocumentView(
                anchor=f"document-{d.document}",
                title=writer.pick(d.title),
                name=d.name,
                date=d.date,
                sha256=d.sha256,
                note=writer.pick(d.note) if d.note is not None else "",
                rows=tuple(_rows(writer, model, published, d.document)),
            )
            for d in published.documents
        ),
    )
    yield Page(path, "published.html.j2", writer.lang, context)


def _rows(
    writer: Writer, model: Model, published: Published, document: str
) -> Iterator[PrintedRow]:
    compared = outcomes(writer, model)
    titles = {q.quantity: writer.pick(q.title) for q in published.quantities}
    for figure in published.figures:
        if figure.document == document:
            interval = figure.interval
            yield PrintedRow(
                anchor=figure.id,
                quantity=titles[figure.quantity],
                of=_of(writer, figure),
                printed=_printed(figure),
                interval=(
                    f"[{figure.text(interval.low)}, {figure.text(interval.high)}]"
                    if interval is not None
                    else ""
                ),
                section=figure.section,
                note=writer.pick(figure.note) if figure.note is not None else "",
                outcomes=compared.get(figure.id, ()),
            )


def _printed(figure: PublishedFigure) -> str:
    """As printed; an expert gets the layer that its document gives it in another place."""
    if figure.kind == "expert" and figure.layer is not None:
        return expert_name(figure.layer, int(str(figure.value)))
    return label(figure.printed)


def _of(writer: Writer, figure: PublishedFigure) -> str:
    parts = []
    if figure.layer is not None:
        parts.append(writer.t("layer.crumb", layer=figure.layer))
    if figure.expert is not None and figure.layer is not None:
        parts.append(expert_name(figure.layer, figure.expert))
    parts += [x for x in (figure.domain, figure.prompt) if x is not None]
    if figure.pair is not None:
        parts.append(" ↔ ".join(figure.pair))
    if figure.weighting is not None:
        parts.append(writer.t(f"chart.{figure.weighting}"))
    return " · ".join(parts)
