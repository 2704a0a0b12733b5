"""What official files say without a weight: shards, stop lines, parameters, the MLA ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atlas.contract.identity import StopLine
from atlas.numbers import COUNT, PERCENT, RATIO
from atlas.pages.frame import Frame, Page, Writer
from atlas.pages.mla import Ledger, ledgers
from atlas.shelf import HeldOfficial, Model
from atlas.urls import URLS


@dataclass(frozen=True)
class LayerRow:
    """One decoder layer: its parameters and the shards that hold its tensors."""

    layer: int
    kind: str
    parameters: str
    active: str
    shards: tuple[str, ...]


@dataclass(frozen=True)
class OfficialContext:
    """Context of official.html.j2."""

    frame: Frame
    headline: str
    lead: str
    stops_note: str
    stops: tuple[tuple[tuple[str, ...], str], ...]
    layers: tuple[LayerRow, ...]
    parts: tuple[tuple[str, str, str], ...]
    totals: tuple[str, str]
    rule: str
    ledgers: tuple[Ledger, ...]
    ratio: str
    reduction: str


def official_pages(writer: Writer, model: Model, held: HeldOfficial) -> Iterator[Page]:
    """The one page."""
    t, official = writer.t, held.official
    path = URLS.official(writer.lang, model.slug)
    headline = t("official.headline", layers=len(official.layers), shards=len(official.shards))
    cache = official.mla.layer
    context = OfficialContext(
        frame=writer.frame(
            path,
            f"{t('nav.official')} · {model.identity.title}",
            headline,
            crumbs=[*writer.model_crumbs(model), (None, t("nav.official"))],
            model=model,
            sources=[held.file],
        ),
        headline=headline,
        lead=t(
            "official.lead",
            tensors=COUNT.text(official.tensors),
            bytes=COUNT.text(official.tensor_bytes),
        ),
        stops_note=t(
            "official.stops_note", count=sum(s.stop_line is None for s in official.stop_lines)
        ),
        stops=tuple(
            (s.shards, _stop(writer, s.stop_line))
            for s in official.stop_lines
            if s.stop_line is not None
        ),
        layers=tuple(
            LayerRow(
                x.layer,
                t(f"trace.kind_{x.kind}"),
                COUNT.text(x.parameters),
                COUNT.text(x.active_parameters),
                tuple(part.shard for part in x.parts),
            )
            for x in official.layers
        ),
        parts=tuple(
            (p.part, COUNT.text(p.total), COUNT.text(p.active)) for p in official.parameters.parts
        ),
        totals=(COUNT.text(official.parameters.total), COUNT.text(official.parameters.active)),
        rule=writer.pick(official.parameters.rule),
        ledgers=ledgers(writer, official.architecture, cache),
        ratio=RATIO.text(cache.ratio),
        reduction=PERCENT.text(cache.reduction),
    )
    yield Page(path, "official.html.j2", writer.lang, context)


def _stop(writer: Writer, line: StopLine) -> str:
    last = line.executed_layers[-1]
    if line.first_missing_layer is None:
        return writer.t("official.stop_complete", last=last)
    files = ", ".join(line.missing_files)
    missing = line.first_missing_layer
    return writer.t("official.stop_missing", last=last, missing=missing, files=files)
