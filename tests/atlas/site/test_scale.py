"""A dataset far larger than any here: 27 layers, 160 experts, 8 domains."""

from __future__ import annotations

import gzip
import time

import pytest

from atlas.site import build
from tests.atlas.site import samples
from tests.atlas.site.conftest import OPTIONS, memory

DOMAINS = tuple(f"domain-{i}" for i in range(8))


def built(layers: int) -> tuple[dict[str, bytes], float]:
    counts = samples.random_counts(tuple(range(1, layers + 1)), DOMAINS, 160, 6, prompts=3)
    data = {"large-corpus.json": samples.canonical_json(samples.corpus(counts, 6))}
    start = time.process_time()
    files = build(OPTIONS, memory(data))
    return files, time.process_time() - start


def require_small(files: dict[str, bytes], layers: int) -> None:
    pages = {n: b for n, b in files.items() if n.endswith(".html")}
    assert len(pages) == 1 + 2 * (4 + 1 + 1 + 1 + 8 + 8 * layers)
    # what compresses worst of each kind is the largest of its kind
    kinds = ("layer-01.html", "compare.html", "domain-7/index.html", "model/index.html")
    for kind in (*kinds, "explore.html", "layer-01.vl.js"):
        name = max((n for n in files if n.endswith(kind)), key=lambda n: len(files[n]))
        assert len(gzip.compress(files[name], mtime=0)) < 100_000, name


def test_pages_of_160_experts_and_8_domains_stay_under_100_kb_gzipped() -> None:
    require_small(built(2)[0], 2)


@pytest.mark.slow
def test_27_layers_160_experts_and_8_domains_build() -> None:
    require_small(built(26)[0], 26)


@pytest.mark.slow
def test_build_time_grows_with_the_pages_and_not_faster() -> None:
    # process time, and a factor of two of room: other work on the machine must not fail it
    _, few = built(3)
    _, many = built(9)
    assert many < 2 * 3 * few
