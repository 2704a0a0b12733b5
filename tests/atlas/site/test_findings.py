from __future__ import annotations

from atlas.findings import find
from tests.atlas.site import samples

EVEN = [[3, 3, 3, 3], [6, 6, 6, 6]]
SKEWED = [[6, 4, 1, 1], [12, 8, 2, 2]]
OTHER = [[1, 1, 4, 6], [2, 2, 8, 12]]


def test_findings_are_the_extremes_of_all_layers_and_domains() -> None:
    corpus = samples.corpus(
        {
            1: {"a": EVEN, "b": SKEWED},
            2: {"a": OTHER, "b": SKEWED},
        },
        k=2,
    )
    found = find(corpus)
    # ties of equal dispersion go to the lower layer, then to the first domain
    assert (found.concentrated.layer, found.concentrated.domain) == (1, "b")
    assert (found.even.layer, found.even.domain) == (1, "a")
    assert found.even.estimate.point == 4.0
    assert found.far is not None
    assert (found.far.layer, found.far.first, found.far.second) == (2, "a", "b")


def test_the_consistent_domain_is_counted_over_layers() -> None:
    corpus = samples.corpus(
        {n: {"a": EVEN, "b": SKEWED} for n in (1, 2, 3)} | {4: {"a": SKEWED, "b": EVEN}}, k=2
    )
    found = find(corpus).consistent
    assert found is not None
    # both prompts have the same shares, so intervals have no width and never overlap
    assert (found.domain, found.layers, found.apart, found.of_layers) == ("b", 3, 3, 4)


def test_one_domain_has_no_distance_and_no_rival() -> None:
    found = find(samples.corpus({1: {"a": SKEWED}}, k=2))
    assert found.far is None
    assert found.consistent is None
