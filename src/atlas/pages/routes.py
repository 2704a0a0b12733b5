"""Routes token by token: the selected experts, their weights, the sum, the margin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from atlas.numbers import COUNT, MARGIN, Measure, expert_name
from atlas.pages.frame import Frame, Link, Page, Writer
from atlas.shelf import HeldRoutes, Model
from atlas.urls import URLS

NEAR_TIE = 0.001
"""Below this margin a route is marked as a near tie: other hardware may decide otherwise."""
WEIGHT_STEPS = 6


@dataclass(frozen=True)
class Selected:
    """One selected expert with its gate weight; `step` is the weight's lightness."""

    name: str
    weight: str
    step: int


@dataclass(frozen=True)
class TokenRow:
    """One token: its position, its text where that is recorded, its routes."""

    position: int
    piece: str | None
    token_id: str
    selected: tuple[Selected, ...]
    weight_sum: str
    margin: str
    near_tie: bool


@dataclass(frozen=True)
class RouteTable:
    """Routes of one prompt in one layer."""

    anchor: str
    layer: int
    title: str
    prompt: str | None
    k: int
    has_pieces: bool
    has_margin: bool
    rows: tuple[TokenRow, ...]
    note: str


@dataclass(frozen=True)
class RoutesContext:
    """Context of routes.html.j2: one layer of a routes file."""

    frame: Frame
    headline: str
    lead: str
    sum_note: str
    layers: tuple[Link, ...]
    tables: tuple[RouteTable, ...]
    cannot: tuple[str, ...]


def selected(
    layer: int, ids: Sequence[int], weights: Sequence[float], measure: Measure
) -> tuple[Selected, ...]:
    """The selected experts of one token, in the order of the file."""
    return tuple(
        Selected(
            expert_name(layer, e), measure.text(w), min(WEIGHT_STEPS - 1, int(w * 2 * WEIGHT_STEPS))
        )
        for e, w in zip(ids, weights, strict=True)
    )


def routes_pages(writer: Writer, model: Model, held: HeldRoutes) -> Iterator[Page]:
    """A page per layer; the first one is also where links to the routes lead."""
    for place, layer in enumerate(held.routes.layers):
        path = URLS.routes_of(writer.lang, model.slug, layer.layer, place)
        yield Page(path, "routes.html.j2", writer.lang, _context(writer, model, held, place, path))


def first_of_each_domain(held: HeldRoutes) -> tuple[int, ...]:
    """Places of the prompts that pages show: the first of each domain, to keep pages small.
    The others stand in the file."""
    seen: dict[str | None, int] = {}
    for place, prompt in enumerate(held.routes.prompts):
        seen.setdefault(prompt.domain, place)
    return tuple(sorted(seen.values()))


def weight_decimals(held: HeldRoutes) -> int:
    """Decimals that weights are shown with: those of the record, else four."""
    decimals = held.routes.weight_decimals
    return 4 if decimals is None else decimals


def route_tables(writer: Writer, held: HeldRoutes, place: int) -> tuple[RouteTable, ...]:
    """Tables of the prompts that pages show, for the layer at `place` of the file."""
    t, routes, layer = writer.t, held.routes, held.routes.layers[place]
    measure, k = Measure(weight_decimals(held)), routes.routing.num_experts_per_tok
    shown = first_of_each_domain(held)
    tables = []
    for number, (prompt, own) in enumerate(zip(routes.prompts, layer.prompts, strict=True)):
        if number not in shown:
            continue
        rows = tuple(
            TokenRow(
                position=position,
                piece=None,
                token_id="",
                selected=selected(layer.layer, ids, weights, measure),
                weight_sum=measure.text(total),
                margin="",
                near_tie=False,
            )
            for position, (ids, weights, total) in enumerate(
                zip(own.expert_ids_TK, own.weights_TK, own.weight_sum_T, strict=True)
            )
        )
        mean = math.fsum(own.weight_sum_T) / len(own.weight_sum_T)
        tables.append(
            RouteTable(
                anchor=f"prompt-{number + 1}",
                layer=layer.layer,
                title=t("routes.prompt", prompt=prompt.prompt_id, layer=layer.layer),
                prompt=None,
                k=k,
                has_pieces=False,
                has_margin=False,
                rows=rows,
                note=t(
                    "routes.note",
                    shown=COUNT.text(prompt.positions),
                    tokens=COUNT.text(prompt.tokens),
                    mean=measure.text(mean),
                ),
            )
        )
    return tuple(tables)


def _context(
    writer: Writer, model: Model, held: HeldRoutes, place: int, path: str
) -> RoutesContext:
    t, routes = writer.t, held.routes
    layer = routes.layers[place]
    decimals = weight_decimals(held)
    k = routes.routing.num_experts_per_tok
    shown = first_of_each_domain(held)
    headline = t("routes.headline", k=k, layer=layer.layer)
    return RoutesContext(
        frame=writer.frame(
            path,
            f"{t('nav.routes')} · {t('layer.crumb', layer=layer.layer)} · {model.identity.title}",
            headline,
            crumbs=[*writer.model_crumbs(model), (None, t("nav.routes"))],
            model=model,
            sources=[held.file],
        ),
        headline=headline,
        lead=t(
            "routes.lead", k=k, decimals=decimals, shown=len(shown), prompts=len(routes.prompts)
        ),
        sum_note=t("routes.sum_note", k=k),
        layers=tuple(
            Link(
                URLS.link(path, URLS.routes_of(writer.lang, model.slug, x.layer, i)),
                str(x.layer),
                i == place,
                t("layer.crumb", layer=x.layer),
            )
            for i, x in enumerate(routes.layers)
        ),
        tables=route_tables(writer, held, place),
        cannot=(
            t("routes.cannot_meaning"),
            *(writer.pick(x) for x in routes.docs.does_not_answer),
        ),
    )


def trace_margin(value: float) -> tuple[str, bool]:
    """A margin as text, and whether it is a near tie."""
    return MARGIN.text(value), value < NEAR_TIE
