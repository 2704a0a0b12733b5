"""Findings as the front pages show them: a sentence, its figure with interval, a small chart."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.charts.corpus import chart_of
from atlas.charts.overview import Dots, Mirror, RankCurve, dots, mirror, rank_curve
from atlas.findings import FarFinding, LoadFinding, find
from atlas.numbers import EFFECTIVE, JSD
from atlas.pages.frame import Writer
from atlas.shelf import HeldCorpus, Model
from atlas.urls import URLS


@dataclass(frozen=True)
class FindingCard:
    """One finding: figure and interval large, the sentence, where it leads."""

    figure: str
    unit: str
    interval: str
    sentence: str
    rule: str
    href: str
    curve: RankCurve | None = None
    mirror: Mirror | None = None
    dots: Dots | None = None


def finding_cards(writer: Writer, model: Model, path: str) -> tuple[FindingCard, ...]:
    """Cards of a model's corpus, none without one."""
    if model.corpus is None:
        return ()
    held = model.corpus
    found = find(held.corpus)
    top = max(_charts_highest(held, f) for f in (found.concentrated, found.even))
    cards = [
        _load_card(writer, model, held, found.concentrated, "concentrated", top, path),
        _load_card(writer, model, held, found.even, "even", top, path),
    ]
    if found.far is not None:
        cards.append(_far_card(writer, model, held, found.far, path))
    if found.consistent is not None:
        c = found.consistent
        cards.append(
            FindingCard(
                figure=f"{c.layers} / {c.of_layers}",
                unit=writer.t("finding.layers"),
                interval=writer.t("finding.apart", apart=c.apart),
                sentence=writer.t(
                    "finding.consistent",
                    domain=_title(writer, held, c.domain),
                    layers=c.layers,
                    of=c.of_layers,
                ),
                rule=writer.t("finding.consistent_rule"),
                href=URLS.link(path, URLS.domain(writer.lang, model.slug, c.domain)),
                dots=_dots(held, c.domain),
            )
        )
    return tuple(cards)


def _title(writer: Writer, held: HeldCorpus, domain: str) -> str:
    return writer.pick(next(d.title for d in held.corpus.domains if d.domain == domain))


def _charts_highest(held: HeldCorpus, finding: LoadFinding) -> float:
    layer = next(x for x in held.corpus.layers if x.layer == finding.layer)
    return max(chart_of(layer, finding.domain, "prompt_balanced").shares_E)


def _dots(held: HeldCorpus, domain: str) -> Dots:
    names = [d.domain for d in held.corpus.domains]
    rows = [
        [d.prompt_balanced.effective_experts.point for d in layer.domains]
        for layer in held.corpus.layers
    ]
    return dots(rows, names.index(domain))


def _load_card(
    writer: Writer,
    model: Model,
    held: HeldCorpus,
    finding: LoadFinding,
    kind: str,
    top: float,
    path: str,
) -> FindingCard:
    layer = next(x for x in held.corpus.layers if x.layer == finding.layer)
    experts = held.corpus.routing.n_routed_experts
    return FindingCard(
        figure=EFFECTIVE.text(finding.estimate.point),
        unit=writer.t("finding.effective", experts=experts),
        interval=writer.t("finding.interval", interval=EFFECTIVE.span(finding.estimate.percentile)),
        sentence=writer.t(
            f"finding.{kind}",
            layer=finding.layer,
            domain=_title(writer, held, finding.domain),
        ),
        rule=writer.t(f"finding.{kind}_rule"),
        href=URLS.link(path, URLS.layer(writer.lang, model.slug, finding.domain, finding.layer)),
        curve=rank_curve(chart_of(layer, finding.domain, "prompt_balanced"), top),
    )


def _far_card(
    writer: Writer, model: Model, held: HeldCorpus, finding: FarFinding, path: str
) -> FindingCard:
    layer = next(x for x in held.corpus.layers if x.layer == finding.layer)
    first, second = (chart_of(layer, d, "prompt_balanced") for d in (finding.first, finding.second))
    return FindingCard(
        figure=JSD.text(finding.estimate.point),
        unit=writer.t("finding.nats"),
        interval=writer.t("finding.interval", interval=JSD.span(finding.estimate.percentile)),
        sentence=writer.t(
            "finding.far",
            layer=finding.layer,
            first=_title(writer, held, finding.first),
            second=_title(writer, held, finding.second),
        ),
        rule=writer.t("finding.far_rule"),
        href=URLS.link(path, URLS.layer(writer.lang, model.slug, finding.first, finding.layer)),
        mirror=mirror(first, second),
    )
