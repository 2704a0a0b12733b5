"""Distances between domains, layer by layer: one row per layer, one column per pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atlas.charts.corpus import WEIGHTINGS, divergence_of
from atlas.charts.overview import RangeGlyph, range_glyph
from atlas.contract.corpus import CorpusLayer, Divergence, Weighting
from atlas.numbers import COUNT, JSD
from atlas.pages.estimates import jsd_axis
from atlas.pages.frame import Frame, Link, Page, Writer
from atlas.shelf import HeldCorpus, Model
from atlas.urls import URLS


@dataclass(frozen=True)
class PairView:
    """Divergence of one pair in one layer under one weighting."""

    weighting: Weighting
    point: str
    interval: str
    glyph: RangeGlyph
    largest: bool


@dataclass(frozen=True)
class DivergenceRow:
    """One layer."""

    layer: int
    href: str
    cells: tuple[tuple[PairView, ...], ...]


@dataclass(frozen=True)
class CompareContext:
    """Context of compare.html.j2."""

    frame: Frame
    headline: str
    lead: str
    pairs: tuple[tuple[str, str], ...]
    rows: tuple[DivergenceRow, ...]
    caption: str
    cannot: tuple[str, ...]
    downloads: tuple[Link, ...]


def compare_pages(writer: Writer, model: Model, held: HeldCorpus) -> Iterator[Page]:
    """The one page, if there are two domains to compare."""
    if len(held.corpus.domains) < 2:
        return
    path = URLS.compare(writer.lang, model.slug)
    t = writer.t
    titles = {d.domain: writer.pick(d.title) for d in held.corpus.domains}
    end = jsd_axis(held)
    first_domain = held.corpus.domains[0].domain
    rows = tuple(
        DivergenceRow(
            layer.layer,
            URLS.link(path, URLS.layer(writer.lang, model.slug, first_domain, layer.layer)),
            tuple(_cell(pair, layer, end) for pair in layer.divergences),
        )
        for layer in held.corpus.layers
    )
    headline = t("compare.headline", domains=len(titles), layers=len(rows))
    context = CompareContext(
        frame=writer.frame(
            path,
            f"{t('nav.compare')} · {model.identity.title}",
            headline,
            crumbs=[*writer.model_crumbs(model), (None, t("nav.compare"))],
            model=model,
            sources=[held.file],
        ),
        headline=headline,
        lead=t("compare.lead"),
        pairs=tuple((titles[d.first], titles[d.second]) for d in held.corpus.layers[0].divergences),
        rows=rows,
        caption=t("compare.caption", replicates=COUNT.text(held.corpus.statistics.replicates)),
        cannot=(t("layer.cannot_test"), t("compare.cannot_cause")),
        downloads=(Link(URLS.link(path, URLS.divergences_csv(model.slug)), "CSV"),),
    )
    yield Page(path, "compare.html.j2", writer.lang, context)


def _cell(pair: Divergence, layer: CorpusLayer, end: float) -> tuple[PairView, ...]:
    views = []
    for weighting in WEIGHTINGS:
        estimate = divergence_of(pair, weighting)
        p = estimate.percentile
        most = max(divergence_of(d, weighting).point for d in layer.divergences)
        views.append(
            PairView(
                weighting=weighting,
                point=JSD.text(estimate.point),
                interval=JSD.interval(p),
                glyph=range_glyph(estimate.point, p.low, p.high, 0.0, end),
                largest=estimate.point == most,
            )
        )
    return tuple(views)
