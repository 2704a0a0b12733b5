"""What the atlas can say and what it cannot, in general and per dataset."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.contract import Routes, RoutingCorpus
from atlas.contract.corpus import Docs
from atlas.pages.frame import Frame, Page, Writer
from atlas.urls import URLS

PAIRS = ("load", "interval", "distance", "route", "cache", "repeat", "stop")
CANNOT = ("meaning", "population", "test", "trail")


@dataclass(frozen=True)
class FileLimits:
    """What a dataset says of itself; datasets that say the same stand together."""

    names: tuple[str, ...]
    evidence: str
    evidence_name: str
    answers: tuple[str, ...]
    does_not: tuple[str, ...]


@dataclass(frozen=True)
class LimitsContext:
    """Context of limits.html.j2."""

    frame: Frame
    headline: str
    lead: str
    pairs: tuple[tuple[str, str], ...]
    cannot: tuple[str, ...]
    files: tuple[FileLimits, ...]
    evidence: tuple[tuple[str, str, str], ...]


def limits_page(writer: Writer) -> Page:
    """The limits page of the writer's language."""
    t = writer.t
    path = URLS.limits(writer.lang)
    said: dict[tuple[str, Docs], list[str]] = {}
    for file in writer.shelf.files:
        dataset = file.dataset
        if isinstance(dataset, RoutingCorpus | Routes) and file.rerun_of is None:
            said.setdefault((dataset.evidence, dataset.docs), []).append(file.name)
    files = [
        FileLimits(
            tuple(names),
            evidence,
            t(f"evidence.{evidence}"),
            tuple(writer.pick(x) for x in docs.answers),
            tuple(writer.pick(x) for x in docs.does_not_answer),
        )
        for (evidence, docs), names in said.items()
    ]
    context = LimitsContext(
        frame=writer.frame(path, t("limits.title"), t("limits.lead")),
        headline=t("limits.headline"),
        lead=t("limits.lead"),
        pairs=tuple((t(f"limits.can_{p}"), t(f"limits.not_{p}")) for p in PAIRS),
        cannot=tuple(t(f"limits.cannot_{name}") for name in CANNOT),
        files=tuple(files),
        evidence=tuple(
            (e, t(f"evidence.{e}"), t(f"evidence.{e}_meaning"))
            for e in ("captured", "imported", "official", "published", "demo")
        ),
    )
    return Page(path, "limits.html.j2", writer.lang, context)
