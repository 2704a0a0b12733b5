from __future__ import annotations

import math
import re
from typing import Any

import altair
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.charts.card import card
from atlas.charts.load import HEIGHT, STEP, LayerLoadChart, axis_step, draw
from atlas.charts.overview import CLASSES, lightness, mirror, range_glyph, rank_row
from atlas.charts.vega import load_spec
from atlas.guard.specs import spec_problems

FOUR = (0.1, 0.4, 0.25, 0.25)


def chart(**changes: Any) -> LayerLoadChart:
    fields: dict[str, Any] = {
        "layer": 4,
        "domain": "law",
        "weighting": "prompt_balanced",
        "shares_E": FOUR,
        "low_E": (0.05, 0.3, 0.2, 0.25),
        "high_E": (0.15, 0.5, 0.3, 0.3),
    }
    return LayerLoadChart(**fields | changes)


@pytest.mark.parametrize("layer", [(4, 5), [4], "4", True, 4.0, -1, None])
def test_a_chart_cannot_hold_anything_but_one_layer(layer: object) -> None:
    with pytest.raises(ValueError, match="layer: expected one layer number"):
        chart(layer=layer)


@pytest.mark.parametrize(
    "changes",
    [
        {"shares_E": (FOUR, FOUR)},
        {"shares_E": [0.1, 0.4, 0.25, 0.25]},
        {"shares_E": (0.5, 0.5)},
        {"shares_E": (0.1, 0.4, 0.25, 0.35)},
        {"low_E": None},
        {"high_E": ((0.1, 0.2), 0.3, 0.3, 0.3)},
    ],
)
def test_a_chart_cannot_hold_two_rows_of_shares_or_half_an_interval(changes: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        chart(**changes)


def test_two_layers_cannot_share_a_card() -> None:
    with pytest.raises(ValueError, match="expected charts of layer 4, domain law, found layer 5"):
        card((chart(), chart(layer=5, weighting="token_weighted")))


def test_two_layers_cannot_share_a_mirror() -> None:
    with pytest.raises(ValueError, match="expected layer 4, found layer 5"):
        mirror(chart(), chart(layer=5))


def test_order_by_share_breaks_ties_by_id() -> None:
    assert chart().order("share") == (1, 2, 3, 0)
    assert chart().order("id") == (0, 1, 2, 3)


def test_marks_say_where_the_interval_lies_against_uniform() -> None:
    # uniform is 0.25: an interval that touches it holds it
    assert chart().marks_E == ("below", "above", "holds", "holds")
    assert chart(low_E=None, high_E=None).marks_E == ("bare",) * 4


def test_a_label_names_layer_and_expert_with_figure_interval_and_multiple() -> None:
    assert chart().label(1) == "L4·E1 40.00% [30.00%, 50.00%] ×1.60"


def test_bars_reach_their_share_on_a_scale_that_both_orders_share() -> None:
    view = draw(chart(), "id")
    # the upper edge is the highest interval end, 0.5, and four percent of room
    above = dict(view.paths)["bar above"]
    assert above == f"M{STEP + 1} {HEIGHT}V{300 * (1 - 0.4 / 0.52):.1f}h8V{HEIGHT}z"
    assert view.uniform_y == draw(chart(), "share").uniform_y == f"{300 * (1 - 0.25 / 0.52):.1f}"


def test_whiskers_run_from_low_to_high() -> None:
    whiskers = dict(draw(chart(), "id").paths)["whisker"]
    ends = [tuple(map(float, m)) for m in re.findall(r"M\d+ ([\d.]+)V([\d.]+)", whiskers)]
    expected = [(0.05, 0.15), (0.3, 0.5), (0.2, 0.3), (0.25, 0.3)]
    for (low, high), (a, b) in zip(expected, ends, strict=True):
        assert a == pytest.approx(300 * (1 - low / 0.52), abs=0.05)
        assert b == pytest.approx(300 * (1 - high / 0.52), abs=0.05)


def test_marks_differ_in_shape_and_not_in_lightness_alone() -> None:
    paths = dict(draw(chart(), "id").paths)
    assert paths["shape above"].count("z") == 1
    assert paths["shape below"].count("z") == 1
    assert "shape holds" not in paths
    assert paths["shape above"] != paths["shape below"]


def test_every_expert_has_its_column_under_the_pointer() -> None:
    view = draw(chart(), "share")
    assert [(h.x, h.label.split()[0]) for h in view.hits] == [
        (0, "L4·E1"),
        (10, "L4·E2"),
        (20, "L4·E3"),
        (30, "L4·E0"),
    ]


def test_axis_labels_name_experts_with_their_layer_first_middle_and_last_at_any_width() -> None:
    shares = (1 / 64,) * 64
    ticks = draw(chart(shares_E=shares, low_E=None, high_E=None), "id").bottom
    assert [t.text for t in ticks if t.always] == ["L4·E0", "L4·E31", "L4·E63"]
    assert len(ticks) == 9
    assert all(t.text.startswith("L4·E") for t in ticks)


def test_the_right_axis_counts_in_multiples_of_uniform_and_always_shows_one() -> None:
    ticks = draw(chart(), "id").right
    assert [t.text for t in ticks] == ["×1", "×2"]
    assert ticks[0].at == draw(chart(), "id").uniform_y


@given(st.floats(1e-3, 1e3))
def test_an_axis_has_at_most_seven_ticks_and_at_least_two(highest: float) -> None:
    ticks = int(highest / axis_step(highest)) + 1
    assert 2 <= ticks <= 7


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=200).filter(any))
def test_a_rank_row_covers_every_rank_once_and_only_gets_lighter(counts: list[int]) -> None:
    total = sum(counts)
    shares = tuple(c / total for c in counts)
    row = rank_row(chart(shares_E=shares, low_E=None, high_E=None))
    cells = [
        (int(start), int(width), step)
        for step, path in row.paths
        for start, width in re.findall(r"M(\d+) 0h(\d+)v1h-\d+z", path)
    ]
    cells.sort()
    assert math.fsum(w for _, w, _ in cells) == len(counts)
    assert [s for *_, s in cells] == sorted((s for *_, s in cells), reverse=True)


def test_lightness_grows_with_the_multiple_and_stays_on_its_scale() -> None:
    steps = [lightness(m / 10) for m in range(100)]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, CLASSES - 1)


def test_a_glyph_beyond_its_axis_stays_on_the_end() -> None:
    glyph = range_glyph(0.5, -1.0, 3.0, 0.0, 2.0)
    assert (glyph.low, glyph.point, glyph.high) == ("0", "25", "100")


def test_a_spec_is_valid_vega_lite_that_joins_no_experts() -> None:
    spec = load_spec(chart(), "layer-04.csv", "Load", "prompt-balanced")
    altair.Chart.from_dict(spec)  # validates against the schema
    assert [
        layer["mark"] if isinstance(layer["mark"], str) else layer["mark"]["type"]
        for layer in spec["layer"]
    ] == ["bar", "bar", "rule"]
    files = {"x/layer-04.csv": b"layer,expert,share\n4,L4\xc2\xb7E0,1\n"}
    assert spec_problems("x/layer-04.vl.json", spec, files) == []
    files = {"x/layer-04.csv": b"layer,expert,share\n4,L4\xc2\xb7E0,1\n5,L5\xc2\xb7E0,1\n"}
    assert spec_problems("x/layer-04.vl.json", spec, files) != []
