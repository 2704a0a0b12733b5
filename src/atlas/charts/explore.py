"""The chart of an explore page: one layer, any of its text domains, drawn by Vega in the browser.

A spec holds the data of one layer; what a reader picks (domain, weighting, order, one expert) is
a parameter. Another layer is another spec in another file: no dataset ever holds two. Figures
come from the one number formatter, so that the table of a layer page and a tooltip show the
same digits. Rows are JSON, since Vega reads CSV by making code, which the page's policy forbids.

Axes: E routed expert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

from atlas.charts.load import LayerLoadChart
from atlas.numbers import MULTIPLE, SHARE, expert_name

COLUMNS = ("share_percent", "low_percent", "high_percent", "multiple_of_uniform", "rank", "mark")
"""Places of a row's list under one weighting; `rank` counts from 0 by falling share, ties by id."""

LIGHT = {
    "above": "#0b5c8f",
    "holds": "#7d97a8",
    "below": "#cfd8de",
    "accent": "#a34a17",
    "edge": "#8a8f95",
    "whisker": "#1d2126",
}
"""Colours of the stylesheet's light scheme; the page's script puts in those of the reader's."""


@dataclass(frozen=True)
class Words:
    """What the chart says, in the language of its page."""

    share: str
    interval: str
    multiple: str
    expert: str


def layer_rows(charts: Sequence[LayerLoadChart]) -> list[dict[str, Any]]:
    """Rows of one layer, an expert and domain each: a list in the order of COLUMNS per weighting.

    Raises ValueError unless all charts are of one layer.
    """
    layers = {(chart.layer, chart.experts) for chart in charts}
    if len(layers) != 1:
        raise ValueError(f"layer_rows: expected charts of one layer, found {sorted(layers)}")
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for chart in charts:
        domain = chart.domain or ""
        for rank, e in enumerate(chart.order("share")):
            row = {"domain": domain, "expert": expert_name(chart.layer, e), "expert_id": e}
            rows.setdefault((domain, e), row)[chart.weighting] = _figures(chart, e, rank)
    return list(rows.values())


def _figures(chart: LayerLoadChart, expert: int, rank: int) -> list[float | int | str]:
    share = chart.shares_E[expert]
    low, high = chart.low_E or chart.shares_E, chart.high_E or chart.shares_E
    return [
        float(SHARE.bare(share)),
        float(SHARE.bare(low[expert])),
        float(SHARE.bare(high[expert])),
        float(MULTIPLE.bare(share * chart.experts)),
        rank,
        chart.mark(expert),
    ]


