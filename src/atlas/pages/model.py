"""A model: what it is, what is known of it, and the overview of a domain by rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atlas.charts.corpus import chart_of, domain_of
from atlas.charts.overview import CLASSES, TOP_MULTIPLE, RankRow, lightness, rank_row
from atlas.contract.corpus import Domain
from atlas.numbers import COUNT, EFFECTIVE, SHARE, expert_name
from atlas.pages.cards import FindingCard, finding_cards
from atlas.pages.documents import PrintedModel, printed_model
from atlas.pages.frame import Badge, Frame, Link, Page, Writer
from atlas.pages.held import Captured, Missing, OfficialLedgers, captured, missing, official_ledgers
from atlas.pages.provenance import Provenance, provenance
from atlas.pages.verified import Verified, verified
from atlas.pages.workstation import has_guide
from atlas.shelf import HeldCorpus, Model
from atlas.urls import URLS


@dataclass(frozen=True)
class OverviewRow:
    """One layer of the overview."""

    href: str
    layer: int
    row: RankRow
    effective: str
    interval: str
    top_expert: str
    top_share: str


@dataclass(frozen=True)
class Overview:
    """One domain by rank: a row per layer, a column per rank."""

    domain: str
    tabs: tuple[Link, ...]
    rows: tuple[OverviewRow, ...]
    key: tuple[tuple[int, str], ...]
    caption: str


@dataclass(frozen=True)
class MatrixCell:
    """Effective experts of one layer and domain; `step` is its lightness among all cells."""

    href: str
    text: str
    interval: str
    step: int


@dataclass(frozen=True)
class MatrixRow:
    """One layer of the matrix."""

    layer: int
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True)
class ModelContext:
    """Context of model.html.j2. `evidence` are the badges of the page with the parts that each
    is of; `captured` is the load of a trace that was run here."""

    frame: Frame
    headline: str
    lead: str
    evidence: tuple[tuple[Badge, tuple[Link, ...]], ...]
    sections: tuple[Link, ...]
    verified: tuple[Verified, ...]
    findings: tuple[FindingCard, ...]
    matrix_heads: tuple[Link, ...]
    matrix: tuple[MatrixRow, ...]
    overview: Overview | None
    captured: Captured | None
    printed: PrintedModel | None
    official: OfficialLedgers | None
    missing: Missing | None
    provenance: Provenance


@dataclass(frozen=True)
class DomainContext:
    """Context of domain.html.j2."""

    frame: Frame
    headline: str
    lead: str
    overview: Overview


def model_pages(writer: Writer, model: Model) -> Iterator[Page]:
    """The model's own page and, with a corpus, one overview per domain."""
    path = URLS.model(writer.lang, model.slug)
    yield Page(path, "model.html.j2", writer.lang, _model(writer, model, path))
    if model.corpus is not None:
        for domain in model.corpus.corpus.domains:
            path = URLS.domain(writer.lang, model.slug, domain.domain)
            context = _domain(writer, model, model.corpus, domain, path)
            yield Page(path, "domain.html.j2", writer.lang, context)


def sections(writer: Writer, model: Model, path: str) -> tuple[Link, ...]:
    """Links to what there is about a model."""
    targets: list[tuple[str, str]] = []
    if model.corpus is not None:
        targets.append((URLS.explore(writer.lang, model.slug), "nav.explore"))
    if model.corpus is not None and len(model.corpus.corpus.domains) > 1:
        targets.append((URLS.compare(writer.lang, model.slug), "nav.compare"))
    if model.routes is not None:
        targets.append((URLS.routes(writer.lang, model.slug), "nav.routes"))
    if model.trace is not None:
        targets.append((URLS.trace(writer.lang, model.slug), "nav.trace"))
        targets.append((URLS.mla(writer.lang, model.slug), "nav.mla"))
    if model.official is not None:
        targets.append((URLS.official(writer.lang, model.slug), "nav.official"))
    if model.published is not None:
        targets.append((URLS.published(writer.lang, model.slug), "nav.published"))
    if has_guide(model):
        targets.append((URLS.workstation(writer.lang, model.slug), "nav.workstation"))
    return tuple(Link(URLS.link(path, target), writer.t(key)) for target, key in targets)


def _model(writer: Writer, model: Model, path: str) -> ModelContext:
    t, held = writer.t, model.corpus
    if held is not None:
        headline = t(
            "model.headline",
            layers=len(held.corpus.layers),
            domains=len(held.corpus.domains),
        )
        lead = t(
            "model.lead",
            model=model.identity.title,
            prompts=COUNT.text(len(held.corpus.prompts)),
            tokens=COUNT.text(sum(d.tokens for d in held.corpus.domains)),
            k=held.corpus.routing.num_experts_per_tok,
            experts=held.corpus.routing.n_routed_experts,
        )
    elif model.published is not None:
        headline = t("model.headline_published", model=model.identity.title)
        lead = t("model.lead_published" if model.trace is None else "model.lead_traced")
    else:
        headline = model.identity.title
        lead = t("model.lead_plain")
    printed, ledgers = printed_model(writer, model, path), official_ledgers(writer, model)
    traced = captured(writer, model, path)
    return ModelContext(
        frame=writer.frame(
            path,
            model.identity.title,
            f"{model.identity.title}: {headline}",
            crumbs=[(URLS.home(writer.lang), t("nav.models")), (None, model.identity.title)],
            model=model,
            sources=[h.file for h in model.datasets],
        ),
        headline=headline,
        lead=lead,
        evidence=_evidence(writer, model, printed),
        sections=sections(writer, model, path),
        verified=verified(writer, model, path),
        findings=finding_cards(writer, model, path),
        matrix_heads=_matrix_heads(writer, model, path),
        matrix=_matrix(writer, model, path),
        overview=(
            overview(writer, model, held, held.corpus.domains[0], path)
            if held is not None
            else None
        ),
        captured=traced,
        printed=printed,
        official=ledgers,
        missing=missing(writer, model, path),
        provenance=provenance(writer, model),
    )


