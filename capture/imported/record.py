"""A whole ESFT record: every task's layer files and the publisher's own aggregates.

`<scores-dir>/<task>/expert_weights_<layer>.txt` and `summary.json`; beside it, where it is
there, `expert_configs/<task>.json`. Nothing is assumed of how many tasks, prompts or layers
there are: they are found, and every file must agree with the others.

Axes: L layer, P prompt of one task, N token of one task, K selected expert, E routed expert.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas.canonical import parse_json
from capture.errors import Refusal
from capture.imported.weights import EXPERTS, UNITS, LayerFile, read_layer_file

SUMMARY = "summary.json"
SCORE_KINDS = ("token_scores", "gate_scores")
_TASK = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_LAYER_FILE = re.compile(r"expert_weights_([1-9][0-9]{0,3})\.txt")

Scores = dict[int, tuple[int, ...]]
"""Layer number to the printed scores [E], in ten-thousandths."""


@dataclass(frozen=True)
class RecordFile:
    """One file of the record as it was read; its name is the one in the publisher's results/."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Task:
    """One task of the record.

    lengths_P: int64 [P]. expert_ids_LNK: uint16 [L, N, K], each token sorted by weight, then
    id. weights_LNK: uint16 [L, N, K] in ten-thousandths. printed: the two score tables of
    summary.json. coverage_lists: layer to expert ids as printed, None without expert_configs.
    """

    name: str
    lengths_P: NDArray[np.int64]
    expert_ids_LNK: NDArray[np.uint16]
    weights_LNK: NDArray[np.uint16]
    printed: dict[str, Scores]
    coverage_lists: dict[int, tuple[int, ...]] | None

    @property
    def starts_P(self) -> NDArray[np.int64]:
        """First token of each prompt, and the number of tokens: int64 [P + 1]."""
        return np.concatenate([[0], np.cumsum(self.lengths_P)])

    def counts_PE(self, layer_index: int) -> NDArray[np.int64]:
        """Selections of every prompt in one layer: int64 [P, E]."""
        prompt_N = np.repeat(np.arange(len(self.lengths_P)), self.lengths_P)
        cells_NK = prompt_N[:, None] * EXPERTS + self.expert_ids_LNK[layer_index]
        flat = np.bincount(cells_NK.ravel(), minlength=len(self.lengths_P) * EXPERTS)
        return flat.reshape(-1, EXPERTS).astype(np.int64)

    def gate_units_E(self, layer_index: int) -> NDArray[np.int64]:
        """Sum of gate weights per expert over all tokens, in ten-thousandths: int64 [E]."""
        summed = np.bincount(
            self.expert_ids_LNK[layer_index].ravel(),
            weights=self.weights_LNK[layer_index].ravel(),
            minlength=EXPERTS,
        )
        # float64 holds these whole numbers exactly: at most 10,000 a selection
        return summed.astype(np.int64)


@dataclass(frozen=True)
class Record:
    """The record. `files` are all that were read, in order of task and layer."""

    layers: tuple[int, ...]
    tasks: tuple[Task, ...]
    files: tuple[RecordFile, ...]

    @property
    def lists_checked(self) -> bool:
        return all(task.coverage_lists is not None for task in self.tasks)


def read_record(
    scores_dir: Path, configs_dir: Path | None, on_file: Callable[[int], None] = lambda total: None
) -> Record:
    """Read a record.

    configs_dir: folder of expert_configs, None to go without. on_file: called with the number
    of layer files after each of them. Raises Refusal, with file, line, expected and found.
    """
    names = _task_names(scores_dir)
    summaries = {name: _read_summary(scores_dir / name, name) for name in names}
    layers = _layers_of(scores_dir, summaries)
    lists = {
        name: None if configs_dir is None else _read_lists(configs_dir, name, layers)
        for name in names
    }
    total = len(names) * len(layers)
    tasks, files = [], []
    for name in names:
        printed, summary_file = summaries[name]
        by_layer: list[LayerFile] = []
        for layer in layers:
            file_name = f"{name}/expert_weights_{layer}.txt"
            one = read_layer_file(scores_dir / file_name, file_name)
            if by_layer:
                _require_same_lengths(by_layer[0], one, file_name, layers[0])
            by_layer.append(one)
            files.append(RecordFile(f"expert_scores/{file_name}", one.bytes, one.sha256))
            on_file(total)
        files.append(summary_file)
        own_lists = lists[name]
        if own_lists is not None:
            files.append(own_lists[1])
        tasks.append(
            Task(
                name=name,
                lengths_P=by_layer[0].lengths_P,
                expert_ids_LNK=np.stack([x.expert_ids_NK for x in by_layer]),
                weights_LNK=np.stack([x.weights_NK for x in by_layer]),
                printed=printed,
                coverage_lists=None if own_lists is None else own_lists[0],
            )
        )
    return Record(layers=layers, tasks=tuple(tasks), files=tuple(files))


def _task_names(scores_dir: Path) -> list[str]:
    try:
        found = sorted(
            entry.name
            for entry in scores_dir.iterdir()
            if entry.is_dir() and not entry.name.startswith(".")
        )
    except OSError as error:
        raise Refusal(
            where=scores_dir.name or str(scores_dir),
            what="scores folder cannot be read",
            expected="a folder with one folder per task",
            found=error.strerror,
        ) from error
    if not found:
        raise Refusal(
            where=scores_dir.name or str(scores_dir),
            what="no tasks",
            expected="one folder per task",
            found="none",
        )
    for name in found:
        if not _TASK.fullmatch(name) or len(name) > 64:
            raise Refusal(
                where=scores_dir.name,
                what="task folder",
                expected="a name of lower-case letters, digits and hyphens",
                found=repr(name),
            )
    return found


