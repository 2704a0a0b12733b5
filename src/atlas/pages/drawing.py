"""A chart as an SVG file of its own: prompt-balanced, by share, words and style included."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.charts.card import ChartCard
from atlas.charts.load import PlotView
from atlas.contract.corpus import Domain
from atlas.numbers import COUNT, SHARE
from atlas.pages.frame import Page, Writer
from atlas.shelf import HeldCorpus, Model
from atlas.urls import URLS


@dataclass(frozen=True)
class DrawingContext:
    """Context of chart.svg.j2."""

    html_lang: str
    title: str
    subtitle: str
    caption: str
    source: str
    view: PlotView
    key: tuple[tuple[str, str], ...]


def drawing_page(
    writer: Writer, model: Model, held: HeldCorpus, domain: Domain, card: ChartCard
) -> Page:
    """The SVG of one layer and domain."""
    t, name = writer.t, writer.pick(domain.title)
    experts = card.experts
    context = DrawingContext(
        html_lang=writer.lang,
        title=f"{model.identity.title} · {t('chart.title', layer=card.layer, domain=name)}",
        subtitle=t("chart.subtitle", experts=experts, uniform=SHARE.text(1 / experts)),
        caption=t(
            "chart.caption",
            replicates=COUNT.text(held.corpus.statistics.replicates),
            prompts=COUNT.text(domain.prompts),
            seed=held.corpus.statistics.seed,
        ),
        source=t(
            "chart.svg_source",
            evidence=t(f"evidence.{held.file.dataset.evidence}"),
            file=held.file.name,
            sha256=held.file.sha256[:12],
        ),
        view=card.views[0],
        key=tuple((mark, t(f"chart.key_{mark}")) for mark, _ in card.marks),
    )
    path = URLS.layer_svg(writer.lang, model.slug, domain.domain, card.layer)
    return Page(path, "chart.svg.j2", writer.lang, context)
