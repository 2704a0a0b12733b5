"""The bootstrap of atlas against scipy.stats.bootstrap, and how it grows.

    python benchmarks/bootstrap.py            # writes benchmarks/results/bootstrap.{json,md}
    python benchmarks/bootstrap.py --quick    # seconds, for CI; prints, writes nothing

Comparison: one layer, four domains; percentile intervals of CV, Gini, effective experts and
top share of every domain and of the divergence of every pair, under both weightings. scipy is
asked in two ways: the statistic of one replicate at a time (`vectorized=False`), and of all
replicates at once (`vectorized=True`), which gathers every prompt of every replicate. The three
take turns within each round; medians over rounds are reported. Before anything is timed, the
intervals of single domains are checked to be equal, same generator, to 1e-9.

Growth: `layer_statistics` with everything that a file stores (both weightings, bias, BCa, share
intervals), one size changed at a time; and the token-unit intervals by themselves.

Axes: P prompt, E expert, N token, K selected expert, R replicate. The routes are made up: speed
does not depend on their values.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from host import host, load_average, load_text
from numpy.typing import NDArray
from scipy import stats

from atlas.canonical import canonical_json, write_atomically
from atlas.load import FloatArray, normalized
from atlas.resample import (
    Replicates,
    Resampling,
    generator,
    percentile_bounds,
    replicate_shares,
    token_replicate_shares,
)
from atlas.statistics import layer_statistics

DOMAINS = ("english", "chinese", "code", "mathematics")
TOP_K = 6
RESULTS = Path(__file__).parent / "results"

Intervals = dict[tuple[str, ...], tuple[float, float]]
Loads = dict[tuple[str, str], FloatArray]


@dataclass(frozen=True)
class Size:
    """Of one measurement; `prompts` is per domain."""

    replicates: int = 2_000
    layers: int = 6
    experts: int = 64
    prompts: int = 32


def routes(size: Size, tokens: int, seed: int) -> NDArray[np.int64]:
    """Ids [tokens, K] of a made-up router that favours some experts."""
    rng = np.random.default_rng([seed, size.experts, tokens])
    favour_E = np.log(rng.exponential(size=size.experts) + 0.05)
    noise_NE = rng.gumbel(size=(tokens, size.experts))
    return np.argsort(-(favour_E + noise_NE), axis=1)[:, :TOP_K]


def prompt_counts(size: Size, seed: int) -> NDArray[np.int64]:
    """Counts [P, E] of one domain, prompts of 16 to 96 tokens."""
    lengths = np.random.default_rng(seed).integers(16, 97, size=size.prompts).tolist()
    ids_NK = routes(size, sum(lengths), seed)
    ends = np.cumsum(lengths)
    return np.array(
        [
            np.bincount(ids_NK[end - n : end].ravel(), minlength=size.experts)
            for n, end in zip(lengths, ends.tolist(), strict=True)
        ]
    )


def loads_of(size: Size) -> Loads:
    """Per weighting and domain what is resampled: counts, or each prompt's shares, [P, E]."""
    loads: Loads = {}
    for seed, domain in enumerate(DOMAINS):
        counts_PE = prompt_counts(size, seed)
        loads["token_weighted", domain] = counts_PE.astype(np.float64)
        loads["prompt_balanced", domain] = normalized(counts_PE)
    return loads


# the same intervals, three ways


def ours(loads: Loads, replicates: int) -> Intervals:
    """Every interval; the replicates of a domain are made once, draws included."""
    resampling = Resampling(replicates)
    made: dict[tuple[str, str], Replicates] = {}
    found: Intervals = {}
    for (weighting, domain), loads_PE in loads.items():
        blocks = list(resampling.blocks("prompt", domain, len(loads_PE)))
        own = made[weighting, domain] = Replicates.of(replicate_shares(blocks, loads_PE))
        for m, name in enumerate(MEASURES):
            found[weighting, domain, name] = percentile_bounds(own.dispersion_RM[:, m])
    for weighting in ("token_weighted", "prompt_balanced"):
        for first, second in combinations(DOMAINS, 2):
            values_R = made[weighting, first].divergence(made[weighting, second])
            found[weighting, first, second] = percentile_bounds(values_R)
    return found


def entropy_power(shares: FloatArray, axis: int) -> Any:
    return np.exp(-(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=axis))


def rank_gini(shares: FloatArray, axis: int) -> Any:
    experts = shares.shape[axis]
    return np.sort(shares, axis=axis) @ np.arange(1 - experts, experts, 2) / experts


MEASURES: dict[str, Callable[[FloatArray, int], Any]] = {
    "cv": lambda shares, axis: shares.std(axis=axis) / shares.mean(axis=axis),
    "gini": rank_gini,
    "effective_experts": entropy_power,
    "top_share": lambda shares, axis: shares.max(axis=axis),
}


