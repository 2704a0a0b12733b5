"""The publisher's own figures, recomputed from the routes: they tell whether the record was read
as it was meant.

All in whole numbers, so that no rounding here decides. Axes: E routed expert.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atlas.contract.corpus import PublisherCheck
from atlas.load import coverage
from capture.imported.record import Record, Task
from capture.imported.weights import EXPERTS, TOP_K, UNITS

COVERAGE_UNITS = UNITS // 5
"""The share that expert_configs were made with, 0.2, in ten-thousandths."""


@dataclass(frozen=True)
class Difference:
    """One printed figure that the routes do not give."""

    where: str
    printed: str
    recomputed: str


@dataclass(frozen=True)
class Verdict:
    """Checks as they are stored, and every difference, in order."""

    checks: tuple[PublisherCheck, ...]
    differences: tuple[Difference, ...]

    @property
    def agrees(self) -> bool:
        return not self.differences


def check_record(record: Record) -> Verdict:
    """Recompute every printed score and every list of experts."""
    differences: list[Difference] = []
    checks = []
    for kind, rule in (
        (
            "token_scores",
            "share of selections, |recomputed - printed| <= 0.00005 (half of the last printed "
            "decimal), in exact arithmetic without slack",
        ),
        (
            "gate_scores",
            "mean gate weight per token, from the record's four-decimal weights, "
            "|recomputed - printed| <= 0.00005 (half of the last printed decimal), in exact "
            "arithmetic without slack",
        ),
    ):
        found = [d for task in record.tasks for d in _score_differences(record, task, kind)]
        total = len(record.tasks) * len(record.layers) * EXPERTS
        checks.append(
            PublisherCheck(
                name=f"summary.json {kind}", rule=rule, total=total, agreeing=total - len(found)
            )
        )
        differences += found
    if record.lists_checked:
        total = len(record.tasks) * len(record.layers)
        found = [d for task in record.tasks for d in _list_differences(record, task, True)]
        unrounded = sum(len(list(_list_differences(record, t, False))) for t in record.tasks)
        checks.append(
            PublisherCheck(
                name="expert_configs",
                rule="the smallest set of experts whose printed token_scores reach 0.2, largest "
                "first, ties by id: same experts, same order; over unrounded counts "
                f"{total - unrounded} of {total} would be the same, the others hang on ties that "
                "rounding to four decimals made",
                total=total,
                agreeing=total - len(found),
            )
        )
        differences += found
    return Verdict(tuple(checks), tuple(differences))


def _score_differences(record: Record, task: Task, kind: str) -> Iterator[Difference]:
    tokens = int(task.lengths_P.sum())
    for index, layer in enumerate(record.layers):
        if kind == "token_scores":
            # count / (tokens * K), against printed / UNITS
            numerators = [int(c) * UNITS for c in task.counts_PE(index).sum(axis=0)]
            denominator = tokens * TOP_K
        else:
            # units / (UNITS * tokens), against printed / UNITS
            numerators = [int(u) for u in task.gate_units_E(index)]
            denominator = tokens
        for expert, printed in enumerate(task.printed[kind][layer]):
            if 2 * abs(numerators[expert] - printed * denominator) > denominator:
                yield Difference(
                    where=f"{task.name}/summary.json: {kind}, layer {layer}, expert {expert}",
                    printed=f"{printed / UNITS:.4f}",
                    recomputed=f"{numerators[expert] / denominator / UNITS:.6f}",
                )


def _list_differences(record: Record, task: Task, from_printed: bool) -> Iterator[Difference]:
    for index, layer in enumerate(record.layers):
        assert task.coverage_lists is not None
        printed = task.coverage_lists[layer]
        if from_printed:
            # as shares: the publisher's lists decide on the printed scores as they stand
            printed_E = [units / UNITS for units in task.printed["token_scores"][layer]]
            recomputed = coverage(printed_E, COVERAGE_UNITS / UNITS)
        else:
            recomputed = coverage(task.counts_PE(index).sum(axis=0), COVERAGE_UNITS / UNITS)
        if recomputed != printed:
            yield Difference(
                where=f"expert_configs/{task.name}.json: layer {layer}",
                printed=str(list(printed)),
                recomputed=str(list(recomputed)),
            )
