"""Files that a reader takes away: CSV as shown, JSON as stored, with stable names.

CSV figures come from the one number formatter, so a table and its CSV never differ; JSON
carries the values of the dataset unrounded, with the file and hash they are fields of.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from atlas.canonical import canonical_json
from atlas.charts.corpus import WEIGHTINGS, chart_of, divergence_of, domain_of, load_of
from atlas.charts.vega import load_spec
from atlas.contract.corpus import CorpusLayer, Domain
from atlas.numbers import JSD, MARGIN, MEASURES, MULTIPLE, SHARE, WEIGHT, expert_name
from atlas.pages.estimates import METRICS
from atlas.shelf import HeldCorpus, HeldTrace, Model
from atlas.urls import URLS

LAYER_SCHEMA = "llm-atlas/layer-load@1"


def csv_bytes(head: Iterable[str], rows: Iterable[Iterable[object]]) -> bytes:
    """CSV with `\\n` line ends. Text that a spreadsheet would run as a formula gets a quote."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_inert(cell) for cell in row])
    return text.getvalue().encode("utf-8")


def _inert(cell: object) -> object:
    if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{cell}"
    return cell


def corpus_files(model: Model, held: HeldCorpus) -> Iterator[tuple[str, bytes]]:
    """CSV and JSON of every layer and domain, and two tables of the whole corpus."""
    for domain in held.corpus.domains:
        for layer in held.corpus.layers:
            names = (model.slug, domain.domain, layer.layer)
            yield URLS.layer_csv(*names), _layer_csv(layer, domain.domain)
            yield URLS.layer_vega(*names), _layer_vega(model, held, layer, domain)
            yield URLS.layer_json(*names), _layer_json(model, held, layer, domain.domain)
    yield URLS.metrics_csv(model.slug), _metrics_csv(held)
    if len(held.corpus.domains) > 1:
        yield URLS.divergences_csv(model.slug), _divergences_csv(held)


def _layer_csv(layer: CorpusLayer, domain: str) -> bytes:
    head = ["layer", "domain", "expert", "expert_id"]
    for weighting in WEIGHTINGS:
        head += [
            f"{weighting}_{column}"
            for column in ("share_percent", "low_percent", "high_percent", "multiple_of_uniform")
        ]
    own = domain_of(layer, domain)
    loads = [load_of(own, w).shares for w in WEIGHTINGS]
    mass_E = own.gate_mass_E
    if mass_E is not None:
        head.append("mean_gate_weight")
    rows = []
    for e in range(len(loads[0].point_E)):
        row: list[object] = [layer.layer, domain, expert_name(layer.layer, e), e]
        for shares in loads:
            row += [
                SHARE.bare(shares.point_E[e]),
                SHARE.bare(shares.low_E[e]),
                SHARE.bare(shares.high_E[e]),
                MULTIPLE.bare(shares.point_E[e] * len(shares.point_E)),
            ]
        if mass_E is not None:
            row.append(WEIGHT.bare(mass_E[e]))
        rows.append(row)
    return csv_bytes(head, rows)


def _layer_vega(model: Model, held: HeldCorpus, layer: CorpusLayer, domain: Domain) -> bytes:
    csv_name = URLS.layer_csv(model.slug, domain.domain, layer.layer)
    spec_name = URLS.layer_vega(model.slug, domain.domain, layer.layer)
    title = f"{model.identity.title}: expert load, layer {layer.layer}, {domain.title.en}"
    subtitle = f"prompt-balanced; {held.file.dataset.evidence}; {held.file.name}"
    chart = chart_of(layer, domain.domain, "prompt_balanced")
    return canonical_json(load_spec(chart, URLS.link(spec_name, csv_name), title, subtitle))


def _layer_json(model: Model, held: HeldCorpus, layer: CorpusLayer, domain: str) -> bytes:
    loads: dict[str, Any] = {}
    for weighting in WEIGHTINGS:
        load = load_of(domain_of(layer, domain), weighting)
        loads[weighting] = load.model_dump(mode="json")
    return canonical_json(
        {
            "schema": LAYER_SCHEMA,
            "model": model.slug,
            "evidence": held.file.dataset.evidence,
            "layer": layer.layer,
            "domain": domain,
            "experts": held.corpus.routing.n_routed_experts,
            "uniform_share": 1 / held.corpus.routing.n_routed_experts,
            "load": loads,
            "gate_mass_E": domain_of(layer, domain).gate_mass_E,
            "statistics": held.corpus.statistics.model_dump(mode="json"),
            "source": {"file": held.file.name, "sha256": held.file.sha256},
        }
    )


def _metrics_csv(held: HeldCorpus) -> bytes:
    head = ["layer", "domain", "weighting"]
    for metric in METRICS:
        head += [metric, f"{metric}_low", f"{metric}_high"]

    def rows() -> Iterator[list[object]]:
        for layer in held.corpus.layers:
            for domain in layer.domains:
                for weighting in WEIGHTINGS:
                    load = load_of(domain, weighting)
                    row: list[object] = [layer.layer, domain.domain, weighting]
                    for metric in METRICS:
                        estimate, measure = getattr(load, metric), MEASURES[metric]
                        p = estimate.percentile
                        row += [measure.bare(x) for x in (estimate.point, p.low, p.high)]
                    yield row

    return csv_bytes(head, rows())


def _divergences_csv(held: HeldCorpus) -> bytes:
    def rows() -> Iterator[list[object]]:
        for layer in held.corpus.layers:
            for pair in layer.divergences:
                for weighting in WEIGHTINGS:
                    e = divergence_of(pair, weighting)
                    values = (e.point, e.percentile.low, e.percentile.high)
                    yield [layer.layer, pair.first, pair.second, weighting, *map(JSD.bare, values)]

    return csv_bytes(
        ("layer", "first", "second", "weighting", "jsd_nats", "jsd_low", "jsd_high"), rows()
    )


def trace_files(model: Model, held: HeldTrace) -> Iterator[tuple[str, bytes]]:
    """Every route of a layer as CSV: a row per token and selected expert."""
    pieces = {p.prompt_id: (p.token_ids_T, p.pieces_T) for p in held.trace.prompts}
    for layer in held.trace.moe_layers:
        if layer.moe is None:
            continue
        rows: list[list[object]] = []
        for routes in layer.moe.routes:
            ids_T, pieces_T = pieces[routes.prompt_id]
            for position, experts in enumerate(routes.expert_ids_TK):
                for rank, e in enumerate(experts):
                    rows.append(
                        [
                            layer.layer,
                            routes.prompt_id,
                            position,
                            ids_T[position],
                            pieces_T[position],
                            rank + 1,
                            expert_name(layer.layer, e),
                            WEIGHT.bare(routes.weights_TK[position][rank]),
                            MARGIN.bare(routes.margin_T[position]),
                        ]
                    )
        head = [
            "layer",
            "prompt_id",
            "position",
            "token_id",
            "piece",
            "rank",
            "expert",
            "weight",
            "margin",
        ]
        yield URLS.trace_csv(model.slug, layer.layer), csv_bytes(head, rows)
