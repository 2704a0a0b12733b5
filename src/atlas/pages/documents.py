"""What source documents print about a model, as sections of its page: none was run again.

Sections follow from the figures that the file holds: a file without a divergence has no
section of divergences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from atlas.charts.dotplot import Axis, DotPlot, DotValue, dot_plot
from atlas.charts.overview import RangeGlyph, range_glyph
from atlas.contract.published import PublishedFigure
from atlas.numbers import expert_name
from atlas.pages.frame import Badge, Writer
from atlas.pages.printed import Origin, Printed, Reader, interval_text
from atlas.shelf import Model

BALANCED = "prompt_balanced"
MEASURES = ("cv", "effective_experts")
TRACE_COLUMNS = (
    "selections",
    "used",
    "zero",
    "cv_sample",
    "gini",
    "effective_experts",
    "top_expert",
    "top_count",
    "mean_weight_sum",
)
LEDGER = (
    "projection_shape",
    "key_shape",
    "value_shape",
    "eager_elements",
    "latent_elements",
    "element_bytes",
    "eager_bytes",
    "latent_bytes",
    "cache_ratio",
    "cache_reduction",
)


@dataclass(frozen=True)
class FindingLine:
    """One layer of a finding: named figures, and what stands between two of one name."""

    layer: str
    values: tuple[tuple[str, tuple[Printed, ...]], ...]
    between: str


@dataclass(frozen=True)
class PrintedFinding:
    """A finding of a document: what it says, its figures, a note, where it is printed."""

    sentence: str
    lines: tuple[FindingLine, ...]
    note: str
    origin: Origin


@dataclass(frozen=True)
class DotTable:
    """One measure, layer by domain: dots that are not joined, and the table of all of them.
    A cell is None where the documents print nothing."""

    measure: str
    title: str
    alternative: str
    note: str
    plot: DotPlot
    domains: tuple[str, ...]
    rows: tuple[tuple[int, tuple[Printed | None, ...]], ...]
    origin: Origin


@dataclass(frozen=True)
class FarRow:
    """The largest divergence of one layer: the pair, the figure, its place on the axis."""

    layer: int
    pair: str
    value: Printed
    glyph: RangeGlyph


@dataclass(frozen=True)
class Table:
    """A plain table of printed figures; a row's head, then its cells."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Printed | None, ...]], ...]
    origin: Origin


@dataclass(frozen=True)
class PrintedModel:
    """All sections; those without figures are empty or None."""

    badge: Badge
    findings: tuple[PrintedFinding, ...]
    measures: tuple[DotTable, ...]
    far: tuple[FarRow, ...]
    far_note: tuple[Printed, ...]
    far_origin: Origin | None
    trace: Table | None
    prompts: Table | None
    ledger: Table | None


def printed_model(writer: Writer, model: Model, path: str) -> PrintedModel | None:
    """Sections of a model's published file, None without one."""
    if model.published is None:
        return None
    reader = Reader(writer, model, model.published, path)
    far = [f for f in reader.figures if f.quantity == "jsd" and f.interval is not None]
    share = reader.of("largest_jsd_fraction", layer=_largest(far)) if far else None
    notes = [f for f in (share, reader.of("ln_2")) if f is not None]
    return PrintedModel(
        badge=writer.badge(model, "published"),
        findings=(*_concentrated(reader), *_flat(reader)),
        measures=tuple(t for m in MEASURES if (t := dot_table(reader, m)) is not None),
        far=tuple(_far_rows(reader, far)),
        far_note=tuple(map(reader.show, notes)) if len(notes) == 2 else (),
        far_origin=reader.origin(far) if far else None,
        trace=_trace(reader),
        prompts=_prompts(reader),
        ledger=_ledger(reader),
    )


def _largest(far: list[PublishedFigure]) -> int | None:
    return max(far, key=lambda f: float(str(f.value))).layer


def _concentrated(reader: Reader) -> Iterable[PrintedFinding]:
    """Findings of the sections that print effective experts of a domain with an interval."""
    t = reader.writer.t
    by_section: dict[str, list[PublishedFigure]] = {}
    for figure in reader.figures:
        if figure.quantity == "effective_experts" and figure.interval and figure.domain:
            by_section.setdefault(figure.section, []).append(figure)
    for group in by_section.values():
        lines: list[FindingLine] = []
        used: list[PublishedFigure] = []
        for figure in group:
            place = {"layer": figure.layer, "domain": figure.domain}
            found = {
                name: reader.of(name, **place)  # type: ignore[arg-type]
                for name in ("effective_experts", "cv", "top_expert", "top_share")
            }
            own = {name: f for name, f in found.items() if f is not None}
            used += own.values()
            named = [
                (t("metric.effective_experts"), ("effective_experts",)),
                (t("metric.cv"), ("cv",)),
                (t("overview.top"), ("top_expert", "top_share")),
            ]
            values = tuple(
                (name, tuple(reader.show(own[k]) for k in keys if k in own))
                for name, keys in named
                if any(k in own for k in keys)
            )
            lines.append(FindingLine(str(figure.layer), values, " "))
        layers = " / ".join(str(f.layer) for f in group)
        domain = reader.writer.domain_title(group[0].domain or "")
        yield PrintedFinding(
            sentence=t("printed.concentrated", layers=layers, domain=domain),
            lines=tuple(lines),
            note=t("printed.concentrated_note"),
            origin=reader.origin(used),
        )