def pooled(loads_PE: FloatArray, drawn: NDArray[np.int64]) -> FloatArray:
    sums: FloatArray = loads_PE[drawn].sum(axis=-2)
    shares: FloatArray = sums / sums.sum(axis=-1, keepdims=True)
    return shares


def divergence(p: FloatArray, q: FloatArray) -> Any:
    m = (p + q) / 2
    log = [np.log(np.where(x > 0, x, 1.0)) for x in (p, q, m)]
    return ((p * (log[0] - log[2]) + q * (log[1] - log[2])) / 2).sum(axis=-1)


def scipys(loads: Loads, replicates: int, *, vectorized: bool) -> Intervals:
    """Every interval from a call of scipy.stats.bootstrap of its own."""
    found: Intervals = {}

    def interval(
        statistic: Callable[..., Any], samples: Sequence[FloatArray], rng: np.random.Generator
    ) -> tuple[float, float]:
        result = stats.bootstrap(
            tuple(np.arange(len(loads_PE)) for loads_PE in samples),
            statistic,
            n_resamples=replicates,
            method="percentile",
            vectorized=vectorized,
            rng=rng,
        )
        low, high = result.confidence_interval
        return float(low), float(high)

    for (weighting, domain), loads_PE in loads.items():
        for name, measure in MEASURES.items():

            def one(
                drawn: NDArray[np.int64],
                axis: int = -1,
                loads_PE: FloatArray = loads_PE,
                measure: Callable[[FloatArray, int], Any] = measure,
            ) -> Any:
                return measure(pooled(loads_PE, drawn), axis)

            rng = generator(Resampling().seed, "prompt", domain)
            found[weighting, domain, name] = interval(one, [loads_PE], rng)
    for weighting in ("token_weighted", "prompt_balanced"):
        for first, second in combinations(DOMAINS, 2):
            a_PE, b_PE = loads[weighting, first], loads[weighting, second]

            def two(
                a: NDArray[np.int64],
                b: NDArray[np.int64],
                axis: int = -1,
                a_PE: FloatArray = a_PE,
                b_PE: FloatArray = b_PE,
            ) -> Any:
                return divergence(pooled(a_PE, a), pooled(b_PE, b))

            rng = np.random.default_rng(1)
            found[weighting, first, second] = interval(two, [a_PE, b_PE], rng)
    return found


def require_equal(one: Intervals, other: Intervals) -> None:
    """Exit 1 unless intervals of single domains agree; scipy draws pairs from one generator."""
    for key, bounds in one.items():
        if key[2] in MEASURES and not np.allclose(bounds, other[key], rtol=1e-9, atol=1e-12):
            sys.exit(f"bootstrap: {' '.join(key)}: expected {bounds}, found {other[key]}")


# measuring


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(size: Size, rounds: int) -> dict[str, Any]:
    """Medians of the three ways, taking turns."""
    loads = loads_of(size)
    ways: dict[str, Callable[[], Intervals]] = {
        "atlas": lambda: ours(loads, size.replicates),
        "scipy_vectorized": lambda: scipys(loads, size.replicates, vectorized=True),
        "scipy": lambda: scipys(loads, size.replicates, vectorized=False),
    }
    found = {name: way() for name, way in ways.items()}
    require_equal(found["atlas"], found["scipy"])
    require_equal(found["atlas"], found["scipy_vectorized"])
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(seconds(way))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    return {
        "replicates": size.replicates,
        "experts": size.experts,
        "prompts_per_domain": size.prompts,
        "intervals": len(found["atlas"]),
        "rounds": rounds,
        "seconds": {name: round(value, 4) for name, value in medians.items()},
        "times_faster_than_scipy": round(medians["scipy"] / medians["atlas"], 1),
        "times_faster_than_scipy_vectorized": round(
            medians["scipy_vectorized"] / medians["atlas"], 1
        ),
    }


def measured(run: Callable[[], object], rounds: int) -> dict[str, float]:
    """Median seconds, and the peak of what numpy allocated, measured in a run of its own."""
    run()
    median = statistics.median(seconds(run) for _ in range(rounds))
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"seconds": round(median, 3), "peak_mib": round(peak / 2**20, 1)}


