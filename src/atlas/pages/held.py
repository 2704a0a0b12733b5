"""What a model's page says of a captured trace, of official shapes, and of what is not there."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.numbers import PERCENT, RATIO
from atlas.pages.frame import Badge, Link, Writer
from atlas.pages.mla import Ledger, ledgers
from atlas.pages.trace import LoadRow, load_rows
from atlas.pages.workstation import command_lines, has_guide
from atlas.shelf import Model
from atlas.urls import URLS


@dataclass(frozen=True)
class Captured:
    """The load of a trace, as its own page shows it."""

    badge: Badge
    experts: int
    rows: tuple[LoadRow, ...]
    home: Link


@dataclass(frozen=True)
class OfficialLedgers:
    """The two ledgers of the cache from official shapes."""

    badge: Badge
    ledgers: tuple[Ledger, ...]
    result: str


@dataclass(frozen=True)
class Missing:
    """What is not there, and the commands that make it."""

    lines: tuple[str, ...]
    commands: tuple[str, ...]
    guide: Link | None


def captured(writer: Writer, model: Model, path: str) -> Captured | None:
    """The trace's load for the model's page; None without a trace."""
    held = model.trace
    if held is None:
        return None
    home = URLS.trace(writer.lang, model.slug)
    return Captured(
        writer.badge(model, held.file.dataset.evidence),
        held.trace.architecture.n_routed_experts,
        tuple(load_rows(writer, model, held, path)),
        Link(URLS.link(path, home), writer.t("nav.trace")),
    )


def official_ledgers(writer: Writer, model: Model) -> OfficialLedgers | None:
    """The ledgers of an official file; None without one."""
    held = model.official
    if held is None:
        return None
    cache = held.official.mla.layer
    return OfficialLedgers(
        writer.badge(model, held.file.dataset.evidence),
        ledgers(writer, held.official.architecture, cache),
        writer.t(
            "mla.result", ratio=RATIO.text(cache.ratio), reduction=PERCENT.text(cache.reduction)
        ),
    )


def missing(writer: Writer, model: Model, path: str) -> Missing | None:
    """What a model with published figures lacks; None where nothing is, or none were printed."""
    if model.published is None:
        return None
    wanted = []
    if model.corpus is None:
        wanted.append(("corpus", "corpus"))
    if model.trace is None:
        wanted.append(("trace", "trace"))
    if not model.verifications:
        wanted.append(("verify", "verify"))
    if not wanted:
        return None
    guide = URLS.workstation(writer.lang, model.slug)
    return Missing(
        lines=tuple(writer.t(f"missing.{name}") for name, _ in wanted),
        commands=tuple(line for _, command in wanted for line in command_lines(command)),
        guide=Link(URLS.link(path, guide), writer.t("nav.workstation"))
        if has_guide(model)
        else None,
    )