def _flat(reader: Reader) -> Iterable[PrintedFinding]:
    """The layer whose range over its domains is printed: no interval goes with it."""
    t = reader.writer.t
    for lowest in [f for f in reader.figures if f.quantity == "cv_of_domains_lowest"]:
        own = {
            name: [
                f
                for end in ("lowest", "highest")
                if (f := reader.of(f"{name}_of_domains_{end}", layer=lowest.layer)) is not None
            ]
            for name in ("effective", "cv")
        }
        line = FindingLine(
            str(lowest.layer),
            (
                (t("metric.effective_experts"), tuple(map(reader.show, own["effective"]))),
                (t("metric.cv"), tuple(map(reader.show, own["cv"]))),
            ),
            "–",
        )
        yield PrintedFinding(
            sentence=t("printed.flat", layer=lowest.layer),
            lines=(line,),
            note=t("printed.flat_note"),
            origin=reader.origin([*own["effective"], *own["cv"]]),
        )


def dot_table(reader: Reader, measure: str) -> DotTable | None:
    """Dots and table of one prompt-balanced measure; None where no document prints it."""
    writer, t = reader.writer, reader.writer.t
    figures = {
        (f.layer, f.domain): f
        for f in reader.figures
        if f.quantity == measure and f.weighting == BALANCED
        if f.layer is not None and f.domain is not None and isinstance(f.value, float)
    }
    if not figures:
        return None
    layers = sorted({layer for layer, _ in figures})
    domains = list(dict.fromkeys(domain for _, domain in figures))
    titles = {d: writer.domain_title(d) for d in domains}
    values = {
        key: DotValue(
            point=float(str(f.value)),
            low=f.interval.low if f.interval else None,
            high=f.interval.high if f.interval else None,
            label=t("printed.dot", layer=key[0], domain=titles[key[1]], value=_estimate(f)),
        )
        for key, f in figures.items()
    }
    rows = [
        (layer, tuple(reader.some(figures.get((layer, domain))) for domain in domains))
        for layer in layers
    ]
    title = t(f"metric.{measure}")
    return DotTable(
        measure=measure,
        title=t("printed.measure", measure=title, layers=f"{layers[0]}–{layers[-1]}"),
        alternative=t("printed.alternative", measure=title),
        note=t(f"printed.{measure}_note"),
        plot=dot_plot(values, layers, domains, _axis(reader, measure, values.values())),
        domains=tuple(titles.values()),
        rows=tuple(rows),
        origin=reader.origin(figures.values()),
    )


def _estimate(figure: PublishedFigure) -> str:
    return " ".join(x for x in (figure.printed, interval_text(figure.interval)) if x)


def _axis(reader: Reader, measure: str, values: Iterable[DotValue]) -> Axis:
    """CV from 0, which is uniform; effective experts up to all experts, which is uniform."""
    shown = list(values)
    if measure == "cv":
        highest = max(v.high or v.point for v in shown)
        return Axis(0.0, math.ceil(highest * 5) / 5, 0.2, 0.0, 1)
    uniform = reader.of("uniform_effective_experts") or reader.of("n_routed_experts")
    experts = float(str(uniform.value)) if uniform is not None else max(v.point for v in shown)
    lowest = min(v.low or v.point for v in shown)
    return Axis(math.floor(lowest / 4) * 4.0, experts, 4.0, experts, 0)


def _far_rows(reader: Reader, figures: list[PublishedFigure]) -> Iterable[FarRow]:
    end = max((f.interval.high for f in figures if f.interval), default=1.0)
    for figure in figures:
        if figure.interval is None or figure.layer is None or figure.pair is None:
            continue
        low, high = figure.interval.low, figure.interval.high
        yield FarRow(
            layer=figure.layer,
            pair=" ↔ ".join(map(reader.writer.domain_title, figure.pair)),
            value=reader.show(figure),
            glyph=range_glyph(float(str(figure.value)), low, high, 0.0, end),
        )


def _trace(reader: Reader) -> Table | None:
    """The trace's load, layer by layer, in the documents' own measures."""
    layers = sorted(
        {f.layer for f in reader.figures if f.quantity == "top_count" and f.layer is not None}
    )
    cells = {
        layer: [reader.of(q, document="trace", layer=layer) for q in TRACE_COLUMNS]
        for layer in layers
    }
    used = [f for row in cells.values() for f in row if f is not None]
    if not used:
        return None
    heads = [reader.writer.t("overview.layer")]
    heads += [reader.writer.t(f"printed.column_{name}") for name in TRACE_COLUMNS]
    rows = tuple((str(n), tuple(map(reader.some, row))) for n, row in cells.items())
    return Table(tuple(heads), rows, reader.origin(used))


def _prompts(reader: Reader) -> Table | None:
    """Figures of single prompts of the trace: only some are printed."""
    t = reader.writer.t
    used = [f for f in reader.figures if f.prompt is not None and f.layer is not None]
    if not used:
        return None
    heads = (t("published.of"), t("published.printed"))
    rows = []
    for f in used:
        place = t("printed.prompt", layer=f.layer, prompt=f.prompt)
        expert = f" · {expert_name(f.layer or 0, f.expert)}" if f.expert is not None else ""
        rows.append((f"{place} · {reader.quantity(f.quantity)}{expert}", (reader.show(f),)))
    return Table(heads, tuple(rows), reader.origin(used))


def _ledger(reader: Reader) -> Table | None:
    t = reader.writer.t
    used = [f for q in LEDGER if (f := reader.of(q, document="trace")) is not None]
    if not used:
        return None
    heads = (t("published.quantity"), t("published.printed"))
    rows = tuple((reader.quantity(f.quantity), (reader.show(f),)) for f in used)
    return Table(heads, rows, reader.origin(used))