def _layers_of(
    scores_dir: Path, summaries: dict[str, tuple[dict[str, Scores], RecordFile]]
) -> tuple[int, ...]:
    """Layer numbers 1 to the last one, the same in every task's files and summary."""
    on_disk = {}
    for task in summaries:
        names = [entry.name for entry in (scores_dir / task).iterdir()]
        matches = [m for m in map(_LAYER_FILE.fullmatch, names) if m]
        on_disk[task] = {int(m[1]) for m in matches}
    named = {layer for printed, _ in summaries.values() for t in printed.values() for layer in t}
    last = max(set().union(named, *on_disk.values()))
    layers = tuple(range(1, last + 1))
    for task, (printed, _) in summaries.items():
        for layer in layers:
            if layer not in on_disk[task]:
                raise Refusal(
                    where=f"{task}/expert_weights_{layer}.txt",
                    what="missing layer",
                    expected=f"a file for each of the layers 1 to {last}",
                    found="no such file",
                )
        for kind, table in printed.items():
            for layer in layers:
                if layer not in table:
                    raise Refusal(
                        where=f"{task}/{SUMMARY}",
                        what=f"{kind}, layer {layer}",
                        expected=f"scores for each of the layers 1 to {last}",
                        found="none",
                    )
    return layers


def _require_same_lengths(first: LayerFile, other: LayerFile, name: str, first_layer: int) -> None:
    if len(first.lengths_P) != len(other.lengths_P):
        shorter = min(len(first.lengths_P), len(other.lengths_P))
        raise Refusal(
            where=f"{name}: line {shorter + 1}",
            what="number of prompts",
            expected=f"{len(first.lengths_P)}, as in layer {first_layer}",
            found=len(other.lengths_P),
        )
    differs_P = first.lengths_P != other.lengths_P
    if differs_P.any():
        row = int(differs_P.argmax())
        raise Refusal(
            where=f"{name}: line {row + 1}",
            what="prompt length",
            expected=f"{first.lengths_P[row]} tokens, as in layer {first_layer}",
            found=int(other.lengths_P[row]),
        )


def _read_json(path: Path, name: str, expected: str) -> tuple[dict[str, Any], RecordFile]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refusal(
            where=name, what="file cannot be read", expected=expected, found=error.strerror
        ) from error
    try:
        content = parse_json(data)
    except ValueError as error:
        raise Refusal(where=name, what="not JSON", expected=expected, found=error) from error
    if not isinstance(content, dict):
        raise Refusal(where=name, what="content", expected=expected, found=type(content).__name__)
    return content, RecordFile(name, len(data), sha256(data).hexdigest())


def _read_summary(folder: Path, task: str) -> tuple[dict[str, Scores], RecordFile]:
    name = f"{task}/{SUMMARY}"
    expected = " and ".join(SCORE_KINDS)
    content, file = _read_json(folder / SUMMARY, name, expected)
    if set(content) != set(SCORE_KINDS):
        raise Refusal(where=name, what="keys", expected=expected, found=sorted(content))
    printed = {kind: _score_table(content[kind], f"{name}: {kind}") for kind in SCORE_KINDS}
    return printed, RecordFile(f"expert_scores/{name}", file.bytes, file.sha256)


def _score_table(table: object, where: str) -> Scores:
    if not isinstance(table, dict) or not table:
        raise Refusal(
            where=where, what="content", expected="scores by layer", found=type(table).__name__
        )
    return {
        _layer_number(key, where): _scores(row, f"{where}, layer {key}")
        for key, row in table.items()
    }


def _layer_number(key: str, where: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,3}", key):
        raise Refusal(where=where, what="layer", expected="a number from 1", found=repr(key[:40]))
    return int(key)


def _scores(row: object, where: str) -> tuple[int, ...]:
    if not isinstance(row, dict) or set(row) != {str(e) for e in range(EXPERTS)}:
        found = f"{len(row)} keys" if isinstance(row, dict) else type(row).__name__
        raise Refusal(
            where=where, what="experts", expected=f"the keys 0 to {EXPERTS - 1}", found=found
        )
    return tuple(_in_units(row[str(e)], f"{where}, expert {e}") for e in range(EXPERTS))


def _in_units(value: object, where: str) -> int:
    """A printed score in ten-thousandths: its shortest decimal form has four decimals at most."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    units = Decimal(repr(value)) * UNITS if number else Decimal("NaN")
    if not number or units != units.to_integral_value() or not 0 <= units <= UNITS:
        raise Refusal(
            where=where,
            what="score",
            expected="0 to 1 with at most four decimals",
            found=repr(value)[:40],
        )
    return int(units)


def _read_lists(
    configs_dir: Path, task: str, layers: tuple[int, ...]
) -> tuple[dict[int, tuple[int, ...]], RecordFile]:
    name = f"expert_configs/{task}.json"
    content, file = _read_json(configs_dir / f"{task}.json", name, "lists of experts by layer")
    experts = content.get("experts")
    if not isinstance(experts, dict) or set(experts) != {str(layer) for layer in layers}:
        raise Refusal(
            where=name,
            what="experts",
            expected=f"the layers 1 to {layers[-1]}",
            found=sorted(experts) if isinstance(experts, dict) else type(experts).__name__,
        )
    lists = {}
    for layer in layers:
        ids = experts[str(layer)]
        valid = isinstance(ids, list) and all(
            isinstance(e, int) and not isinstance(e, bool) and 0 <= e < EXPERTS for e in ids
        )
        if not valid:
            raise Refusal(
                where=name,
                what=f"layer {layer}",
                expected=f"a list of expert ids from 0 to {EXPERTS - 1}",
                found=repr(ids)[:80],
            )
        lists[layer] = tuple(ids)
    return lists, file
