"""Front pages: the language choice at the root, and the home page of each language."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.numbers import COUNT
from atlas.pages.cards import FindingCard, finding_cards
from atlas.pages.frame import Badge, Frame, Link, Page, Writer
from atlas.pages.model import sections
from atlas.shelf import Model
from atlas.urls import ICON, ROOT, STYLE, URLS


@dataclass(frozen=True)
class ModelCard:
    """A model on the home page."""

    href: str
    title: str
    badges: tuple[Badge, ...]
    demo: bool
    facts: str
    sections: tuple[Link, ...]


@dataclass(frozen=True)
class HomeContext:
    """Context of home.html.j2. `lead_model` is the model whose findings lead, None without one."""

    frame: Frame
    headline: str
    lead: str
    lead_model: ModelCard | None
    lead_badge: Badge | None
    findings: tuple[FindingCard, ...]
    models: tuple[ModelCard, ...]
    cannot: tuple[str, ...]
    limits: str


@dataclass(frozen=True)
class Door:
    """One language on the root page: where it leads, and the finding that leads the atlas."""

    lang: str
    href: str
    name: str
    site: str
    tagline: str
    finding: FindingCard | None
    badge: Badge | None
    enter: str


@dataclass(frozen=True)
class RootContext:
    """Context of root.html.j2."""

    style: str
    icon: str
    doors: tuple[Door, ...]


def lead_model(writer: Writer) -> Model | None:
    """The model whose findings lead: the first with a corpus, in the order of the shelf."""
    return next((m for m in writer.shelf.models if m.corpus is not None), None)


def corpus_badge(writer: Writer, model: Model | None) -> Badge | None:
    """Badge of a model's findings: of its corpus, whatever else there is about the model."""
    if model is None or model.corpus is None:
        return None
    return writer.badge(model, model.corpus.file.dataset.evidence)


def home_page(writer: Writer) -> Page:
    """The home page of the writer's language."""
    t = writer.t
    path = URLS.home(writer.lang)
    lead = lead_model(writer)
    context = HomeContext(
        frame=writer.frame(path, t("site.title"), t("home.lead")),
        headline=t("home.headline"),
        lead=t("home.lead"),
        lead_model=_card(writer, lead, path) if lead is not None else None,
        lead_badge=corpus_badge(writer, lead),
        findings=finding_cards(writer, lead, path) if lead is not None else (),
        models=tuple(_card(writer, model, path) for model in writer.shelf.models),
        cannot=tuple(
            t(f"limits.cannot_{name}") for name in ("meaning", "population", "test", "trail")
        ),
        limits=URLS.link(path, URLS.limits(writer.lang)),
    )
    return Page(path, "home.html.j2", writer.lang, context)


def _card(writer: Writer, model: Model, path: str) -> ModelCard:
    facts = []
    if model.corpus is not None:
        c = model.corpus.corpus
        facts.append(
            writer.t(
                "home.corpus_facts",
                layers=len(c.layers),
                domains=len(c.domains),
                prompts=COUNT.text(len(c.prompts)),
                tokens=COUNT.text(sum(d.tokens for d in c.domains)),
            )
        )
    if model.trace is not None:
        trace = model.trace.trace
        facts.append(
            writer.t(
                "home.trace_facts",
                prompts=len(trace.prompts),
                tokens=COUNT.text(trace.valid_tokens),
                layers=len(trace.moe_layers),
            )
        )
    if model.official is not None:
        facts.append(writer.t("home.official_facts"))
    if model.published is not None:
        figures = COUNT.text(len(model.published.published.figures))
        facts.append(writer.t("home.published_facts", figures=figures))
    return ModelCard(
        href=URLS.link(path, URLS.model(writer.lang, model.slug)),
        title=model.identity.title,
        badges=writer.badges(model),
        demo=model.is_demo,
        facts=writer.t("site.gap").join(facts),
        sections=sections(writer, model, path),
    )


def root_page(writers: tuple[Writer, ...]) -> Page:
    """The page at the root: every language's name for the atlas and its first finding."""
    doors = []
    for writer in writers:
        lead = lead_model(writer)
        cards = finding_cards(writer, lead, ROOT) if lead is not None else ()
        frame = writer.frame(URLS.home(writer.lang), "", "")
        doors.append(
            Door(
                lang=frame.html_lang,
                href=URLS.link(ROOT, URLS.home(writer.lang)),
                name=writer.t("site.language"),
                site=writer.t("site.name"),
                tagline=writer.t("home.headline"),
                finding=cards[0] if cards else None,
                badge=corpus_badge(writer, lead),
                enter=writer.t("home.enter"),
            )
        )
    context = RootContext(URLS.link(ROOT, STYLE), URLS.link(ROOT, ICON), tuple(doors))
    return Page(ROOT, "root.html.j2", "en", context)