def _evidence(
    writer: Writer, model: Model, printed: PrintedModel | None
) -> tuple[tuple[Badge, tuple[Link, ...]], ...]:
    """Each class of evidence with the parts of the page that are of it."""
    parts: dict[str, list[tuple[str, str]]] = {kind: [] for kind in model.kinds}
    if model.corpus is not None:
        own = parts[model.corpus.file.dataset.evidence]
        own += [("#matrix", "model.matrix"), ("#ranks", "overview.rank")]
    if model.trace is not None:
        parts[model.trace.file.dataset.evidence].append(("#trace", "trace.load"))
    if printed is not None:
        shown = (
            (printed.findings, "#findings", "printed.findings"),
            (printed.measures, "#measures", "printed.measures"),
            (printed.far, "#divergences", "printed.far"),
            (printed.trace, "#printed-trace", "printed.trace"),
            (printed.ledger, "#ledgers", "printed.ledger"),
        )
        parts["published"] += [(target, key) for there, target, key in shown if there]
    if model.official is not None:
        own = parts[model.official.file.dataset.evidence]
        own += [
            ("#official-ledgers", "printed.official_ledger"),
            ("#provenance", "provenance.title"),
        ]
    return tuple(
        (
            writer.badge(model, kind),
            tuple(Link(target, writer.t(key)) for target, key in parts[kind]),
        )
        for kind in model.kinds
    )


def _domain(
    writer: Writer, model: Model, held: HeldCorpus, domain: Domain, path: str
) -> DomainContext:
    name = writer.pick(domain.title)
    headline = writer.t("domain.headline", layers=len(held.corpus.layers), domain=name)
    return DomainContext(
        frame=writer.frame(
            path,
            f"{name} · {model.identity.title}",
            headline,
            crumbs=[*writer.model_crumbs(model), (None, name)],
            model=model,
            sources=[held.file],
        ),
        headline=headline,
        lead=writer.t("domain.lead", experts=held.corpus.routing.n_routed_experts),
        overview=overview(writer, model, held, domain, path),
    )


def overview(writer: Writer, model: Model, held: HeldCorpus, domain: Domain, path: str) -> Overview:
    """Overview of one domain; its tabs lead to the other domains' own pages."""
    rows = []
    for layer in held.corpus.layers:
        load = domain_of(layer, domain.domain).prompt_balanced
        target = URLS.layer(writer.lang, model.slug, domain.domain, layer.layer)
        rows.append(
            OverviewRow(
                href=URLS.link(path, target),
                layer=layer.layer,
                row=rank_row(chart_of(layer, domain.domain, "prompt_balanced")),
                effective=EFFECTIVE.text(load.effective_experts.point),
                interval=EFFECTIVE.interval(load.effective_experts.percentile),
                top_expert=expert_name(layer.layer, load.top_expert),
                top_share=SHARE.text(load.top_share.point),
            )
        )
    tabs = tuple(
        Link(
            URLS.link(path, URLS.domain(writer.lang, model.slug, d.domain)),
            writer.pick(d.title),
            d.domain == domain.domain,
        )
        for d in held.corpus.domains
    )
    key = (
        (CLASSES - 1, writer.t("overview.key_top", multiple=TOP_MULTIPLE)),
        (lightness(1.0), writer.t("overview.key_uniform")),
        (0, writer.t("overview.key_zero")),
    )
    caption = writer.t(
        "overview.caption",
        domain=writer.pick(domain.title),
        prompts=COUNT.text(domain.prompts),
        replicates=COUNT.text(held.corpus.statistics.replicates),
    )
    return Overview(writer.pick(domain.title), tabs, tuple(rows), key, caption)


def _matrix_heads(writer: Writer, model: Model, path: str) -> tuple[Link, ...]:
    if model.corpus is None:
        return ()
    return tuple(
        Link(URLS.link(path, URLS.domain(writer.lang, model.slug, d.domain)), writer.pick(d.title))
        for d in model.corpus.corpus.domains
    )


MATRIX_STEPS = 6


def _matrix(writer: Writer, model: Model, path: str) -> tuple[MatrixRow, ...]:
    if model.corpus is None:
        return ()
    layers = model.corpus.corpus.layers
    points = [d.prompt_balanced.effective_experts.point for x in layers for d in x.domains]
    low, width = min(points), (max(points) - min(points)) or 1.0
    rows = []
    for layer in layers:
        cells = []
        for d in layer.domains:
            estimate = d.prompt_balanced.effective_experts
            target = URLS.layer(writer.lang, model.slug, d.domain, layer.layer)
            # the fewer effective experts, the darker
            step = (
                MATRIX_STEPS
                - 1
                - min(MATRIX_STEPS - 1, int((estimate.point - low) / width * MATRIX_STEPS))
            )
            cells.append(
                MatrixCell(
                    URLS.link(path, target),
                    EFFECTIVE.text(estimate.point),
                    EFFECTIVE.interval(estimate.percentile),
                    step,
                )
            )
        rows.append(MatrixRow(layer.layer, tuple(cells)))
    return tuple(rows)
