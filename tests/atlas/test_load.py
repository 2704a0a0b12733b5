"""atlas.load: hand-computed values, bounds, symmetries, exact ties and thresholds."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from atlas.load import (
    LN_2,
    coverage,
    cv,
    effective_experts,
    gini,
    jaccard,
    jensen_shannon,
    normalized,
    prompt_balanced,
    prompt_balanced_loads,
    summarize,
    token_weighted,
    top_expert,
    top_share,
)

ESFT = Path(__file__).parents[2].parent / "shared/data/esft/results"
MEASURES = (cv, gini, effective_experts, top_share)


def loads(
    min_experts: int = 1, max_experts: int = 20, most: int = 50
) -> st.SearchStrategy[NDArray[np.int64]]:
    sizes = st.integers(min_experts, max_experts)
    return sizes.flatmap(lambda e: hnp.arrays(np.int64, e, elements=st.integers(0, most))).filter(
        lambda x: bool(x.sum() > 0)
    )


def pairs(most: int = 50) -> st.SearchStrategy[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    def of(experts: int) -> st.SearchStrategy[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        one = loads(experts, experts, most)
        return st.tuples(one, one)

    return st.integers(1, 12).flatmap(of)


def matrices() -> st.SearchStrategy[NDArray[np.int64]]:
    shapes = st.tuples(st.integers(1, 8), st.integers(1, 10))
    return shapes.flatmap(lambda s: hnp.arrays(np.int64, s, elements=st.integers(0, 30))).filter(
        lambda x: bool((x.sum(axis=1) > 0).all())
    )


# values by hand


def test_a_uniform_load_of_64_experts_has_no_dispersion_and_64_effective_experts() -> None:
    uniform = np.full(64, 90 * 6 // 64)
    assert cv(uniform) == 0.0
    assert gini(uniform) == 0.0
    assert effective_experts(uniform) == pytest.approx(64.0, abs=1e-12)
    assert top_share(uniform) == 1 / 64 == 0.015625


def test_one_expert_that_takes_all_reaches_the_upper_bounds_and_one_effective_expert() -> None:
    load = np.zeros(64, dtype=int)
    load[29] = 540
    assert cv(load) == pytest.approx(math.sqrt(63), abs=1e-12)
    assert gini(load) == pytest.approx(63 / 64, abs=1e-12)
    assert effective_experts(load) == 1.0
    assert top_share(load) == 1.0
    assert top_expert(load) == 29


def test_the_measures_of_1_2_3_4_are_those_computed_by_hand() -> None:
    # mean 2.5, squared deviations 2.25 + 0.25 + 0.25 + 2.25 = 5, variance 1.25
    assert cv([1, 2, 3, 4]) == pytest.approx(math.sqrt(1.25) / 2.5)
    # |differences| over ordered pairs: 2 * (1+2+3 + 1+2 + 1) = 20; 20 / (2 * 16 * 2.5)
    assert gini([1, 2, 3, 4]) == pytest.approx(0.25)
    # exp of the entropy is the product of share^-share
    product = 10**1.0 / (1**0.1 * 2**0.2 * 3**0.3 * 4**0.4)
    assert effective_experts([1, 2, 3, 4]) == pytest.approx(product)
    assert top_share([1, 2, 3, 4]) == pytest.approx(0.4)


def test_a_zero_count_expert_adds_nothing_to_the_entropy() -> None:
    assert effective_experts([5, 5, 0]) == pytest.approx(2.0, abs=1e-15)
    assert effective_experts([3, 1, 0, 0]) == effective_experts([3, 1])


def test_a_zero_count_expert_does_count_for_cv_and_gini() -> None:
    # shares 1/2, 1/2, 0: variance (1/36 + 1/36 + 1/9) / 3 = 1/18, mean 1/3
    assert cv([5, 5, 0]) == pytest.approx(math.sqrt(1 / 18) * 3)
    # ordered pairs: 4 of 1/2; 2 / (2 * 9 * 1/3)
    assert gini([5, 5, 0]) == pytest.approx(1 / 3)


def test_the_divergence_of_disjoint_loads_is_ln_2() -> None:
    assert jensen_shannon([1, 0], [0, 1]) == LN_2
    assert jensen_shannon([2, 3, 0, 0], [0, 0, 1, 9]) == pytest.approx(LN_2, abs=1e-15)


def test_the_divergence_of_half_overlapping_loads_is_that_computed_by_hand() -> None:
    # P = (1, 0), Q = (1/2, 1/2), M = (3/4, 1/4)
    expected = 0.5 * math.log(4 / 3) + 0.5 * (0.5 * math.log(2 / 3) + 0.5 * math.log(2))
    assert jensen_shannon([4, 0], [1, 1]) == pytest.approx(expected, abs=1e-15)


def test_an_expert_that_neither_domain_used_changes_no_divergence() -> None:
    assert jensen_shannon([4, 0, 0], [1, 1, 0]) == jensen_shannon([4, 0], [1, 1])


def test_the_two_weightings_of_a_long_and_a_short_prompt_differ_as_computed_by_hand() -> None:
    counts_PE = np.array([[9, 3, 0], [0, 1, 3]])
    assert token_weighted(counts_PE).tolist() == [9 / 16, 4 / 16, 3 / 16]
    # (3/4, 1/4, 0) and (0, 1/4, 3/4), one vote each
    assert prompt_balanced(counts_PE).tolist() == [0.375, 0.25, 0.375]


def test_prompts_of_one_length_have_the_same_load_under_both_weightings() -> None:
    counts_PE = np.array([[4, 1, 1], [0, 3, 3], [2, 2, 2]])
    assert prompt_balanced(counts_PE).tolist() == token_weighted(counts_PE).tolist()


def test_prompt_balanced_loads_are_exact_integers_over_the_common_length() -> None:
    # thirds and quarters over twelve: (1/3, 2/3, 0) + (1/4, 1/2, 1/4)
    assert prompt_balanced_loads(np.array([[1, 2, 0], [1, 2, 1]])) == [7, 14, 3]


def test_the_used_sets_one_two_three_and_two_three_four_overlap_by_one_half() -> None:
    assert jaccard([0, 5, 1, 1, 0], [0, 0, 7, 1, 2]) == 0.5
    assert jaccard([1, 0], [0, 1]) == 0.0
    assert jaccard([1, 0], [9, 0]) == 1.0


def test_the_summary_holds_the_counts_and_the_rounded_measures() -> None:
    summary = summarize(np.array([0, 3, 3, 1]))
    assert summary.model_dump() == {
        "selections": 7,
        "used": 3,
        "zero": 1,
        "cv": 0.74230749,  # sqrt((1.75^2 + 2 * 1.25^2 + 0.75^2) / 4) / 1.75
        "gini": 0.39285714,  # 11 / 28
        "effective_experts": round(7 / 3 ** (6 / 7), 8),  # product of share^-share
        "top_expert": 1,
        "top_count": 3,
    }


def test_ids_above_255_are_right_with_512_experts() -> None:
    counts = np.zeros(512, dtype=np.uint16)
    counts[[511, 300, 256]] = [40, 40, 20]
    assert top_expert(counts) == 300
    assert coverage(counts, 0.8) == (300, 511)
    assert summarize(counts).zero == 509


def test_small_unsigned_counts_do_not_wrap_around_when_summed() -> None:
    counts_PE = np.full((3, 2), 200, dtype=np.uint8)
    counts_PE[:, 1] = 100
    assert token_weighted(counts_PE).tolist() == [2 / 3, 1 / 3]


# coverage


def test_coverage_takes_experts_by_falling_load_until_the_share_is_held() -> None:
    assert coverage([1, 5, 3, 1], 0.5) == (1,)
    assert coverage([1, 5, 3, 1], 0.51) == (1, 2)
    assert coverage([1, 5, 3, 1], 0.9) == (1, 2, 0)


def test_coverage_breaks_ties_by_the_lower_expert_id() -> None:
    assert coverage([2, 4, 2, 4, 0], 0.9) == (1, 3, 0, 2)


@pytest.mark.parametrize("selections", [10, 30, 540, 49_332, 10**9 + 10])
def test_a_threshold_that_is_met_exactly_needs_no_further_expert(selections: int) -> None:
    counts = np.full(10, selections // 10)
    for tenths in range(1, 11):
        assert len(coverage(counts, tenths / 10)) == tenths


def test_shares_are_read_as_the_decimals_that_they_print_as() -> None:
    # three times 0.1 is more than 0.3 in binary floats, and 0.7 + 0.1 + 0.1 is less than 0.9
    assert coverage([0.1] * 10, 0.3) == (0, 1, 2)
    assert coverage([0.1, 0.7, 0.1, 0.1], 0.9) == (1, 0, 2)


def test_all_used_experts_are_given_where_rounded_shares_do_not_reach_the_share() -> None:
    assert coverage([0.3333, 0.3333, 0.0, 0.3333], 1.0) == (0, 1, 3)


def test_coverage_of_nothing_is_empty_and_of_all_leaves_unused_experts_out() -> None:
    assert coverage([0, 2, 1], 0.0) == ()
    assert coverage([0, 2, 1], 1.0) == (1, 2)


def test_loads_beyond_64_bits_are_covered_exactly() -> None:
    huge = [10**40, 10**40 + 1, 2 * 10**40 - 1]
    assert coverage(huge, 0.5) == (2, 1)
    assert top_expert(huge) == 2


@given(loads(), st.floats(0.0, 1.0))
def test_coverage_holds_the_share_and_no_smaller_set_does(
    counts: NDArray[np.int64], share: float
) -> None:
    chosen = coverage(counts, share)
    wanted = Fraction(repr(share)) * int(counts.sum())
    largest_first = sorted(counts.tolist(), reverse=True)
    assert sum(counts[list(chosen)].tolist()) >= wanted
    if chosen:
        assert sum(largest_first[: len(chosen) - 1]) < wanted


@pytest.mark.skipif(
    not ESFT.exists(), reason="needs ../shared/data/esft, the publisher's scores and expert lists"
)
def test_coverage_of_the_published_scores_gives_the_104_published_expert_lists() -> None:
    agreeing = 0
    for task in ("intent", "law", "summary", "translation"):
        scores = json.loads((ESFT / "expert_scores" / task / "summary.json").read_bytes())
        lists = json.loads((ESFT / "expert_configs" / f"{task}.json").read_bytes())["experts"]
        for layer, scores_of_layer in scores["token_scores"].items():
            shares_E = [scores_of_layer[str(expert)] for expert in range(64)]
            agreeing += list(coverage(shares_E, 0.2)) == lists[layer]
    assert agreeing == 104


# properties


@given(loads())
def test_every_measure_stays_inside_its_bounds(counts: NDArray[np.int64]) -> None:
    experts = len(counts)
    assert 0.0 <= cv(counts) <= math.sqrt(experts - 1) + 1e-12
    assert 0.0 <= gini(counts) < 1.0
    assert 1.0 <= effective_experts(counts) <= experts
    assert 1 / experts - 1e-15 <= top_share(counts) <= 1.0


@given(loads())
def test_gini_is_the_double_sum_of_its_definition(counts: NDArray[np.int64]) -> None:
    differences = sum(abs(a - b) for a in counts.tolist() for b in counts.tolist())
    expected = differences / (2 * len(counts) * int(counts.sum()))
    assert gini(counts) == pytest.approx(expected, abs=1e-12)


@given(loads())
def test_effective_experts_is_exp_of_the_entropy_by_definition(counts: NDArray[np.int64]) -> None:
    shares = [x / int(counts.sum()) for x in counts.tolist() if x]
    expected = math.exp(-math.fsum(p * math.log(p) for p in shares))
    assert effective_experts(counts) == pytest.approx(expected, rel=1e-12)


@given(loads(), st.integers(2, 1_000))
def test_no_measure_depends_on_the_scale_of_the_load(
    counts: NDArray[np.int64], factor: int
) -> None:
    for measure in MEASURES:
        assert measure(counts * factor) == pytest.approx(float(measure(counts)), abs=1e-12)


@given(loads(), st.randoms(use_true_random=False))
def test_no_measure_depends_on_the_numbering_of_the_experts(
    counts: NDArray[np.int64], random: object
) -> None:
    shuffled = counts.tolist()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for measure in MEASURES:
        assert measure(shuffled) == pytest.approx(float(measure(counts)), abs=1e-12)


@given(pairs())
def test_the_divergence_is_symmetric_and_between_0_and_ln_2(
    pair: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    first, second = pair
    forward = float(jensen_shannon(first, second))
    assert 0.0 <= forward <= LN_2
    assert forward == pytest.approx(float(jensen_shannon(second, first)), abs=1e-15)


@given(pairs())
def test_the_divergence_is_the_mean_of_two_relative_entropies(
    pair: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    p, q = ([x / sum(v) for x in v] for v in (pair[0].tolist(), pair[1].tolist()))
    terms = []
    for a, b in zip(p, q, strict=True):
        terms += [x * math.log(x / ((a + b) / 2)) for x in (a, b) if x > 0]
    expected = math.fsum(terms) / 2
    assert jensen_shannon(pair[0], pair[1]) == pytest.approx(expected, abs=1e-14)


@given(loads(), st.integers(1, 9))
def test_the_divergence_of_equal_shares_is_zero(counts: NDArray[np.int64], factor: int) -> None:
    assert jensen_shannon(counts, counts) == 0.0
    assert jensen_shannon(counts, counts * factor) == pytest.approx(0.0, abs=1e-15)


@given(matrices())
def test_both_weightings_give_shares_that_sum_to_one(counts_PE: NDArray[np.int64]) -> None:
    for weighting in (token_weighted, prompt_balanced):
        assert math.fsum(weighting(counts_PE)) == pytest.approx(1.0, abs=1e-14)


@given(matrices(), st.randoms(use_true_random=False))
def test_the_order_of_the_prompts_changes_no_bit_of_a_load(
    counts_PE: NDArray[np.int64], random: object
) -> None:
    rows = counts_PE.tolist()
    random.shuffle(rows)  # type: ignore[attr-defined]
    for weighting in (token_weighted, prompt_balanced):
        assert weighting(np.array(rows)).tolist() == weighting(counts_PE).tolist()


@given(matrices())
def test_the_prompt_balanced_load_is_the_mean_of_the_prompts_shares(
    counts_PE: NDArray[np.int64],
) -> None:
    mean = (counts_PE / counts_PE.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(prompt_balanced(counts_PE), mean, atol=1e-15)


def test_leading_axes_are_kept_and_every_row_is_measured_by_itself() -> None:
    rng = np.random.default_rng(1)
    loads_LRE = rng.integers(0, 9, size=(3, 5, 16)) + np.eye(16, dtype=int)[0]
    for measure in MEASURES:
        together = measure(loads_LRE)
        assert together.shape == (3, 5)
        assert together[2, 4] == pytest.approx(float(measure(loads_LRE[2, 4])), abs=1e-15)
    assert jensen_shannon(loads_LRE, loads_LRE[0, 0]).shape == (3, 5)


# refusals


@pytest.mark.parametrize("measure", [*MEASURES, normalized, summarize])
def test_an_all_zero_layer_is_refused_in_one_line(measure: object) -> None:
    with pytest.raises(ValueError, match="all-zero layer") as caught:
        measure(np.zeros(4, dtype=int))  # type: ignore[operator]
    assert "\n" not in str(caught.value)


def test_an_all_zero_row_among_others_is_refused() -> None:
    with pytest.raises(ValueError, match="all-zero layer"):
        cv([[1, 2], [0, 0]])
    with pytest.raises(ValueError, match="found 0 in row 1"):
        prompt_balanced(np.array([[1, 2], [0, 0]]))
    with pytest.raises(ValueError, match="all-zero layer"):
        coverage([0, 0], 0.5)
    with pytest.raises(ValueError, match="all-zero layer"):
        jaccard([0, 0], [0, 0])


@pytest.mark.parametrize("bad", [[1.0, float("nan")], [1.0, float("inf")], [2.0, -1.0]])
def test_nan_infinity_and_negative_loads_are_refused(bad: list[float]) -> None:
    for measure in (*MEASURES, lambda x: coverage(x, 0.5)):
        with pytest.raises(ValueError, match=r"expected (finite|non-negative)"):
            measure(bad)


def test_counts_that_are_not_an_integer_matrix_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected \[prompts, experts\]"):
        token_weighted(np.array([1, 2]))
    with pytest.raises(ValueError, match="expected integers, found float64"):
        prompt_balanced(np.array([[0.5, 1.5]]))
    with pytest.raises(ValueError, match="none below 0, found -1"):
        token_weighted(np.array([[3, -1]]))


def test_loads_of_different_numbers_of_experts_are_refused() -> None:
    with pytest.raises(ValueError, match="found 2 and 3"):
        jensen_shannon([1, 1], [1, 1, 1])
    with pytest.raises(ValueError, match="two vectors of one length"):
        jaccard([1, 1], [1, 1, 1])


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_coverage_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share from 0 to 1"):
        coverage([1, 1], share)
