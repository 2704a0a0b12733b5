"""One layer and domain of a corpus: its load, its dispersion, its distance to other domains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atlas.charts.card import ChartCard, layer_card
from atlas.charts.corpus import WEIGHTINGS, chart_of, divergence_of, domain_of, load_of
from atlas.contract.corpus import CorpusLayer, Domain, Load, Weighting
from atlas.numbers import COUNT, EFFECTIVE, JSD, MEASURES, SHARE, coordinate, expert_name
from atlas.pages.estimates import (
    METRICS,
    Figure,
    IntervalRow,
    figure,
    interval_row,
    jsd_axis,
    metric_axes,
)
from atlas.pages.frame import Frame, Link, Page, Writer
from atlas.shelf import HeldCorpus, Model
from atlas.urls import URLS


@dataclass(frozen=True)
class RailLink:
    """A layer in the strip: a link with a bar of its effective experts (y of 100)."""

    href: str
    layer: int
    y: str
    current: bool
    hint: str


@dataclass(frozen=True)
class MetricRow:
    """One domain's figures, in the order of METRICS."""

    name: str
    href: str
    current: bool
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class PairRow:
    """Divergence of the page's domain from another one."""

    name: str
    href: str
    figure: Figure


@dataclass(frozen=True)
class Weighted:
    """Tables under one weighting."""

    weighting: Weighting
    metrics: tuple[MetricRow, ...]
    intervals: tuple[IntervalRow, ...]
    pairs: tuple[PairRow, ...]


@dataclass(frozen=True)
class ChartText:
    """Words around a chart."""

    title: str
    subtitle: str
    caption: str
    alternative: str
    downloads: tuple[Link, ...]
    citation: str


@dataclass(frozen=True)
class LayerContext:
    """Context of layer.html.j2."""

    frame: Frame
    headline: str
    interval: str
    lead: str
    rail: tuple[RailLink, ...]
    rail_note: str
    explore: Link
    tabs: tuple[Link, ...]
    card: ChartCard
    text: ChartText
    metric_heads: tuple[tuple[str, str], ...]
    weighted: tuple[Weighted, ...]
    disagreement: tuple[str, ...]
    cannot: tuple[str, ...]
    before: Link | None
    after: Link | None


def layer_pages(writer: Writer, model: Model, held: HeldCorpus) -> Iterator[Page]:
    """A page per layer and domain."""
    for domain in held.corpus.domains:
        for layer in held.corpus.layers:
            path = URLS.layer(writer.lang, model.slug, domain.domain, layer.layer)
            context = _context(writer, model, held, domain, layer, path)
            yield Page(path, "layer.html.j2", writer.lang, context)


def _context(
    writer: Writer, model: Model, held: HeldCorpus, domain: Domain, layer: CorpusLayer, path: str
) -> LayerContext:
    t, corpus, number = writer.t, held.corpus, layer.layer
    name = writer.pick(domain.title)
    load = domain_of(layer, domain.domain).prompt_balanced
    experts = corpus.routing.n_routed_experts
    measure = EFFECTIVE.text(load.effective_experts.point)
    headline = t("layer.headline", layer=number, domain=name, effective=measure, experts=experts)
    crumbs = [
        *writer.model_crumbs(model),
        (URLS.domain(writer.lang, model.slug, domain.domain), name),
        (None, t("layer.crumb", layer=number)),
    ]
    interval = t("layer.interval", interval=EFFECTIVE.span(load.effective_experts.percentile))
    notes: dict[str, dict[str, object]] = {
        "effective_experts": {"experts": experts},
        "top_share": {"uniform": SHARE.text(1 / experts)},
    }
    numbers = [x.layer for x in corpus.layers]
    place = numbers.index(number)
    return LayerContext(
        frame=writer.frame(
            path,
            t("layer.title", layer=number, domain=name, model=model.identity.title),
            f"{headline} {interval}",
            crumbs=crumbs,
            model=model,
            sources=[held.file],
        ),
        headline=headline,
        interval=interval,
        lead=_lead(writer, held, domain, load),
        rail=rail(writer, model, held, domain.domain, path, number),
        rail_note=t("layer.rail_note", layer=number),
        explore=Link(
            URLS.link(path, URLS.explore(writer.lang, model.slug), f"layer-{number}"),
            t("nav.explore"),
        ),
        tabs=_tabs(writer, model, held, domain.domain, number, path),
        card=layer_card(layer, domain.domain),
        text=chart_text(writer, model, held, domain, number, path),
        metric_heads=tuple(
            (t(f"metric.{m}"), t(f"metric.{m}_note", **notes.get(m, {}))) for m in METRICS
        ),
        weighted=tuple(
            _weighted(writer, model, held, domain.domain, layer, w, path) for w in WEIGHTINGS
        ),
        disagreement=_disagreement(writer, layer, domain.domain),
        cannot=_cannot(writer, held, name, number, load),
        before=_neighbour(writer, model, domain.domain, numbers, place - 1, path),
        after=_neighbour(writer, model, domain.domain, numbers, place + 1, path),
    )