def explore_spec(words: Words, experts: int) -> dict[str, Any]:
    """Spec without data, the same for every layer of a model; `with_layer` fills one in."""
    # imported here: a build without a corpus does not need it, and it takes a while
    import altair as alt

    picked = {
        name: alt.param(name=f"pick_{name}", value=value)
        for name, value in (
            ("domain", ""),
            ("weighting", "prompt_balanced"),
            ("order", "share"),
            ("expert", ""),
        )
    }
    name = alt.X(
        "expert:N",
        sort=alt.EncodingSortField("place", op="min", order="ascending"),
        axis=alt.Axis(title=None, labelAngle=0, labelPadding=16, ticks=False, labelOverlap=True),
    )
    bars = alt.Chart().mark_bar(style="load", strokeWidth=2, stroke=LIGHT["accent"]).encode(
        x=name,
        # of fixed extent: other figures do not lay the axis out again
        y=alt.Y(
            "share_percent:Q",
            axis=alt.Axis(title=None, labelExpr="datum.label + '%'", minExtent=44),
        ),
        color=alt.Color(
            "mark:N",
            legend=None,
            # colours of config.range, which a page's script changes with the scheme
            scale=alt.Scale(domain=["above", "holds", "below", "bare"]),
        ),
        strokeOpacity=alt.condition("datum.expert === pick_expert", alt.value(1), alt.value(0)),
        tooltip=[
            alt.Tooltip("expert:N", title=words.expert),
            alt.Tooltip("share_text:N", title=words.share),
            alt.Tooltip("interval_text:N", title=words.interval),
            alt.Tooltip("multiple_text:N", title=words.multiple),
        ],
    )  # fmt: skip
    whiskers = alt.Chart().mark_bar(size=1.2, style="whisker", color=LIGHT["whisker"], tooltip=None)
    whiskers = whiskers.encode(
        x=name, y=alt.Y("low_percent:Q", axis=None), y2=alt.Y2("high_percent:Q")
    )
    shapes = (
        alt.Chart()
        .transform_filter("datum.mark === 'above' || datum.mark === 'below'")
        .mark_point(
            style="shape",
            color=LIGHT["edge"],
            fill=LIGHT["above"],
            size=22,
            strokeWidth=1,
            yOffset=8,
            opacity=1,
            tooltip=None,
        )
        .encode(
            x=name,
            y=alt.YDatum(0, axis=None),
            fillOpacity=alt.condition("datum.mark === 'above'", alt.value(1), alt.value(0)),
            shape=alt.Shape(
                "mark:N",
                legend=None,
                scale=alt.Scale(domain=["above", "below"], range=["triangle-up", "triangle-down"]),
            ),
        )
    )
    uniform = (
        alt.Chart(alt.InlineData(values=[{"uniform_percent": 100 / experts}]))
        .mark_rule(
            style="uniform",
            color=LIGHT["accent"],
            strokeDash=[5, 4],
            strokeWidth=1.5,
            tooltip=None,
        )
        .encode(y=alt.Y("uniform_percent:Q", axis=_multiples(100 / experts)))
    )
    chart = (
        alt.layer(bars, whiskers, shapes, uniform, data=alt.NamedData("load"))
        .resolve_axis(y="independent")
        .add_params(*picked.values())
        .transform_filter("datum.domain === pick_domain")
        .transform_calculate(
            **{column: _picked(column) for column in COLUMNS if column != "rank"},
            place=f"pick_order === 'id' ? datum.expert_id : {_picked('rank')}",
        )
        .transform_calculate(
            share_text="format(datum.share_percent, '.2f') + '%'",
            interval_text="'[' + format(datum.low_percent, '.2f') + '%, ' + "
            "format(datum.high_percent, '.2f') + '%]'",
            multiple_text="'×' + format(datum.multiple_of_uniform, '.2f')",
        )
        .properties(width="container", height=320)
        .configure_range(category=[LIGHT[m] for m in ("above", "holds", "below", "above")])
        .configure_axis(labelFontSize=12)
    )
    return dict(chart.to_dict(validate=False))


def _multiples(uniform: float) -> alt.Axis:
    """The right axis: multiples of the uniform share, every one or so many that six fit."""
    import altair as alt

    end = "domain('y')[1]"
    step = f"{uniform} * max(1, ceil({end} / {uniform} / 6))"
    return alt.Axis(
        title=None,
        orient="right",
        grid=False,
        values=alt.ExprRef(f"sequence({uniform}, {end}, {step})"),
        labelExpr=f"'×' + format(datum.value / {uniform}, 'd')",
        minExtent=30,
        labelColor=LIGHT["accent"],
    )


def _picked(column: str) -> str:
    """Expression: the column of the weighting that the reader picked."""
    place = COLUMNS.index(column)
    return (
        f"pick_weighting === 'token_weighted' ? datum.token_weighted[{place}] "
        f": datum.prompt_balanced[{place}]"
    )


def with_layer(
    spec: dict[str, Any], rows: list[dict[str, Any]], domain: str, page: dict[str, Any]
) -> dict[str, Any]:
    """`spec` with one layer's rows. `page` is what the page around it says, by domain."""
    params = [{**p, "value": domain} if p["name"] == "pick_domain" else p for p in spec["params"]]
    return {**spec, "data": {"name": "load", "values": rows}, "params": params, "usermeta": page}
