"""How often a 95 % interval holds the truth, where the truth is known.

`python benchmarks/interval_coverage.py --scores-dir DIR` takes the prompts of one task of the
ESFT record as the whole population, draws a few of them again and again, and counts how often
the interval made from the few holds the load measure of all. Three intervals: percentile and BCa
with the prompt as the unit, and percentile with the token as the unit.

It says how these intervals behave on loads like these. It is no proof for other text, and the
prompts of a task stay one sample of unknown selection.

Axes: P prompt, S drawn prompt, N token, R replicate, E routed expert.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from atlas import load as measures
from atlas.resample import bca_bounds, jackknife_shares, percentile_bounds
from capture.imported.record import Task, read_record

REPLICATES = 500
MEASURES = {
    "effective experts": measures.effective_experts,
    "CV": measures.cv,
    "Gini": measures.gini,
    "top share": measures.top_share,
}
INTERVALS = ("percentile", "BCa", "token unit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores-dir", type=Path, required=True)
    parser.add_argument("--task", default="intent", help="the task that is the population")
    parser.add_argument("--draws", type=int, default=200, help="samples per size")
    parser.add_argument("--sizes", type=int, nargs="+", default=[13, 33, 64])
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 6, 11, 16, 21, 26])
    args = parser.parse_args()
    record = read_record(args.scores_dir, None)
    task = next(x for x in record.tasks if x.name == args.task)
    print(f"{args.task}: {len(task.lengths_P)} prompts, layers {args.layers}, {args.draws} draws")
    print("| prompts drawn | measure | " + " | ".join(INTERVALS) + " |")
    print("|---:|---|" + "---:|" * len(INTERVALS))
    for size in args.sizes:
        held = coverage(task, [record.layers.index(n) for n in args.layers], size, args.draws)
        for name, shares in held.items():
            row = " | ".join(f"{share:.1%}" for share in shares)
            print(f"| {size} | {name} | {row} |", flush=True)


def coverage(
    task: Task, layer_indices: list[int], size: int, draws: int
) -> dict[str, NDArray[np.float64]]:
    """Share of intervals [INTERVALS] that hold the token-weighted measure of all prompts."""
    rng = np.random.default_rng([20_260_729, size])
    held = {name: np.zeros(len(INTERVALS)) for name in MEASURES}
    starts = task.starts_P
    for _ in range(draws):
        drawn_S = rng.integers(0, len(task.lengths_P), size)
        times_RS = _times(rng, size)
        rows_N = np.concatenate([np.arange(starts[p], starts[p + 1]) for p in drawn_S])
        times_RN = _times(rng, len(rows_N)).astype(np.float32)
        for index in layer_indices:
            counts_PE = task.counts_PE(index)
            counts_SE = counts_PE[drawn_S].astype(np.float64)
            prompts_RE = measures.normalized(times_RS @ counts_SE)
            selected_NE = np.zeros((len(rows_N), 64), dtype=np.float32)
            np.put_along_axis(
                selected_NE, task.expert_ids_LNK[index, rows_N].astype(np.int64), 1.0, axis=1
            )
            tokens_RE = measures.normalized(times_RN @ selected_NE)
            left_out_SE = jackknife_shares(counts_SE)
            for name, measure in MEASURES.items():
                truth = float(measure(counts_PE.sum(axis=0)))
                point = float(measure(counts_SE.sum(axis=0)))
                replicates_R = measure(prompts_RE)
                percentile = percentile_bounds(replicates_R)
                jackknife = None if left_out_SE is None else measure(left_out_SE)
                # where BCa is not defined a reader has the percentile interval
                bca = bca_bounds(replicates_R, point, [jackknife]) or percentile
                token = percentile_bounds(measure(tokens_RE))
                held[name] += [low <= truth <= high for low, high in (percentile, bca, token)]
    return {name: hits / (draws * len(layer_indices)) for name, hits in held.items()}


def _times(rng: np.random.Generator, units: int) -> NDArray[np.float64]:
    """How often each unit is drawn in each replicate [R, units]."""
    picks = rng.integers(0, units, size=(REPLICATES, units))
    times = np.zeros((REPLICATES, units))
    np.add.at(times, (np.arange(REPLICATES)[:, None], picks), 1.0)
    return times


if __name__ == "__main__":
    main()