def grow(base: Size, grown: dict[str, Size], rounds: int) -> list[dict[str, Any]]:
    rows = []
    for name, size in {"base": base, **grown}.items():
        counts_PE = np.concatenate([prompt_counts(size, seed) for seed in range(len(DOMAINS))])
        domain_of_P = [domain for domain in DOMAINS for _ in range(size.prompts)]

        def every_layer(
            size: Size = size,
            counts_PE: NDArray[np.int64] = counts_PE,
            domain_of_P: list[str] = domain_of_P,
        ) -> None:
            resampling = Resampling(size.replicates)
            for layer in range(1, size.layers + 1):
                layer_statistics(layer, counts_PE, domain_of_P, DOMAINS, resampling)

        rows.append({"name": name, **vars(size), **measured(every_layer, rounds)})
    for row in rows:
        row["times_base"] = round(row["seconds"] / rows[0]["seconds"], 2)
    return rows


def token_unit(size: Size, tokens: int, rounds: int) -> dict[str, Any]:
    """Token-unit replicates of four domains in every layer, draws included."""
    ids_NK = routes(size, tokens, 0)

    def every_layer() -> None:
        resampling = Resampling(size.replicates)
        for _ in range(size.layers):
            for domain in DOMAINS:
                blocks = resampling.blocks("token", domain, tokens)
                token_replicate_shares(blocks, ids_NK, size.experts)

    return {**vars(size), "tokens_per_domain": tokens, **measured(every_layer, rounds)}


def machine() -> dict[str, Any]:
    return {
        **host(),
        "blas_threads": os.environ.get("OMP_NUM_THREADS", "default"),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def markdown(report: dict[str, Any]) -> str:
    machine = report["machine"]
    lines = [
        "# Bootstrap: atlas against scipy.stats.bootstrap",
        "",
        "Made by `python benchmarks/bootstrap.py`. "
        f"{machine['cores']} cores ({machine['cpu']}), BLAS threads: {machine['blas_threads']}, "
        f"Python {machine['python']}, numpy {machine['numpy']}, scipy {machine['scipy']}. "
        f"{load_text(**report['load_average'])}",
        "",
        "The same percentile intervals three ways, taking turns, medians; intervals of single",
        "domains are checked to be equal to 1e-9 first. Four domains, one layer; one call of scipy",
        "per interval, where atlas makes the replicates of a domain once for all of them.",
        "",
        "| prompts per domain | replicates | intervals | atlas, s | scipy, vectorized, s "
        "| scipy, one by one, s | faster than vectorized | faster than one by one |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in report["comparison"]:
        taken = row["seconds"]
        lines.append(
            f"| {row['prompts_per_domain']:,} | {row['replicates']:,} | {row['intervals']} "
            f"| {taken['atlas']:.4f} | {taken['scipy_vectorized']:.3f} | {taken['scipy']:.2f} "
            f"| {row['times_faster_than_scipy_vectorized']:.0f}× "
            f"| {row['times_faster_than_scipy']:.0f}× |"
        )
    lines += [
        "",
        "Growth of everything that a file stores (four domains, both weightings, bias, BCa, share",
        "intervals, divergences), one size changed at a time:",
        "",
        "| changed | replicates | layers | experts | prompts per domain | s | × base | peak, MiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in report["growth"]:
        lines.append(
            f"| {row['name']} | {row['replicates']:,} | {row['layers']} | {row['experts']} "
            f"| {row['prompts']:,} | {row['seconds']:.2f} | {row['times_base']:.1f} "
            f"| {row['peak_mib']:.0f} |"
        )
    unit = report["token_unit"]
    lines += [
        "",
        f"Token-unit replicates, {unit['layers']} layers × {len(DOMAINS)} domains × "
        f"{unit['tokens_per_domain']:,} tokens × {unit['replicates']:,} replicates: "
        f"{unit['seconds']:.1f} s, peak {unit['peak_mib']:.0f} MiB.",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="bootstrap of atlas against scipy's")
    parser.add_argument("--quick", action="store_true", help="small sizes; prints, writes nothing")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(arguments)
    before = load_average()
    if options.quick:
        rounds, base = 1, Size(replicates=200, layers=1)
        compared = [compare(base, 3)]
        grown = {"replicates": replace(base, replicates=400)}
        unit = token_unit(base, 500, 1)
    else:
        rounds, base = 3, Size()
        compared = [compare(base, 7), compare(replace(base, prompts=128), 3)]
        grown = {
            "replicates": replace(base, replicates=20_000),
            "layers": replace(base, layers=26),
            "experts": replace(base, experts=256),
            "prompts": replace(base, prompts=1_024),
        }
        unit = token_unit(replace(base, layers=26), 8_500, 1)
    report = {
        "machine": machine(),
        "comparison": compared,
        "growth": grow(base, grown, rounds),
        "token_unit": unit,
        "load_average": {"before": before, "after": load_average()},
    }
    text = markdown(report)
    print(text, end="")
    if not options.quick:
        options.output.mkdir(parents=True, exist_ok=True)
        write_atomically(options.output / "bootstrap.json", canonical_json(report))
        write_atomically(options.output / "bootstrap.md", text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
