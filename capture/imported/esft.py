"""The ESFT record as datasets of the contract: a routing corpus, a few ordered routes, and the
sequences that an export holds.

Axes: P prompt, L layer, N token of one task, K selected expert, E routed expert, T position.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from atlas.canonical import rounded
from atlas.contract.corpus import CorpusLayer, Domain, ImportedRecord, Prompt, RoutingCorpus
from atlas.contract.routes import OrderedRoutes, RoutedPrompt, Routes, RoutesLayer
from atlas.resample import Resampling
from atlas.statistics import describe, layer_statistics
from capture.errors import Refusal
from capture.imported import provenance
from capture.imported.record import Record, Task
from capture.imported.weights import UNITS
from capture.routes import RoutedSequences, Sequence

WEIGHT_DECIMALS = 4
SHOWN_PROMPTS = 3
SHOWN_POSITIONS = 40
"""Routes to read token by token: so many of the shortest prompts of each task, so many positions
from the first. More would not be read, and 26 layers of them make the file's size."""


def prompt_id(task: str, row: int) -> str:
    """Name of a prompt: its task and its line, from 1, in every layer file of the task."""
    return f"{task}-{row + 1:03d}"


def prompt_routes(task: Task) -> Iterator[tuple[int, NDArray[np.uint16]]]:
    """Row and expert ids [L, T, K] of each prompt."""
    starts = task.starts_P.tolist()
    for row, (start, stop) in enumerate(itertools.pairwise(starts)):
        yield row, task.expert_ids_LNK[:, start:stop]


def route_hash(expert_ids_LTK: NDArray[np.uint16]) -> str:
    """`route_sha256` of the contract: little-endian uint16 [layer, token, k]."""
    return sha256(np.ascontiguousarray(expert_ids_LTK, dtype="<u2").tobytes()).hexdigest()


def routing_corpus(
    record: Record,
    imported: ImportedRecord,
    resampling: Resampling,
    on_layer: Callable[[int], None] = lambda total: None,
) -> RoutingCorpus:
    """The corpus dataset. on_layer: called with the number of layers after each of them."""
    names = [task.name for task in record.tasks]
    domain_of_P = [task.name for task in record.tasks for _ in task.lengths_P]
    layers: list[CorpusLayer] = []
    for index, layer in enumerate(record.layers):
        counts_PE = np.concatenate([task.counts_PE(index) for task in record.tasks])
        try:
            layers.append(
                layer_statistics(
                    layer,
                    counts_PE,
                    domain_of_P,
                    names,
                    resampling,
                    token_ids={task.name: task.expert_ids_LNK[index] for task in record.tasks},
                    gate_mass={
                        task.name: task.gate_units_E(index) / (UNITS * int(task.lengths_P.sum()))
                        for task in record.tasks
                    },
                )
            )
        except ValueError as error:
            raise Refusal(where="statistics", what=str(error)) from error
        on_layer(len(record.layers))
    return RoutingCorpus(
        schema_="llm-atlas/routing-corpus@1",
        evidence="imported",
        model=provenance.model_identity(imported.commit != provenance.UNVERIFIED),
        artifacts=(),
        routing=provenance.routing(record),
        # the record shows the router's shape and nothing else of the config
        architecture=None,
        stop_line=None,
        environment=None,
        record=imported,
        captured_at=None,
        selection=None,
        statistics=describe(resampling),
        docs=provenance.docs(),
        domains=tuple(
            Domain(
                domain=task.name,
                title=provenance.title(task.name),
                prompts=len(task.lengths_P),
                tokens=int(task.lengths_P.sum()),
                source=None,
                selection=None,
            )
            for task in record.tasks
        ),
        prompts=tuple(
            Prompt(
                prompt_id=prompt_id(task.name, row),
                domain=task.name,
                tokens=ids_LTK.shape[1],
                source_id=f"line {row + 1}",
                rank=None,
                batch=None,
                characters=None,
                text_sha256=None,
                route_sha256=route_hash(ids_LTK),
            )
            for task in record.tasks
            for row, ids_LTK in prompt_routes(task)
        ),
        layers=tuple(layers),
    )


def ordered_routes(record: Record, imported: ImportedRecord) -> Routes:
    """The routes dataset: the shortest prompts of each task, ties by line, in line order."""
    chosen = [
        (task, row)
        for task in record.tasks
        for row in sorted(np.argsort(task.lengths_P, kind="stable")[:SHOWN_PROMPTS].tolist())
    ]
    shown = [min(SHOWN_POSITIONS, int(task.lengths_P[row])) for task, row in chosen]
    return Routes(
        schema_="llm-atlas/routes@1",
        evidence="imported",
        model=provenance.model_identity(imported.commit != provenance.UNVERIFIED),
        artifacts=(),
        routing=provenance.routing(record),
        record=imported,
        weight_decimals=WEIGHT_DECIMALS,
        choice=f"the {SHOWN_PROMPTS} shortest prompts of each task, ties by line; their first "
        f"{SHOWN_POSITIONS} positions at most",
        docs=provenance.docs(),
        prompts=tuple(
            RoutedPrompt(
                prompt_id=prompt_id(task.name, row),
                domain=task.name,
                tokens=int(task.lengths_P[row]),
                positions=positions,
                route_sha256=route_hash(
                    task.expert_ids_LNK[:, task.starts_P[row] : task.starts_P[row + 1]]
                ),
            )
            for (task, row), positions in zip(chosen, shown, strict=True)
        ),
        layers=tuple(
            RoutesLayer(
                layer=layer,
                prompts=tuple(
                    _routes(task, row, index, positions)
                    for (task, row), positions in zip(chosen, shown, strict=True)
                ),
            )
            for index, layer in enumerate(record.layers)
        ),
    )


def _routes(task: Task, row: int, layer_index: int, positions: int) -> OrderedRoutes:
    start = int(task.starts_P[row])
    ids_TK = task.expert_ids_LNK[layer_index, start : start + positions]
    units_TK = task.weights_LNK[layer_index, start : start + positions].astype(np.int64)
    return OrderedRoutes(
        prompt_id=prompt_id(task.name, row),
        expert_ids_TK=tuple(tuple(row_K) for row_K in ids_TK.tolist()),
        weights_TK=tuple(tuple(u / UNITS for u in row_K) for row_K in units_TK.tolist()),
        weight_sum_T=tuple(rounded(u / UNITS) for u in units_TK.sum(axis=1).tolist()),
    )


def sequences(record: Record, imported: ImportedRecord) -> RoutedSequences:
    """Every route of the record, for an export."""
    return RoutedSequences(
        evidence="imported",
        model=provenance.model_identity(imported.commit != provenance.UNVERIFIED),
        artifacts=(),
        record=imported,
        routing=provenance.routing(record),
        layers=record.layers,
        weight_decimals=WEIGHT_DECIMALS,
        docs=provenance.docs(),
        prompts=tuple(
            Sequence(
                prompt_id=prompt_id(task.name, row),
                domain=task.name,
                tokens=ids_LTK.shape[1],
                route_sha256=route_hash(ids_LTK),
            )
            for task in record.tasks
            for row, ids_LTK in prompt_routes(task)
        ),
        expert_ids_NLK=np.concatenate(
            [task.expert_ids_LNK.transpose(1, 0, 2) for task in record.tasks]
        ),
        weights_NLK=np.concatenate(
            [
                (task.weights_LNK.transpose(1, 0, 2) / UNITS).astype(np.float32)
                for task in record.tasks
            ]
        ),
    )