def _lead(writer: Writer, held: HeldCorpus, domain: Domain, load: Load) -> str:
    text = writer.t(
        "layer.lead",
        prompts=COUNT.text(domain.prompts),
        tokens=COUNT.text(domain.tokens),
        k=held.corpus.routing.num_experts_per_tok,
        experts=held.corpus.routing.n_routed_experts,
    )
    half = next((c for c in load.coverage if c.share == 0.5), None)
    if half is None:
        return text
    return text + writer.t("site.gap") + writer.t("layer.lead_half", experts=len(half.expert_ids))


def rail(
    writer: Writer, model: Model, held: HeldCorpus, domain: str, path: str, current: int | None
) -> tuple[RailLink, ...]:
    """The strip of layers: links, each with a bar of the domain's effective experts there."""
    links = []
    for layer in held.corpus.layers:
        effective = domain_of(layer, domain).prompt_balanced.effective_experts.point
        target = URLS.layer(writer.lang, model.slug, domain, layer.layer)
        links.append(
            RailLink(
                href=URLS.link(path, target),
                layer=layer.layer,
                y=coordinate(100 * (1 - effective / held.corpus.routing.n_routed_experts)),
                current=layer.layer == current,
                hint=writer.t(
                    "layer.rail_hint", layer=layer.layer, effective=EFFECTIVE.text(effective)
                ),
            )
        )
    return tuple(links)


def _tabs(
    writer: Writer, model: Model, held: HeldCorpus, current: str, layer: int, path: str
) -> tuple[Link, ...]:
    return tuple(
        Link(
            URLS.link(path, URLS.layer(writer.lang, model.slug, d.domain, layer)),
            writer.pick(d.title),
            d.domain == current,
        )
        for d in held.corpus.domains
    )


def chart_text(
    writer: Writer, model: Model, held: HeldCorpus, domain: Domain, layer: int, path: str
) -> ChartText:
    """Words around the chart of one layer and domain, for the page at `path`."""
    t, slug, experts = writer.t, model.slug, held.corpus.routing.n_routed_experts
    name = writer.pick(domain.title)
    targets = (
        ("CSV", URLS.layer_csv(slug, domain.domain, layer)),
        ("JSON", URLS.layer_json(slug, domain.domain, layer)),
        ("Vega-Lite", URLS.layer_vega(slug, domain.domain, layer)),
        ("SVG", URLS.layer_svg(writer.lang, slug, domain.domain, layer)),
    )
    return ChartText(
        title=t("chart.title", layer=layer, domain=name),
        subtitle=t("chart.subtitle", experts=experts, uniform=SHARE.text(1 / experts)),
        caption=t(
            "chart.caption",
            replicates=COUNT.text(held.corpus.statistics.replicates),
            prompts=COUNT.text(domain.prompts),
            seed=held.corpus.statistics.seed,
        ),
        alternative=t("chart.alternative", layer=layer, domain=name, experts=experts),
        downloads=tuple(Link(URLS.link(path, target), text) for text, target in targets),
        citation=t(
            "chart.citation",
            model=model.identity.title,
            layer=layer,
            domain=name,
            evidence=t(f"evidence.{held.file.dataset.evidence}"),
            file=held.file.name,
            sha256=held.file.sha256,
            path=path,
        ),
    )


