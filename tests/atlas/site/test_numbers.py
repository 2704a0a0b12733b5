from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas import numbers
from atlas.contract.base import Estimate, Interval


@pytest.mark.parametrize(
    ("measure", "value", "expected"),
    [
        (numbers.CV, 1.7, "1.70"),
        (numbers.EFFECTIVE, 38.949, "38.9"),
        (numbers.SHARE, 0.015625, "1.56%"),
        (numbers.SHARE, 0.0793, "7.93%"),
        (numbers.COUNT, 5191524, "5,191,524"),
        (numbers.COUNT, 0, "0"),
        (numbers.RATIO, 10240 / 1152, "8.8889×"),
        (numbers.PERCENT, 0.8875, "88.75%"),
        (numbers.MULTIPLE, 5.0752, "×5.08"),
        (numbers.JSD, 0.1251, "0.125"),
        (numbers.CV, -0.001, "0.00"),
        (numbers.CV, -1234.5, "\u22121,234.50"),
    ],
)
def test_a_measure_has_its_decimals_its_unit_and_its_separators(
    measure: numbers.Measure, value: float, expected: str
) -> None:
    assert measure.text(value) == expected


def test_an_interval_has_the_decimals_of_its_measure() -> None:
    interval = Interval(low=1.1, high=1.2)
    assert numbers.CV.interval(interval) == "[1.10, 1.20]"
    assert numbers.CV.span(interval) == "1.10–1.20"


def test_an_estimate_is_its_point_and_its_percentile_interval() -> None:
    estimate = Estimate(point=38.94, percentile=Interval(low=38.3, high=39.5), bias=0.0)
    assert numbers.EFFECTIVE.estimate(estimate) == "38.9 [38.3, 39.5]"


def test_a_signed_figure_shows_plus_minus_and_a_bare_zero() -> None:
    measure = numbers.CV
    shown = [measure.signed(v) for v in (0.021, -0.021, 0.0001, -0.0001)]
    assert shown == ["+0.02", "\u22120.02", "0.00", "0.00"]


@given(st.floats(-1e6, 1e6), st.sampled_from(sorted(numbers.MEASURES)))
def test_csv_and_prose_show_the_same_digits(value: float, name: str) -> None:
    measure = numbers.MEASURES[name]
    shown = measure.text(value).replace(",", "").replace("\u2212", "-").replace("%", "")
    assert shown == measure.bare(value)


def test_an_expert_is_named_with_its_layer() -> None:
    assert numbers.expert_name(4, 29) == "L4·E29"


def test_a_coordinate_is_as_short_as_one_decimal_allows() -> None:
    assert [numbers.coordinate(v) for v in (12.0, 3.46, -0.01, 0.96)] == ["12", "3.5", "0", "1"]
