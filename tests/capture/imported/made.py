"""A small made-up record in the layout of the ESFT record, and its parts to damage.

Written with plain Python from the layout's description, so that it shares no code with the
reader that it tests.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

EXPERTS = 64
Row = list[tuple[int, int]]
"""One token: six (expert, weight in ten-thousandths), in the record's own order: none."""


@dataclass
class MadeRecord:
    """`routes[task][layer]` is a list of prompts, each a list of rows."""

    folder: Path
    routes: dict[str, dict[int, list[list[Row]]]]

    @property
    def scores_dir(self) -> Path:
        return self.folder / "expert_scores"

    @property
    def configs_dir(self) -> Path:
        return self.folder / "expert_configs"

    def weights_file(self, task: str, layer: int) -> Path:
        return self.scores_dir / task / f"expert_weights_{layer}.txt"

    def edit_line(self, task: str, layer: int, line: int, edit) -> None:
        """Replace one line (from 1, without its end) of a layer file by what `edit` makes of it."""
        path = self.weights_file(task, layer)
        lines = path.read_bytes().split(b"\n")
        lines[line - 1] = edit(lines[line - 1])
        path.write_bytes(b"\n".join(lines))


def make_record(
    folder: Path, prompts: dict[str, list[int]] | None = None, layers: int = 3, seed: int = 7
) -> MadeRecord:
    """Write a record under `folder`. prompts: task to the lengths of its prompts."""
    draw = random.Random(seed)
    prompts = prompts or {"intent": [4, 2, 3, 5], "law": [6, 1, 2]}
    routes: dict[str, dict[int, list[list[Row]]]] = {}
    for task, lengths in prompts.items():
        routes[task] = {
            layer: [[_token(draw) for _ in range(length)] for length in lengths]
            for layer in range(1, layers + 1)
        }
    record = MadeRecord(folder, routes)
    write_record(record)
    return record


def _token(draw: random.Random) -> Row:
    # squared, so that some experts are used more than others
    ids = sorted(range(EXPERTS), key=lambda e: draw.random() * (1 + e / 16))[:6]
    return [(expert, draw.randrange(1, 1_600)) for expert in ids]


def write_record(record: MadeRecord) -> None:
    """The files of `record.routes`, summary.json and expert_configs included."""
    record.configs_dir.mkdir(parents=True, exist_ok=True)
    for task, by_layer in record.routes.items():
        (record.scores_dir / task).mkdir(parents=True, exist_ok=True)
        for layer, prompts in by_layer.items():
            record.weights_file(task, layer).write_bytes(b"".join(map(line_of, prompts)))
        summary, lists = aggregates(by_layer)
        (record.scores_dir / task / "summary.json").write_text(json.dumps(summary))
        (record.configs_dir / f"{task}.json").write_text(
            json.dumps({"experts": lists, "shared_experts": False, "non_expert_modules": False})
        )


def line_of(prompt: list[Row]) -> bytes:
    """One line: ids, an empty column, weights without needless zeros, as Python prints them."""
    pairs = [pair for row in prompt for pair in row]
    ids = "\t".join(str(expert) for expert, _ in pairs)
    weights = "\t".join(str(units / 10_000) for _, units in pairs)
    return f"{ids}\t\t{weights}\n".encode()


def aggregates(by_layer: dict[int, list[list[Row]]]) -> tuple[dict, dict]:
    """summary.json and the lists of expert_configs, from their definitions."""
    tables: dict[str, dict] = {"token_scores": {}, "gate_scores": {}}
    lists = {}
    for layer, prompts in by_layer.items():
        tokens = [row for prompt in prompts for row in prompt]
        selected, mass = [0] * EXPERTS, [0] * EXPERTS
        for row in tokens:
            for expert, units in row:
                selected[expert] += 1
                mass[expert] += units
        shares = {
            e: float(round(Fraction(selected[e], 6 * len(tokens)), 4)) for e in range(EXPERTS)
        }
        tables["token_scores"][str(layer)] = {str(e): shares[e] for e in shares}
        tables["gate_scores"][str(layer)] = {
            str(e): float(round(Fraction(mass[e], 10_000 * len(tokens)), 4)) for e in range(EXPERTS)
        }
        held, chosen = Fraction(0), []
        for expert in sorted(shares, key=lambda e: (-shares[e], e)):
            if held >= Fraction(1, 5):
                break
            chosen.append(expert)
            held += Fraction(str(shares[expert]))
        lists[str(layer)] = chosen
    return tables, lists
