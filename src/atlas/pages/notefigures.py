"""Figures of notes: each is one that the site shows elsewhere, and links there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from atlas.bindings import ALIASES
from atlas.charts.corpus import chart_of
from atlas.charts.load import PlotView, draw
from atlas.contract import Official
from atlas.contract.corpus import CorpusLayer, Domain
from atlas.errors import SiteError
from atlas.figures import Figure
from atlas.numbers import COUNT, JSD, MEASURES, RATIO, SHARE
from atlas.pages.documents import MEASURES as MEASURES_OF
from atlas.pages.documents import DotTable, dot_table
from atlas.pages.estimates import Figure as Estimated
from atlas.pages.estimates import figure as estimated
from atlas.pages.estimates import jsd_axis
from atlas.pages.frame import Badge, Link, Writer
from atlas.pages.mla import Ledger, ledgers
from atlas.pages.model import Overview, overview
from atlas.pages.printed import Reader
from atlas.pages.routes import RouteTable, route_tables
from atlas.pages.tracelayer import trace_tables
from atlas.shelf import HeldCorpus, HeldPublished, Model
from atlas.urls import URLS

ROUTE_ROWS = 10
"""Positions of a routes figure in a note; the figure's own page has them all."""


@dataclass(frozen=True)
class NoteFigure:
    """A figure with its title, evidence and home page; one of the last seven holds it."""

    anchor: str
    title: str
    caption: str
    badge: Badge
    home: Link
    view: PlotView | None = None
    overview: Overview | None = None
    matrix: tuple[tuple[str, ...], ...] = ()
    dots: DotTable | None = None
    pairs: tuple[tuple[str, Estimated], ...] = ()
    routes: RouteTable | None = None
    ledgers: tuple[Ledger, ...] = ()


def note_figure(writer: Writer, asked: Figure, path: str, anchor: str) -> NoteFigure:
    """The figure that a note asks for. Raises SiteError if the data does not hold it."""
    slug = ALIASES.get(asked.dataset, asked.dataset)
    model = next((m for m in writer.shelf.models if m.slug == slug), None)
    if model is None:
        raise _absent(asked)
    if asked.kind == "mla":
        return _mla(writer, model, asked, path, anchor)
    if asked.kind == "routes":
        return _routes(writer, model, asked, path, anchor)
    held = model.corpus
    if held is None and asked.kind == "metrics" and model.published is not None:
        return _printed_metrics(writer, model, model.published, asked, path, anchor)
    if held is None:
        raise _absent(asked)
    if asked.kind == "load":
        return _load(writer, model, held, asked, path, anchor)
    if asked.kind == "ranks":
        domain = _domain(held, asked)
        return NoteFigure(
            anchor,
            writer.t(
                "domain.headline", layers=len(held.corpus.layers), domain=writer.pick(domain.title)
            ),
            writer.t("overview.note"),
            writer.badge(model, held.file.dataset.evidence),
            _home(writer, path, URLS.domain(writer.lang, slug, domain.domain)),
            overview=overview(writer, model, held, domain, path),
        )
    if asked.kind == "divergences":
        return _divergences(writer, model, held, asked, path, anchor)
    return _metrics(writer, model, held, asked, path, anchor)


def _absent(asked: Figure) -> SiteError:
    return SiteError(
        f"::figure {asked.kind}: expected it in the data of {asked.dataset}, found none"
    )


def _home(writer: Writer, path: str, target: str) -> Link:
    return Link(URLS.link(path, target), writer.t("notes.open"))


def _domain(held: HeldCorpus, asked: Figure) -> Domain:
    domain = next((d for d in held.corpus.domains if d.domain == asked.domain), None)
    if domain is None:
        raise _absent(asked)
    return domain


def _layer(held: HeldCorpus, asked: Figure) -> CorpusLayer:
    layer = next((x for x in held.corpus.layers if x.layer == asked.layer), None)
    if layer is None:
        raise _absent(asked)
    return layer


def _load(
    writer: Writer, model: Model, held: HeldCorpus, asked: Figure, path: str, anchor: str
) -> NoteFigure:
    t, layer, domain = writer.t, _layer(held, asked), _domain(held, asked)
    experts = held.corpus.routing.n_routed_experts
    caption = t(
        "chart.caption",
        replicates=COUNT.text(held.corpus.statistics.replicates),
        prompts=COUNT.text(domain.prompts),
        seed=held.corpus.statistics.seed,
    )
    subtitle = t("chart.subtitle", experts=experts, uniform=SHARE.text(1 / experts))
    return NoteFigure(
        anchor,
        t("chart.title", layer=layer.layer, domain=writer.pick(domain.title)),
        subtitle + t("site.gap") + caption,
        writer.badge(model, held.file.dataset.evidence),
        _home(writer, path, URLS.layer(writer.lang, model.slug, domain.domain, layer.layer)),
        view=draw(chart_of(layer, domain.domain, "prompt_balanced"), "share"),
    )


