"""The explore page of a model: the static chart of one layer, and the specs that a script may
put in its place, one file per layer.

Without a script, without the bundle or from file:// the page is the chart with its table and
links to every layer and domain. With them a reader picks domain, layer, weighting and order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from atlas.charts.card import ChartCard, layer_card
from atlas.charts.corpus import WEIGHTINGS, chart_of
from atlas.charts.explore import Words, explore_spec, layer_rows, with_layer
from atlas.charts.load import Mark
from atlas.contract.corpus import CorpusLayer
from atlas.findings import find
from atlas.guard import SCRIPT_HEAD, SCRIPT_TAIL
from atlas.numbers import COUNT
from atlas.pages.frame import Frame, Link, Page, Writer
from atlas.pages.layer import ChartText, RailLink, chart_text, rail
from atlas.shelf import HeldCorpus, Model
from atlas.urls import EXPLORE, URLS, VEGA

KEY: tuple[Mark, ...] = ("above", "holds", "below")


@dataclass(frozen=True)
class Choice:
    """A domain or layer that a reader may pick; `source` is where its spec lies."""

    value: str
    text: str
    picked: bool
    source: str = ""


@dataclass(frozen=True)
class ExploreContext:
    """Context of explore.html.j2."""

    frame: Frame
    headline: str
    lead: str
    scripts: tuple[str, ...]
    rail: tuple[RailLink, ...]
    tabs: tuple[Link, ...]
    domains: tuple[Choice, ...]
    layers: tuple[Choice, ...]
    card: ChartCard
    text: ChartText
    page: Link
    cannot: tuple[str, ...]


def explore_page(writer: Writer, model: Model, held: HeldCorpus) -> Page:
    """The one page; it opens with the most concentrated layer and domain."""
    t, corpus, path = writer.t, held.corpus, URLS.explore(writer.lang, model.slug)
    start = find(corpus).concentrated
    layer = next(x for x in corpus.layers if x.layer == start.layer)
    domain = next(d for d in corpus.domains if d.domain == start.domain)
    made = layer_card(layer, domain.domain)
    headline = t(
        "explore.headline", layers=len(corpus.layers), experts=corpus.routing.n_routed_experts
    )
    context = ExploreContext(
        frame=writer.frame(
            path,
            f"{t('nav.explore')} · {model.identity.title}",
            headline,
            crumbs=[*writer.model_crumbs(model), (None, t("nav.explore"))],
            model=model,
            sources=[held.file],
        ),
        headline=headline,
        lead=t("explore.lead", layer=layer.layer, domain=writer.pick(domain.title)),
        scripts=tuple(URLS.link(path, script) for script in (VEGA, EXPLORE)),
        rail=rail(writer, model, held, domain.domain, path, layer.layer),
        tabs=tuple(
            Link(
                URLS.link(path, URLS.layer(writer.lang, model.slug, d.domain, layer.layer)),
                writer.pick(d.title),
                d is domain,
            )
            for d in corpus.domains
        ),
        domains=tuple(Choice(d.domain, writer.pick(d.title), d is domain) for d in corpus.domains),
        layers=tuple(
            Choice(
                str(x.layer),
                t("layer.crumb", layer=x.layer),
                x is layer,
                URLS.link(path, URLS.explore_layer(writer.lang, model.slug, x.layer)),
            )
            for x in corpus.layers
        ),
        # the key of the chart explains all marks: another layer may have those that this has not
        card=replace(made, marks=tuple((m, dict(made.marks).get(m, 0)) for m in KEY)),
        text=chart_text(writer, model, held, domain, layer.layer, path),
        page=_page_link(writer, model, held, domain.domain, layer.layer, path),
        cannot=(
            t("limits.cannot_trail"),
            t("layer.cannot_test"),
            t("limits.cannot_meaning"),
        ),
    )
    return Page(path, "explore.html.j2", writer.lang, context)


def explore_files(writer: Writer, model: Model, held: HeldCorpus) -> Iterator[tuple[str, bytes]]:
    """A script per layer that hands over its spec: a script, since a page that was opened from
    file:// may not read a file."""
    t, corpus = writer.t, held.corpus
    words = Words(t("chart.share"), t("chart.interval"), t("chart.multiple"), t("chart.expert"))
    spec = explore_spec(words, corpus.routing.n_routed_experts)
    for layer in corpus.layers:
        charts = [chart_of(layer, d.domain, w) for d in corpus.domains for w in WEIGHTINGS]
        filled = with_layer(
            spec, layer_rows(charts), corpus.domains[0].domain, _said(writer, model, held, layer)
        )
        yield (
            URLS.explore_layer(writer.lang, model.slug, layer.layer),
            SCRIPT_HEAD + _compact(filled) + SCRIPT_TAIL,
        )


def _compact(spec: dict[str, Any]) -> bytes:
    """A spec on one line: browsers load it, nobody reads or compares it line by line."""
    text = json.dumps(
        spec, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode("utf-8")


def _said(writer: Writer, model: Model, held: HeldCorpus, layer: CorpusLayer) -> dict[str, Any]:
    """What the page says around the chart, by domain."""
    path = URLS.explore(writer.lang, model.slug)
    said = {}
    for domain in held.corpus.domains:
        text = chart_text(writer, model, held, domain, layer.layer, path)
        page = _page_link(writer, model, held, domain.domain, layer.layer, path)
        said[domain.domain] = {
            "title": text.title,
            "caption": text.caption,
            "alternative": writer.t(
                "explore.alternative",
                title=text.title,
                experts=COUNT.text(held.corpus.routing.n_routed_experts),
            ),
            "page": page.href,
            "page_text": page.text,
        }
    return {"layer": layer.layer, "domains": said}


def _page_link(
    writer: Writer, model: Model, held: HeldCorpus, domain: str, layer: int, path: str
) -> Link:
    title = next(writer.pick(d.title) for d in held.corpus.domains if d.domain == domain)
    target = URLS.layer(writer.lang, model.slug, domain, layer)
    return Link(URLS.link(path, target), writer.t("explore.page", layer=layer, domain=title))
