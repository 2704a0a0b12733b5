"""What the atlas can say and what it cannot, in general and per dataset."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.contract import Comparison, Trace
from atlas.pages.frame import Frame, Page, Writer
from atlas.urls import URLS

PAIRS = ("load", "interval", "distance", "route", "cache", "repeat", "stop")
CANNOT = ("meaning", "population", "test", "trail")


@dataclass(frozen=True)
class FileLimits:
    """What one dataset says of itself."""

    name: str
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
    files = []
    for file in writer.shelf.files:
        dataset = file.dataset
        if isinstance(dataset, Trace | Comparison) or file.rerun_of is not None:
            continue
        files.append(
            FileLimits(
                file.name,
                dataset.evidence,
                t(f"evidence.{dataset.evidence}"),
                tuple(writer.pick(x) for x in dataset.docs.answers),
                tuple(writer.pick(x) for x in dataset.docs.does_not_answer),
            )
        )
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