def _divergences(
    writer: Writer, model: Model, held: HeldCorpus, asked: Figure, path: str, anchor: str
) -> NoteFigure:
    layer = _layer(held, asked)
    titles = {d.domain: writer.pick(d.title) for d in held.corpus.domains}
    end = jsd_axis(held)
    return NoteFigure(
        anchor,
        f"{writer.t('metric.jsd')}, {writer.t('layer.crumb', layer=layer.layer)}",
        writer.t("layer.pairs_caption", weighting=writer.t("chart.prompt_balanced")),
        writer.badge(model, held.file.dataset.evidence),
        _home(writer, path, URLS.compare(writer.lang, model.slug)),
        pairs=tuple(
            (
                f"{titles[d.first]} ↔ {titles[d.second]}",
                estimated(writer, d.prompt_balanced, JSD, 0.0, end),
            )
            for d in layer.divergences
        ),
    )


def _metrics(
    writer: Writer, model: Model, held: HeldCorpus, asked: Figure, path: str, anchor: str
) -> NoteFigure:
    t, name = writer.t, asked.measure or ""
    titles = {d.domain: writer.pick(d.title) for d in held.corpus.domains}
    rows: list[tuple[str, ...]] = []
    if name == "jsd":
        pairs = held.corpus.layers[0].divergences
        rows.append(
            (t("overview.layer"), *(f"{titles[d.first]} ↔ {titles[d.second]}" for d in pairs))
        )
        rows += [
            (str(x.layer), *(JSD.estimate(d.prompt_balanced) for d in x.divergences))
            for x in held.corpus.layers
        ]
    else:
        rows.append((t("overview.layer"), *titles.values()))
        rows += [
            (
                str(x.layer),
                *(MEASURES[name].estimate(getattr(d.prompt_balanced, name)) for d in x.domains),
            )
            for x in held.corpus.layers
        ]
    return NoteFigure(
        anchor,
        t(f"metric.{name}"),
        t("layer.metrics_caption", weighting=t("chart.prompt_balanced")),
        writer.badge(model, held.file.dataset.evidence),
        _home(writer, path, URLS.model(writer.lang, model.slug)),
        matrix=tuple(rows),
    )


def _printed_metrics(
    writer: Writer, model: Model, held: HeldPublished, asked: Figure, path: str, anchor: str
) -> NoteFigure:
    """A measure as documents print it, layer by domain; a dash for what they do not print."""
    measure = asked.measure or ""
    found = (
        dot_table(Reader(writer, model, held, path), measure) if measure in MEASURES_OF else None
    )
    if found is None:
        raise _absent(asked)
    return NoteFigure(
        anchor,
        writer.t(f"metric.{measure}"),
        found.note,
        writer.badge(model, "published"),
        _home(writer, path, URLS.published(writer.lang, model.slug)),
        dots=found,
    )


def _routes(writer: Writer, model: Model, asked: Figure, path: str, anchor: str) -> NoteFigure:
    found: RouteTable | None = None
    source = model.trace or model.routes
    target = URLS.model(writer.lang, model.slug)
    if model.trace is not None:
        layer = next((x for x in model.trace.trace.moe_layers if x.layer == asked.layer), None)
        if layer is not None and layer.moe is not None:
            found = next(iter(trace_tables(writer, model.trace, layer.layer, layer.moe)))
            target = URLS.trace_layer(writer.lang, model.slug, layer.layer)
    elif model.routes is not None:
        layers = model.routes.routes.layers
        place = next((i for i, x in enumerate(layers) if x.layer == asked.layer), None)
        if place is not None:
            found = route_tables(writer, model.routes, place)[0]
            target = URLS.routes_of(writer.lang, model.slug, layers[place].layer, place)
    if found is None or source is None:
        raise _absent(asked)
    evidence = source.file.dataset.evidence
    note, home = found.note, _home(writer, path, target)
    if len(found.rows) > ROUTE_ROWS:
        shown, rows = COUNT.text(ROUTE_ROWS), COUNT.text(len(found.rows))
        gap = writer.t("site.gap")
        note += gap + writer.t("notes.first_rows", shown=shown, rows=rows)
        rest = writer.t("notes.all_rows", rows=rows)
        home = Link(URLS.link(path, target, found.anchor), rest)
    return NoteFigure(
        anchor,
        writer.t("routes.headline", layer=found.layer, k=found.k),
        writer.t("routes.sum_note", k=found.k),
        writer.badge(model, evidence),
        home,
        routes=replace(found, anchor=f"{anchor}-routes", rows=found.rows[:ROUTE_ROWS], note=note),
    )


def _mla(writer: Writer, model: Model, asked: Figure, path: str, anchor: str) -> NoteFigure:
    t = writer.t
    official = next(
        (
            f.dataset
            for f in writer.shelf.files
            if isinstance(f.dataset, Official) and f.dataset.model.slug == model.slug
        ),
        None,
    )
    if model.trace is not None:
        architecture, cache = model.trace.trace.architecture, model.trace.trace.cache_ledger
        evidence = model.trace.trace.evidence
        target = URLS.mla(writer.lang, model.slug)
    elif official is not None:
        architecture, cache = official.architecture, official.mla.layer
        evidence = official.evidence
        target = URLS.model(writer.lang, model.slug)
    else:
        raise _absent(asked)
    return NoteFigure(
        anchor,
        t("mla.headline", ratio=RATIO.text(cache.ratio)),
        t("mla.lead"),
        writer.badge(model, evidence),
        _home(writer, path, target),
        ledgers=ledgers(writer, architecture, cache),
    )
