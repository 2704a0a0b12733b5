"""atlas.statistics: the contract objects of one layer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from atlas import load as measures
from atlas.canonical import canonical_json, rounded
from atlas.contract.base import require_shares
from atlas.contract.corpus import CorpusLayer, Load
from atlas.resample import (
    Resampling,
    bca_bounds,
    jackknife_shares,
    percentile_bounds,
    replicate_shares,
)
from atlas.statistics import describe, layer_statistics

EXPERTS, TOP_K = 16, 3
SIZES = {"zh": 7, "code": 5, "math": 6}


def routes_of(domain: str, experts: int = EXPERTS) -> list[NDArray[np.int64]]:
    """Ids [N, K] of each prompt of a domain; every domain favours other experts."""
    rng = np.random.default_rng([len(domain), ord(domain[0])])
    favour_E = rng.exponential(size=experts) + 0.01
    lengths = rng.integers(4, 30, size=SIZES[domain])
    return [
        np.argsort(-(np.log(favour_E) + rng.gumbel(size=(n, experts))), axis=1)[:, :TOP_K]
        for n in lengths.tolist()
    ]


ROUTES = {domain: routes_of(domain) for domain in SIZES}
COUNTS = {
    domain: np.array([np.bincount(ids.ravel(), minlength=EXPERTS) for ids in routes])
    for domain, routes in ROUTES.items()
}
TOKEN_IDS = {domain: np.concatenate(routes) for domain, routes in ROUTES.items()}


def layer_of(*domains: str, replicates: int = 200, **options: Any) -> CorpusLayer:
    return layer_statistics(
        4,
        np.concatenate([COUNTS[domain] for domain in domains]),
        [domain for domain in domains for _ in COUNTS[domain]],
        domains,
        Resampling(replicates),
        **options,
    )


def estimates(load: Load) -> tuple[Any, ...]:
    return load.cv, load.gini, load.effective_experts, load.top_share


def test_the_layer_holds_every_domain_and_every_pair_in_the_given_order() -> None:
    layer = layer_of("zh", "code", "math")
    assert layer.layer == 4
    assert [d.domain for d in layer.domains] == ["zh", "code", "math"]
    assert [(d.first, d.second) for d in layer.divergences] == [
        ("zh", "code"),
        ("zh", "math"),
        ("code", "math"),
    ]
    assert layer.counts_PE[7] == tuple(COUNTS["code"][0].tolist())


def test_points_and_prompt_intervals_are_those_of_the_measures_and_the_resampling() -> None:
    layer = layer_of("zh", "code")
    resampling = Resampling(200)
    loads = {
        "token_weighted": lambda counts: counts.astype(float),
        "prompt_balanced": measures.normalized,
    }
    replicates = {}
    for weighting, per_prompt in loads.items():
        for domain in layer.domains:
            counts = COUNTS[domain.domain]
            blocks = resampling.blocks("prompt", domain.domain, len(counts))
            shares_RE = replicate_shares(blocks, per_prompt(counts))
            replicates[weighting, domain.domain] = shares_RE
            point_E = getattr(measures, weighting)(counts)
            left_out_JE = jackknife_shares(per_prompt(counts))
            found = getattr(domain, weighting)
            for name in ("cv", "gini", "effective_experts", "top_share"):
                measure, estimate = getattr(measures, name), getattr(found, name)
                values_R, point = measure(shares_RE), float(measure(point_E))
                low, high = percentile_bounds(values_R)
                assert estimate.point == rounded(point)
                assert (estimate.percentile.low, estimate.percentile.high) == (
                    rounded(low),
                    rounded(high),
                )
                assert estimate.bias == rounded(values_R.mean() - point)
                bca = bca_bounds(values_R, point, [measure(left_out_JE)])
                assert bca is not None and estimate.bca is not None
                assert (estimate.bca.low, estimate.bca.high) == tuple(map(rounded, bca))
            assert found.shares.point_E == tuple(map(rounded, point_E))
            low_E, high_E = np.percentile(shares_RE, [2.5, 97.5], axis=0)
            assert found.shares.low_E == pytest.approx(low_E, abs=1e-8)
            assert found.shares.high_E == pytest.approx(high_E, abs=1e-8)
        values_R = measures.jensen_shannon(
            replicates[weighting, "zh"], replicates[weighting, "code"]
        )
        estimate = getattr(layer.divergences[0], weighting)
        low, high = percentile_bounds(values_R)
        assert (estimate.percentile.low, estimate.percentile.high) == (rounded(low), rounded(high))
        assert estimate.bca is not None


def test_used_zero_top_expert_and_coverage_are_those_of_the_counts() -> None:
    counts_PE = np.array([[6, 0, 3, 3, 0], [0, 0, 1, 1, 2]])
    layer = layer_statistics(1, counts_PE, ["zh", "zh"], ["zh"], Resampling(20))
    weighted, balanced = layer.domains[0].token_weighted, layer.domains[0].prompt_balanced
    assert (weighted.used, weighted.zero, weighted.top_expert) == (4, 1, 0)
    # 6, 4, 4, 2 of 16
    assert [c.expert_ids for c in weighted.coverage] == [(0,), (0, 2), (0, 2, 3, 4)]
    # 1/2, 1/4, 1/4, 0 and 0, 1/4, 1/4, 1/2: four experts with the same quarter, the lower id first
    assert balanced.top_expert == 0
    assert [c.expert_ids for c in balanced.coverage] == [(0,), (0, 2), (0, 2, 3, 4)]
    assert [c.share for c in balanced.coverage] == [0.2, 0.5, 0.9]


def test_equal_prompt_balanced_shares_are_ties_although_their_floats_differ() -> None:
    # in binary floats 0.3 + 0.2 + 0.1 is less than 0.1 + 0.2 + 0.3
    counts_PE = np.array(
        [[3, 1, 1, 1, 1, 1, 1, 1], [2, 2, 1, 1, 1, 1, 1, 1], [1, 3, 1, 1, 1, 1, 1, 1]]
    )
    assert np.argmax((counts_PE / 10).sum(axis=0)) == 1
    load = layer_statistics(1, counts_PE, ["zh"] * 3, ["zh"], Resampling(20)).domains[0]
    assert load.prompt_balanced.top_expert == 0
    assert [c.expert_ids for c in load.prompt_balanced.coverage[:2]] == [(0,), (0, 1, 2)]


def test_the_token_unit_is_given_for_token_weighted_statistics_only() -> None:
    layer = layer_of("zh", "code", token_ids=TOKEN_IDS)
    for domain in layer.domains:
        assert all(e.token_unit is not None for e in estimates(domain.token_weighted))
        assert all(e.token_unit is None for e in estimates(domain.prompt_balanced))
    assert layer.divergences[0].token_weighted.token_unit is not None
    assert layer.divergences[0].prompt_balanced.token_unit is None
    without = layer_of("zh", "code").domains[0].token_weighted
    assert all(e.token_unit is None for e in estimates(without))


def test_the_token_unit_changes_nothing_else() -> None:
    with_tokens = layer_of("zh", "code", token_ids=TOKEN_IDS).model_dump()
    for group in [*with_tokens["domains"], *with_tokens["divergences"]]:
        stack = [group]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                if "token_unit" in item:
                    item["token_unit"] = None
                stack.extend(item.values())
    assert with_tokens == layer_of("zh", "code").model_dump()


def test_without_bca_only_bca_is_missing() -> None:
    layer = layer_of("zh", "code", bca=False)
    full = layer_of("zh", "code")
    for domain, other in zip(layer.domains, full.domains, strict=True):
        for one, two in zip(
            estimates(domain.token_weighted), estimates(other.token_weighted), strict=True
        ):
            assert one.bca is None and two.bca is not None
            assert one == two.model_copy(update={"bca": None})
    assert layer.divergences[0].token_weighted.bca is None


def test_the_gate_mass_is_stored_beside_the_load_and_may_be_missing() -> None:
    mass = {"zh": np.linspace(0.0, 0.123456789, EXPERTS), "code": np.zeros(EXPERTS)}
    layer = layer_of("zh", "code", gate_mass=mass)
    assert layer.domains[0].gate_mass_E == tuple(map(rounded, mass["zh"].tolist()))
    assert layer_of("zh").domains[0].gate_mass_E is None


def test_a_domain_does_not_depend_on_which_others_are_there_or_on_their_order() -> None:
    alone = layer_of("code", token_ids=TOKEN_IDS).domains[0]
    among = layer_of("zh", "code", "math", token_ids=TOKEN_IDS)
    after = layer_of("math", "code", "zh", token_ids=TOKEN_IDS)
    assert alone == among.domains[1] == after.domains[1]
    forward = next(d for d in among.divergences if (d.first, d.second) == ("code", "math"))
    backward = next(d for d in after.divergences if (d.first, d.second) == ("math", "code"))
    assert forward.token_weighted == backward.token_weighted
    assert forward.prompt_balanced == backward.prompt_balanced


def test_rows_of_domains_may_be_interleaved() -> None:
    rows = [("zh", i) for i in range(7)] + [("code", i) for i in range(5)]
    mixed = rows[::2] + rows[1::2]
    in_order = sorted(mixed, key=lambda row: row[1])
    found = layer_statistics(
        4,
        np.array([COUNTS[domain][i] for domain, i in in_order]),
        [domain for domain, _ in in_order],
        ["zh", "code"],
        Resampling(200),
    )
    expected = layer_of("zh", "code")
    assert found.domains == expected.domains and found.divergences == expected.divergences


def test_the_order_of_prompts_changes_no_point() -> None:
    expected = layer_of("zh").domains[0]
    found = layer_statistics(4, COUNTS["zh"][::-1], ["zh"] * 7, ["zh"], Resampling(200)).domains[0]
    for weighting in ("token_weighted", "prompt_balanced"):
        one, two = getattr(found, weighting), getattr(expected, weighting)
        assert [e.point for e in estimates(one)] == [e.point for e in estimates(two)]
        assert one.shares.point_E == two.shares.point_E
        assert one.coverage == two.coverage and one.top_expert == two.top_expert


def test_all_layers_share_the_replicates_of_a_domain() -> None:
    resampling = Resampling(50)
    first = layer_statistics(1, COUNTS["zh"], ["zh"] * 7, ["zh"], resampling)
    layer_statistics(2, COUNTS["zh"] * 2, ["zh"] * 7, ["zh"], resampling)
    again = layer_statistics(1, COUNTS["zh"], ["zh"] * 7, ["zh"], resampling)
    assert canonical_json(first) == canonical_json(again)
    assert first == layer_statistics(1, COUNTS["zh"], ["zh"] * 7, ["zh"], Resampling(50))


def test_two_runs_give_the_same_bytes() -> None:
    one, two = (
        canonical_json(layer_of("zh", "code", "math", token_ids=TOKEN_IDS)) for _ in range(2)
    )
    assert one == two


def test_a_domain_of_one_prompt_has_intervals_of_no_width() -> None:
    layer = layer_statistics(
        3,
        np.concatenate([COUNTS["zh"], COUNTS["code"][:1]]),
        ["zh"] * 7 + ["code"],
        ["zh", "code"],
        Resampling(50),
    )
    for load in (layer.domains[1].token_weighted, layer.domains[1].prompt_balanced):
        for estimate in estimates(load):
            assert estimate.percentile.low == estimate.percentile.high == estimate.point
            assert estimate.bias == 0.0 and estimate.bca is None
        assert load.shares.low_E == load.shares.point_E == load.shares.high_E
    assert layer.divergences[0].token_weighted.bca is None


def test_duplicate_prompts_are_as_many_prompts() -> None:
    twice = np.repeat(COUNTS["code"][:1], 4, axis=0)
    layer = layer_statistics(3, twice, ["code"] * 4, ["code"], Resampling(50))
    for load in (layer.domains[0].token_weighted, layer.domains[0].prompt_balanced):
        for estimate in estimates(load):
            assert estimate.percentile.low == estimate.percentile.high == estimate.point
            assert estimate.bca is None and estimate.bias == 0.0


def test_two_domains_with_the_same_counts_have_a_divergence_of_zero_but_not_in_replicates() -> None:
    counts = np.concatenate([COUNTS["zh"], COUNTS["zh"]])
    layer = layer_statistics(3, counts, ["zh"] * 7 + ["code"] * 7, ["zh", "code"], Resampling(50))
    for estimate in (layer.divergences[0].token_weighted, layer.divergences[0].prompt_balanced):
        # the draws of the two are independent: every replicate is above the point
        assert estimate.point == 0.0 and estimate.percentile.low > 0.0 and estimate.bias > 0.0
        assert estimate.bca is None


@pytest.mark.parametrize("experts", [512, 384])
def test_rounded_uniform_shares_of_many_experts_still_sum_to_one(experts: int) -> None:
    ids_NK = np.arange(experts).reshape(-1, 4)
    counts_PE = np.ones((2, experts), dtype=np.int64)
    layer = layer_statistics(
        1,
        counts_PE,
        ["zh", "zh"],
        ["zh"],
        Resampling(20),
        token_ids={"zh": np.concatenate([ids_NK, ids_NK])},
    )
    for load in (layer.domains[0].token_weighted, layer.domains[0].prompt_balanced):
        require_shares(load.shares.point_E, "shares")
        assert load.effective_experts.point == experts
        assert load.coverage[1].expert_ids == tuple(range(experts // 2))
        # so far from 1 that the tolerance for few experts would refuse it
        assert abs(math.fsum(load.shares.point_E) - 1.0) > 1e-6


def test_unsigned_16_bit_ids_and_counts_of_512_experts_are_right() -> None:
    ids_NK = np.array([[511, 300, 255], [511, 256, 0]], dtype=np.uint16)
    counts_PE = np.bincount(ids_NK.ravel(), minlength=512)[None].astype(np.uint16)
    layer = layer_statistics(1, counts_PE, ["zh"], ["zh"], Resampling(20), token_ids={"zh": ids_NK})
    load = layer.domains[0].token_weighted
    assert (load.top_expert, load.used, load.zero) == (511, 5, 507)
    assert load.coverage[2].expert_ids == (511, 0, 255, 256, 300)


def test_the_description_names_seed_unit_interval_and_rounding() -> None:
    assert describe(Resampling()).model_dump() == {
        "replicates": 2_000,
        "seed": 20_260_729,
        "unit": "prompt",
        "stratified_by": "domain",
        "interval": "percentile 2.5 to 97.5",
        "weightings": ("token_weighted", "prompt_balanced"),
        "decimals": 8,
    }


# refusals


@pytest.mark.parametrize(
    ("domain_of_p", "domains", "message"),
    [
        (["zh"] * 6, ["zh"], "layer 4: expected one domain per row, found 6 for 7 rows"),
        (["zh"] * 6 + ["en"], ["zh"], r"layer 4: expected the domains \['zh'\], found \['en'\]"),
        (["zh"] * 7, ["zh", "zh"], "layer 4: expected the domains"),
        (["zh"] * 7, ["zh", "en"], r"layer 4, en: counts: expected \[prompts, experts\]"),
    ],
)
def test_rows_and_domains_that_do_not_fit_are_refused(
    domain_of_p: list[str], domains: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        layer_statistics(4, COUNTS["zh"], domain_of_p, domains, Resampling(10))
    assert "\n" not in str(caught.value)


def test_an_all_zero_prompt_is_refused_with_layer_and_domain() -> None:
    counts = COUNTS["zh"].copy()
    counts[2] = 0
    with pytest.raises(ValueError, match=r"layer 4, zh: .*found 0 in row 2"):
        layer_statistics(4, counts, ["zh"] * 7, ["zh"], Resampling(10))


def test_token_ids_that_are_not_those_of_the_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="layer 4, zh: token ids: expected those that the counts"):
        layer_of("zh", token_ids={"zh": TOKEN_IDS["zh"][:-1]})
    with pytest.raises(ValueError, match="layer 4, zh: token ids: expected those that the counts"):
        layer_of("zh", token_ids={"zh": (TOKEN_IDS["zh"] + 1) % (EXPERTS + 1)})
    with pytest.raises(ValueError, match="layer 4: token ids: expected one array per domain"):
        layer_of("zh", "code", token_ids={"zh": TOKEN_IDS["zh"]})


def test_a_gate_mass_that_lacks_a_domain_is_refused() -> None:
    with pytest.raises(ValueError, match="layer 4: gate mass: expected one array per domain"):
        layer_of("zh", "code", gate_mass={"zh": np.zeros(EXPERTS)})
