"""A layer's chart as a Vega-Lite spec, made with Altair, its data beside it as CSV.

Bars, thin bars for the intervals, and a rule for the uniform share that knows no expert: no
mark joins experts, and the data behind the spec holds one layer. `atlas.guard.specs` looks at
every spec again before it leaves.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from atlas.charts.load import LayerLoadChart
from atlas.contract.corpus import Weighting


def load_spec(chart: LayerLoadChart, data_url: str, title: str, subtitle: str) -> dict[str, Any]:
    """Spec of `chart`; `data_url` is the CSV of `atlas.downloads`, as seen from the spec."""
    title_of = {"text": title, "subtitle": subtitle}
    return {**_spec(chart.weighting, chart.uniform), "data": {"url": data_url}, "title": title_of}


@cache
def _spec(weighting: Weighting, uniform_share: float) -> dict[str, Any]:
    """The part of a spec that all layers of a model share."""
    # imported here: a build without a corpus does not need it, and it takes a while
    import altair as alt

    share, low, high = (f"{weighting}_{name}_percent" for name in ("share", "low", "high"))
    expert = alt.X("expert:N", sort=alt.EncodingSortField(share, order="descending"))
    tooltip = [alt.Tooltip("expert:N"), *(alt.Tooltip(f"{f}:Q") for f in (share, low, high))]
    bars = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=expert.title("expert"),
            y=alt.Y(f"{share}:Q", title="share of selections, %"),
            tooltip=tooltip,
        )
    )
    whiskers = alt.Chart().mark_bar(size=1.5, color="black")
    whiskers = whiskers.encode(x=expert, y=alt.Y(f"{low}:Q"), y2=alt.Y2(f"{high}:Q"))
    uniform = (
        alt.Chart(alt.InlineData(values=[{"uniform_percent": 100 * uniform_share}]))
        .mark_rule(strokeDash=[5, 4], color="#a34a17")
        .encode(y="uniform_percent:Q")
    )
    layered = alt.layer(bars, whiskers, uniform, data=alt.UrlData(""))
    layered = layered.properties(width=900, height=320)
    return dict(layered.to_dict(validate=False))
