"""A printed figure as pages show it: characters, interval, its row, its file.

Each links to its row on the page of published figures and names its file, so that a changed
digit changes what is shown and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from atlas.contract.published import PrintedInterval, PublishedFigure
from atlas.numbers import expert_name
from atlas.pages.frame import Writer
from atlas.shelf import HeldPublished, Model
from atlas.urls import URLS
from atlas.visible import label


@dataclass(frozen=True)
class Printed:
    """A printed figure as a page shows it: characters, interval, its row, file and id."""

    text: str
    interval: str
    href: str
    file: str
    title: str


@dataclass(frozen=True)
class Origin:
    """Where figures of one block were printed, and the file that keeps them."""

    document: str
    name: str
    sections: str
    file: str
    sha256: str
    href: str


@dataclass(frozen=True)
class Reader:
    """Looks printed figures up and turns them into what the page at `path` shows."""

    writer: Writer
    model: Model
    held: HeldPublished
    path: str

    @property
    def figures(self) -> tuple[PublishedFigure, ...]:
        return self.held.published.figures

    def show(self, figure: PublishedFigure) -> Printed:
        """One figure. An expert gets the layer that its document gives it in another place."""
        if figure.kind == "expert" and figure.layer is not None:
            text = expert_name(figure.layer, int(str(figure.value)))
        else:
            text = label(figure.printed)
        page = URLS.published(self.writer.lang, self.model.slug)
        kind = self.writer.t("evidence.published")
        return Printed(
            text=text,
            interval=interval_text(figure.interval),
            href=URLS.link(self.path, page, figure.id),
            file=self.held.file.name,
            title=f"{kind} · {self.held.file.name} · {figure.id}",
        )

    def some(self, figure: PublishedFigure | None) -> Printed | None:
        return None if figure is None else self.show(figure)

    def quantity(self, name: str) -> str:
        """Title of a quantity as the file gives it."""
        entry = next(q for q in self.held.published.quantities if q.quantity == name)
        return self.writer.pick(entry.title)

    def of(
        self,
        quantity: str,
        *,
        document: str | None = None,
        layer: int | None = None,
        domain: str | None = None,
        prompt: str | None = None,
    ) -> PublishedFigure | None:
        """The first figure of a quantity at exactly this place."""
        for figure in self.figures:
            if (figure.quantity, figure.layer, figure.domain, figure.prompt) == (
                quantity, layer, domain, prompt,
            ) and document in (None, figure.document):  # fmt: skip
                return figure
        return None

    def origin(self, figures: Iterable[PublishedFigure]) -> Origin:
        """Document and sections of figures that stand together; they are of one document."""
        shown = list(figures)
        document = next(d for d in self.held.published.documents if d.document == shown[0].document)
        sections = sorted({f.section for f in shown}, key=lambda s: [int(x) for x in _parts(s)])
        return Origin(
            document=self.writer.pick(document.title),
            name=document.name,
            sections=", ".join(sections),
            file=self.held.file.name,
            sha256=self.held.file.sha256,
            href=URLS.link(self.path, URLS.dataset(self.held.file.name)),
        )


def _parts(section: str) -> list[str]:
    return ["0"] if section == "front" else section.split(".")


def interval_text(interval: PrintedInterval | None) -> str:
    return "" if interval is None else f"[{interval.printed_low}, {interval.printed_high}]"