def _weighted(
    writer: Writer,
    model: Model,
    held: HeldCorpus,
    current: str,
    layer: CorpusLayer,
    weighting: Weighting,
    path: str,
) -> Weighted:
    experts = held.corpus.routing.n_routed_experts
    titles = {d.domain: writer.pick(d.title) for d in held.corpus.domains}
    hrefs = {
        d: URLS.link(path, URLS.layer(writer.lang, model.slug, d, layer.layer)) for d in titles
    }
    ends = metric_axes(held, experts)
    rows = []
    for d in layer.domains:
        load = load_of(d, weighting)
        figures = tuple(
            figure(writer, getattr(load, m), MEASURES[m], 0.0, ends[m]) for m in METRICS
        )
        rows.append(MetricRow(titles[d.domain], hrefs[d.domain], d.domain == current, figures))
    pairs = []
    for pair in layer.divergences:
        if current in (pair.first, pair.second):
            other = pair.second if pair.first == current else pair.first
            estimate = divergence_of(pair, weighting)
            glyph = figure(writer, estimate, JSD, 0.0, jsd_axis(held))
            pairs.append(PairRow(f"{titles[current]} ↔ {titles[other]}", hrefs[other], glyph))
    own = load_of(domain_of(layer, current), weighting)
    intervals = tuple(
        interval_row(writer.t(f"metric.{m}"), getattr(own, m), MEASURES[m]) for m in METRICS
    )
    return Weighted(weighting, tuple(rows), intervals, tuple(pairs))


def _disagreement(writer: Writer, layer: CorpusLayer, domain: str) -> tuple[str, ...]:
    """Where the two weightings differ: by a mark, by the top expert, or by a metric whose
    points lie outside each other's intervals. One sentence says so if none does."""
    number = layer.layer
    first, second = (chart_of(layer, domain, w) for w in WEIGHTINGS)
    balanced, weighted = (load_of(domain_of(layer, domain), w) for w in WEIGHTINGS)
    lines = []
    moved = [e for e in range(first.experts) if first.mark(e) != second.mark(e)]
    if balanced.top_expert != weighted.top_expert:
        lines.append(
            writer.t(
                "layer.differ_top",
                balanced=expert_name(number, balanced.top_expert),
                weighted=expert_name(number, weighted.top_expert),
            )
        )
    if moved:
        names = ", ".join(expert_name(number, e) for e in moved)
        lines.append(writer.t("layer.differ_marks", count=len(moved), names=names))
    for metric in METRICS:
        a, b = getattr(balanced, metric), getattr(weighted, metric)
        if not (
            a.percentile.low <= b.point <= a.percentile.high
            or b.percentile.low <= a.point <= b.percentile.high
        ):
            lines.append(
                writer.t(
                    "layer.differ_metric",
                    metric=writer.t(f"metric.{metric}"),
                    balanced=MEASURES[metric].estimate(a),
                    weighted=MEASURES[metric].estimate(b),
                )
            )
    return tuple(lines) or (writer.t("layer.agree"),)


def _cannot(
    writer: Writer, held: HeldCorpus, domain: str, layer: int, load: Load
) -> tuple[str, ...]:
    own = (
        writer.t("layer.cannot_meaning", expert=expert_name(layer, load.top_expert), domain=domain),
        writer.t("layer.cannot_test"),
        writer.t("layer.cannot_layers", layer=layer),
    )
    return own + tuple(writer.pick(line) for line in held.corpus.docs.does_not_answer)


def _neighbour(
    writer: Writer, model: Model, domain: str, numbers: list[int], place: int, path: str
) -> Link | None:
    if not 0 <= place < len(numbers):
        return None
    target = URLS.layer(writer.lang, model.slug, domain, numbers[place])
    return Link(URLS.link(path, target), writer.t("layer.crumb", layer=numbers[place]))
