"""atlas.resample: against scipy.stats.bootstrap, and against loops written from the definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import sha256
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from atlas import resample
from atlas.load import (
    FloatArray,
    cv,
    effective_experts,
    gini,
    jensen_shannon,
    normalized,
    prompt_balanced,
    token_weighted,
    top_share,
)
from atlas.resample import (
    REPLICATES,
    SEED,
    Replicates,
    Resampling,
    bca_bounds,
    bias,
    draw_blocks,
    generator,
    jackknife_shares,
    percentile_bounds,
    replicate_shares,
    token_replicate_shares,
)

MEASURES = {"cv": cv, "gini": gini, "effective": effective_experts, "top share": top_share}
PROMPTS, EXPERTS, TOP_K = 13, 16, 3


def routed(seed: int, prompts: int = PROMPTS, experts: int = EXPERTS) -> list[NDArray[np.int64]]:
    """Ids [N, K] of each prompt, N from 5 to 40, drawn from a router with favourites."""
    rng = np.random.default_rng(seed)
    favour_E = rng.exponential(size=experts) + 0.01
    routes = []
    for _ in range(prompts):
        noise = rng.gumbel(size=(int(rng.integers(5, 41)), experts))
        routes.append(np.argsort(-(np.log(favour_E) + noise), axis=1)[:, :TOP_K])
    return routes


def counted(routes: Sequence[NDArray[np.int64]], experts: int = EXPERTS) -> NDArray[np.int64]:
    return np.array([np.bincount(ids.ravel(), minlength=experts) for ids in routes])


COUNTS_A = counted(routed(1))
COUNTS_B = counted(routed(2, prompts=9))
WEIGHTINGS: dict[str, tuple[Callable[[Any], FloatArray], Callable[[Any], FloatArray]]] = {
    "token-weighted": (lambda counts: counts.astype(float), token_weighted),
    "prompt-balanced": (normalized, prompt_balanced),
}


def on_indices(
    loads: Sequence[FloatArray], measure: Callable[..., FloatArray]
) -> Callable[..., FloatArray]:
    """The statistic as scipy wants it: of prompt numbers, with the axis that they vary along."""

    def statistic(*indices: NDArray[np.int64], axis: int = -1) -> FloatArray:
        assert axis == -1
        return measure(*(own_PE[i].sum(axis=-2) for own_PE, i in zip(loads, indices, strict=True)))

    return statistic


# what is drawn


def test_the_draws_are_those_of_integers_with_the_same_generator() -> None:
    for units in (1, 2, 13, 300, 5_000):
        drawn = np.concatenate(list(draw_blocks(generator(7, "prompt", "code"), 500, units)))
        indices = generator(7, "prompt", "code").integers(0, units, size=(500, units))
        expected = np.array([np.bincount(row, minlength=units) for row in indices])
        np.testing.assert_array_equal(drawn, expected)


def test_every_replicate_draws_as_many_units_as_there_are() -> None:
    for block in draw_blocks(generator(SEED, "token", "zh"), 50, 8_500):
        assert (block.sum(axis=1) == 8_500).all()


def test_blocks_keep_the_memory_of_a_draw_small() -> None:
    blocks = list(draw_blocks(generator(SEED, "token", "zh"), 500, 8_500))
    assert len(blocks) > 1
    assert max(block.size for block in blocks) <= 1 << 20


def test_the_stream_of_a_domain_is_pinned() -> None:
    # a change here changes every interval of every committed file
    drawn = generator(20_260_729, "prompt", "code").integers(0, 32, size=8)
    assert drawn.tolist() == [23, 16, 8, 22, 27, 24, 31, 23]
    assert generator(20_260_729, "token", "code").integers(0, 32, size=8).tolist() != (
        drawn.tolist()
    )


def test_the_stream_of_a_domain_is_the_documented_one() -> None:
    digest = sha256(b"prompt|code").digest()
    a, b = int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")
    expected = np.random.default_rng([SEED, a, b]).integers(0, 1 << 30, size=20)
    found = generator(SEED, "prompt", "code").integers(0, 1 << 30, size=20)
    assert found.tolist() == expected.tolist()


def test_streams_differ_between_domains_units_and_seeds() -> None:
    streams = [
        generator(seed, unit, domain).integers(0, 1 << 30, size=4).tolist()
        for seed in (1, 2)
        for unit in ("prompt", "token")
        for domain in ("zh", "en")
    ]
    assert len({tuple(stream) for stream in streams}) == 8


def test_draws_are_the_same_whether_kept_or_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Resampling(300, 5)
    again = Resampling(300, 5)
    again._room = 0
    first = np.concatenate(list(kept.blocks("prompt", "zh", 40)))
    assert kept.blocks("prompt", "zh", 40) is kept.blocks("prompt", "zh", 40)
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate(list(again.blocks("prompt", "zh", 40))), first)
    assert not again._kept


def test_kept_draws_stay_inside_their_room_and_cannot_be_changed() -> None:
    resampling = Resampling(10)
    resampling._room = 1_000
    for domain in ("a", "b", "c"):
        list(resampling.blocks("prompt", domain, 40))
    assert sorted(key[1] for key in resampling._kept) == ["a", "b"]
    with pytest.raises(ValueError, match="read-only"):
        resampling._kept["prompt", "a", 40][0][0, 0] = 1


def test_the_default_is_2000_replicates_with_the_published_seed() -> None:
    assert (Resampling().replicates, Resampling().seed) == (2_000, 20_260_729)
    assert (REPLICATES, SEED) == (2_000, 20_260_729)


@pytest.mark.parametrize(("replicates", "seed"), [(0, 1), (10, -1)])
def test_no_replicates_or_a_negative_seed_are_refused(replicates: int, seed: int) -> None:
    with pytest.raises(ValueError, match="expected replicates >= 1 and seed >= 0"):
        Resampling(replicates, seed)


def test_a_domain_without_units_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one unit, found 0"):
        list(Resampling().blocks("prompt", "zh", 0))


# against scipy


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_intervals_equal_those_of_scipy_for_the_same_generator(
    measure: Callable[[Any], FloatArray], weighting: str, method: str
) -> None:
    per_prompt, pooled = WEIGHTINGS[weighting]
    loads_PE = per_prompt(COUNTS_A)
    theirs = stats.bootstrap(
        (np.arange(PROMPTS),),
        on_indices([loads_PE], measure),
        n_resamples=2_000,
        method=method,
        vectorized=True,
        rng=generator(SEED, "prompt", "a"),
    )
    blocks = list(Resampling().blocks("prompt", "a", PROMPTS))
    values_R = measure(replicate_shares(blocks, loads_PE))
    np.testing.assert_allclose(values_R, theirs.bootstrap_distribution, rtol=1e-12)
    left_out = jackknife_shares(loads_PE)
    assert left_out is not None
    ours = (
        percentile_bounds(values_R)
        if method == "percentile"
        else bca_bounds(values_R, float(measure(pooled(COUNTS_A))), [measure(left_out)])
    )
    assert ours == pytest.approx(tuple(theirs.confidence_interval), rel=1e-10)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_the_divergence_of_two_samples_equals_scipy_for_the_same_generator(
    weighting: str, method: str
) -> None:
    per_prompt, pooled = WEIGHTINGS[weighting]
    a_PE, b_PE = per_prompt(COUNTS_A), per_prompt(COUNTS_B)
    theirs = stats.bootstrap(
        (np.arange(len(a_PE)), np.arange(len(b_PE))),
        on_indices([a_PE, b_PE], jensen_shannon),
        n_resamples=1_000,
        method=method,
        vectorized=True,
        rng=np.random.default_rng(3),
    )
    # scipy draws both samples from one generator, one after the other
    rng = np.random.default_rng(3)
    a_RE = replicate_shares(list(draw_blocks(rng, 1_000, len(a_PE))), a_PE)
    b_RE = replicate_shares(list(draw_blocks(rng, 1_000, len(b_PE))), b_PE)
    values_R = jensen_shannon(a_RE, b_RE)
    np.testing.assert_allclose(values_R, theirs.bootstrap_distribution, rtol=1e-11)
    point_a, point_b = pooled(COUNTS_A), pooled(COUNTS_B)
    jackknives = [
        jensen_shannon(jackknife_shares(a_PE), point_b),  # type: ignore[arg-type]
        jensen_shannon(point_a, jackknife_shares(b_PE)),  # type: ignore[arg-type]
    ]
    point = float(jensen_shannon(point_a, point_b))
    ours = (
        percentile_bounds(values_R)
        if method == "percentile"
        else bca_bounds(values_R, point, jackknives)
    )
    assert ours == pytest.approx(tuple(theirs.confidence_interval), rel=1e-9)


def test_the_token_unit_equals_scipy_with_tokens_for_data() -> None:
    ids_NK = np.concatenate(routed(4))
    one_hot_NE = np.zeros((len(ids_NK), EXPERTS))
    for token, ids in enumerate(ids_NK):
        one_hot_NE[token, ids] = 1.0
    theirs = stats.bootstrap(
        (np.arange(len(ids_NK)),),
        on_indices([one_hot_NE], cv),
        n_resamples=500,
        method="percentile",
        vectorized=True,
        rng=generator(SEED, "token", "a"),
    )
    blocks = Resampling(500).blocks("token", "a", len(ids_NK))
    values_R = cv(token_replicate_shares(blocks, ids_NK, EXPERTS))
    np.testing.assert_allclose(values_R, theirs.bootstrap_distribution, rtol=1e-12)
    assert percentile_bounds(values_R) == pytest.approx(tuple(theirs.confidence_interval))


# against loops written from the definition


def slow_shares(drawn: Sequence[Sequence[int]], balanced: bool) -> list[float]:
    experts = len(drawn[0])
    if balanced:
        return [sum(row[e] / sum(row) for row in drawn) / len(drawn) for e in range(experts)]
    total = sum(sum(row) for row in drawn)
    return [sum(row[e] for row in drawn) / total for e in range(experts)]


def slow_cv(shares: Sequence[float]) -> float:
    mean = sum(shares) / len(shares)
    return math.sqrt(sum((s - mean) ** 2 for s in shares) / len(shares)) / mean


def slow_gini(shares: Sequence[float]) -> float:
    total = sum(abs(a - b) for a in shares for b in shares)
    return total / (2 * len(shares) * sum(shares))


def slow_effective(shares: Sequence[float]) -> float:
    return math.exp(-sum(s * math.log(s) for s in shares if s > 0))


def slow_divergence(p: Sequence[float], q: Sequence[float]) -> float:
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return sum(
        x * math.log(x / m) / 2
        for side in (p, q)
        for x, m in zip(side, middle, strict=True)
        if x > 0
    )


def slow_percentile(values: Sequence[float], level: float) -> float:
    ordered = sorted(values)
    place = level * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def slow_bca(
    values: Sequence[float], point: float, jackknives: Sequence[Sequence[float]]
) -> tuple[float, float]:
    normal = NormalDist()
    below = sum(v < point - 1e-12 for v in values)
    equal = sum(abs(v - point) <= 1e-12 for v in values)
    z0 = normal.inv_cdf((below + equal / 2) / len(values))
    cubes = squares = 0.0
    for left_out in jackknives:
        mean = sum(left_out) / len(left_out)
        influence = [(len(left_out) - 1) * (mean - v) for v in left_out]
        cubes += sum(u**3 for u in influence) / len(left_out) ** 3
        squares += sum(u**2 for u in influence) / len(left_out) ** 2
    a = cubes / (6 * squares**1.5)
    levels = [
        normal.cdf(z0 + (z0 + z) / (1 - a * (z0 + z)))
        for z in (normal.inv_cdf(0.025), normal.inv_cdf(0.975))
    ]
    return slow_percentile(values, levels[0]), slow_percentile(values, levels[1])


SLOW = {"cv": slow_cv, "gini": slow_gini, "effective": slow_effective, "top share": max}


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_bootstrap_equals_a_slow_reference(name: str, weighting: str) -> None:
    balanced = weighting == "prompt-balanced"
    rows = COUNTS_A.tolist()
    indices = generator(SEED, "prompt", "a").integers(0, PROMPTS, size=(200, PROMPTS)).tolist()
    slow = SLOW[name]
    expected = [slow(slow_shares([rows[i] for i in drawn], balanced)) for drawn in indices]
    point = slow(slow_shares(rows, balanced))
    left_out = [slow(slow_shares(rows[:j] + rows[j + 1 :], balanced)) for j in range(PROMPTS)]

    loads_PE = WEIGHTINGS[weighting][0](COUNTS_A)
    measure = MEASURES[name]
    values_R = measure(replicate_shares(Resampling(200).blocks("prompt", "a", PROMPTS), loads_PE))
    np.testing.assert_allclose(values_R, expected, rtol=1e-12)
    assert percentile_bounds(values_R) == pytest.approx(
        (slow_percentile(expected, 0.025), slow_percentile(expected, 0.975)), rel=1e-12
    )
    assert bias(values_R, point) == pytest.approx(sum(expected) / 200 - point, abs=1e-12)
    jackknife_JE = jackknife_shares(loads_PE)
    assert jackknife_JE is not None
    np.testing.assert_allclose(measure(jackknife_JE), left_out, rtol=1e-12)
    assert bca_bounds(values_R, point, [measure(jackknife_JE)]) == pytest.approx(
        slow_bca(expected, point, [left_out]), rel=1e-10
    )


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_divergence_equals_a_slow_reference_with_two_independent_samples(
    weighting: str,
) -> None:
    balanced = weighting == "prompt-balanced"
    rows = {"a": COUNTS_A.tolist(), "b": COUNTS_B.tolist()}
    replicates = {}
    for domain, own in rows.items():
        drawn = generator(SEED, "prompt", domain).integers(0, len(own), size=(150, len(own)))
        replicates[domain] = [
            slow_shares([own[i] for i in row], balanced) for row in drawn.tolist()
        ]
    expected = [
        slow_divergence(p, q) for p, q in zip(replicates["a"], replicates["b"], strict=True)
    ]
    whole = {domain: slow_shares(own, balanced) for domain, own in rows.items()}
    point = slow_divergence(whole["a"], whole["b"])
    left_out = [
        [
            slow_divergence(slow_shares(own[:j] + own[j + 1 :], balanced), whole[other])
            for j in range(len(own))
        ]
        for own, other in ((rows["a"], "b"), (rows["b"], "a"))
    ]

    per_prompt = WEIGHTINGS[weighting][0]
    resampling = Resampling(150)
    a_RE, b_RE = (
        replicate_shares(resampling.blocks("prompt", domain, len(counts)), per_prompt(counts))
        for domain, counts in (("a", COUNTS_A), ("b", COUNTS_B))
    )
    values_R = jensen_shannon(a_RE, b_RE)
    np.testing.assert_allclose(values_R, expected, rtol=1e-11)
    assert bca_bounds(values_R, point, [np.array(x) for x in left_out]) == pytest.approx(
        slow_bca(expected, point, left_out), rel=1e-9
    )


def test_the_token_unit_equals_a_slow_reference() -> None:
    ids_NK = np.concatenate(routed(4, prompts=3))
    tokens = len(ids_NK)
    drawn = generator(SEED, "token", "a").integers(0, tokens, size=(40, tokens)).tolist()
    expected = []
    for row in drawn:
        counts = [0] * EXPERTS
        for token in row:
            for expert in ids_NK[token].tolist():
                counts[expert] += 1
        expected.append([c / (tokens * TOP_K) for c in counts])
    blocks = Resampling(40).blocks("token", "a", tokens)
    found_RE = token_replicate_shares(blocks, ids_NK, EXPERTS)
    np.testing.assert_allclose(found_RE, expected, rtol=1e-15)


def test_replicates_are_measured_row_by_row_whatever_the_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(8)
    p_RE, q_RE = (normalized(rng.integers(0, 5, size=(700, 64)) + np.eye(64)[0]) for _ in "pq")
    for elements in (1, 64 * 33, 1 << 15, 1 << 20):
        monkeypatch.setattr(resample, "_CACHED_ELEMENTS", elements)
        p, q = Replicates.of(p_RE), Replicates.of(q_RE)
        for m, measure in enumerate((cv, gini, effective_experts, top_share)):
            np.testing.assert_allclose(p.dispersion_RM[:, m], measure(p_RE), rtol=1e-13)
        np.testing.assert_allclose(p.divergence(q), jensen_shannon(p_RE, q_RE), rtol=1e-12)


def test_the_jackknife_leaves_out_one_prompt_after_another_whatever_the_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = [normalized(np.delete(COUNTS_A, j, axis=0).sum(axis=0)) for j in range(PROMPTS)]
    for elements in (1, 3 * PROMPTS, 1 << 20):
        monkeypatch.setattr(resample, "_BLOCK_ELEMENTS", elements)
        np.testing.assert_array_equal(jackknife_shares(COUNTS_A.astype(float)), expected)


def test_the_divergence_of_replicates_from_themselves_is_zero() -> None:
    blocks = list(Resampling(50).blocks("prompt", "a", PROMPTS))
    replicates = Replicates.of(replicate_shares(blocks, COUNTS_A.astype(float)))
    assert replicates.divergence(replicates).max() <= 1e-14


# what the intervals show


def test_an_expert_without_load_has_no_load_in_any_replicate_or_jackknife() -> None:
    counts = COUNTS_A.copy()
    counts[:, 5] = 0
    for per_prompt, _ in WEIGHTINGS.values():
        loads_PE = per_prompt(counts)
        replicates_RE = replicate_shares(Resampling(50).blocks("prompt", "a", PROMPTS), loads_PE)
        left_out_JE = jackknife_shares(loads_PE)
        assert left_out_JE is not None
        assert (replicates_RE[:, 5] == 0.0).all() and (left_out_JE[:, 5] == 0.0).all()


def test_resampling_few_prompts_adds_dispersion_on_average() -> None:
    loads_PE = COUNTS_A.astype(float)
    shares_RE = replicate_shares(Resampling().blocks("prompt", "a", PROMPTS), loads_PE)
    assert bias(cv(shares_RE), float(cv(token_weighted(COUNTS_A)))) > 0
    assert bias(effective_experts(shares_RE), float(effective_experts(loads_PE.sum(0)))) < 0


def test_tokens_of_prompts_that_each_use_their_own_experts_make_far_too_narrow_intervals() -> None:
    # eight prompts of 60 tokens; all tokens of a prompt take the same two experts
    routes = [np.tile([2 * (p % 4), 2 * (p % 4) + 1], (60, 1)) for p in range(8)]
    counts = counted(routes, 8)
    resampling = Resampling(500)
    prompt = percentile_bounds(
        top_share(replicate_shares(resampling.blocks("prompt", "a", 8), counts.astype(float)))
    )
    token = percentile_bounds(
        top_share(
            token_replicate_shares(resampling.blocks("token", "a", 480), np.concatenate(routes), 8)
        )
    )
    assert prompt[1] - prompt[0] > 4 * (token[1] - token[0])


# degenerate cases


def test_a_single_prompt_has_an_interval_of_no_width_and_no_bca() -> None:
    loads_PE = COUNTS_A[:1].astype(float)
    values_R = cv(replicate_shares(Resampling(100).blocks("prompt", "a", 1), loads_PE))
    point = float(cv(loads_PE[0]))
    assert percentile_bounds(values_R) == (point, point)
    assert jackknife_shares(loads_PE) is None


def test_equal_prompts_have_no_bca() -> None:
    loads_PE = np.repeat(COUNTS_A[:1], 6, axis=0).astype(float)
    values_R = cv(replicate_shares(Resampling(100).blocks("prompt", "a", 6), loads_PE))
    point = float(cv(loads_PE[0]))
    left_out_JE = jackknife_shares(loads_PE)
    assert left_out_JE is not None
    low, high = percentile_bounds(values_R)
    assert low == pytest.approx(point) and high == pytest.approx(point)
    assert bca_bounds(values_R, point, [cv(left_out_JE)]) is None


def test_replicates_that_all_lie_above_the_point_have_no_bca() -> None:
    values_R = np.linspace(1.0, 2.0, 50)
    left_out_J = np.array([0.8, 0.9, 1.2])
    assert bca_bounds(values_R, 0.5, [left_out_J]) is None
    assert bca_bounds(values_R, 1.5, [left_out_J]) is not None


def test_the_acceleration_of_one_outlier_is_that_computed_by_hand() -> None:
    # influences 2 * (mean - v) with mean -1/3: -2/3, -2/3, 4/3; cubes 48/27, squares 24/9
    left_out_J = np.array([0.0, 0.0, -1.0])
    assert resample._acceleration([left_out_J]) == pytest.approx(48 / 27 / 6 / (24 / 9) ** 1.5)


def test_an_acceleration_beyond_its_branch_has_no_bca() -> None:
    # a is at most 1/6 and z0 grows with the replicates: it takes more than 18,000 of them,
    # all but one below the point, and one prompt that carries all the influence
    left_out_J = np.append(np.zeros(999), -1.0)
    values_R = np.append(np.linspace(0.0, 1.0, 39_999), 2.0)
    assert bca_bounds(values_R, 2.0, [left_out_J]) is None
    assert bca_bounds(values_R, 2.0, [-left_out_J]) is not None


def test_replicates_that_differ_from_the_point_by_rounding_are_ties() -> None:
    exact = np.array([0.1, 0.3, 0.3, 0.3, 0.7])
    rounding = exact + np.array([0.0, 1e-16, -1e-16, 5e-17, 0.0])
    left_out_J = np.array([0.2, 0.4, 0.3])
    assert bca_bounds(exact, 0.3, [left_out_J]) == pytest.approx(
        bca_bounds(rounding, 0.3, [left_out_J])
    )


@given(st.floats(-8.0, 8.0))
def test_the_normal_cdf_is_that_of_scipy(z: float) -> None:
    assert resample._normal_cdf(z) == pytest.approx(float(stats.norm.cdf(z)), rel=1e-12)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_percentiles_interpolate_linearly_between_order_statistics(values: list[float]) -> None:
    low, high = percentile_bounds(np.array(values))
    assert low == pytest.approx(slow_percentile(values, 0.025), abs=1e-12)
    assert high == pytest.approx(slow_percentile(values, 0.975), abs=1e-12)
    assert low <= high


# refused token ids


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[0, 16]], "expected 0 to 15"),
        ([[-1, 3]], "expected 0 to 15"),
        ([[4, 4]], "2 different experts in each token"),
        (np.zeros((0, 2), dtype=int), "tokens, found 0"),
    ],
)
def test_token_ids_that_are_no_route_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        token_replicate_shares([np.ones((2, 1), dtype=np.uint8)], np.asarray(ids), EXPERTS)


def test_a_unit_drawn_more_than_255_times_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class AlwaysTheFirst:
        def integers(self, low: int, high: int, size: tuple[int, int]) -> NDArray[np.int64]:
            return np.zeros(size, dtype=np.int64)

    with pytest.raises(ValueError, match="at most 255 times, found 256"):
        list(draw_blocks(AlwaysTheFirst(), 1, 256))  # type: ignore[arg-type]
