"""`llm-atlas/routes@1`: ordered routes of a few prompts, for reading token by token; and
`llm-atlas/route-export@1`, the manifest of an export that holds every route.

Axes: T token, L layer, K selected expert (k of top-k), P prompt. Routes are ordered by gate
weight, the largest first; equal weights by expert id.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator

from atlas.contract.base import (
    CONTRACT_VERSION,
    Count,
    Evidence,
    ExpertId,
    LayerNumber,
    NonNegative,
    Positive,
    Sha256,
    Share,
    Slug,
    Strict,
)
from atlas.contract.corpus import Docs, ImportedRecord
from atlas.contract.identity import ArtifactFile, ModelIdentity, Routing

WEIGHT_SUM_TOLERANCE = 1e-9


class RoutedPrompt(Strict):
    """One prompt. `positions` of its `tokens` are shown, from the first one (position 0).

    `route_sha256` is over the whole prompt, as in `llm-atlas/routing-corpus@1`.
    """

    prompt_id: str
    domain: Slug | None
    tokens: Positive
    positions: Positive
    route_sha256: Sha256

    @model_validator(mode="after")
    def _no_more_than_there_are(self) -> RoutedPrompt:
        if self.positions > self.tokens:
            raise ValueError(
                f"{self.prompt_id}: expected at most {self.tokens} positions, "
                f"found {self.positions}"
            )
        return self


class OrderedRoutes(Strict):
    """Routes of one prompt in one layer; row T is the position.

    `weight_sum_T` is the sum of the row's gate weights. It stays under 1 where the router does
    not renormalise after top-k: the rest went to experts that were not selected.
    """

    prompt_id: str
    expert_ids_TK: tuple[tuple[ExpertId, ...], ...]
    weights_TK: tuple[tuple[Share, ...], ...]
    weight_sum_T: tuple[NonNegative, ...]


class RoutesLayer(Strict):
    """One MoE layer: the prompts in the order of the file."""

    layer: LayerNumber
    prompts: tuple[OrderedRoutes, ...]


class Routes(Strict):
    """The file. `weight_decimals` is the number of decimals that the weights were recorded
    with, null where they are float32; equal weights may be rounded ones."""

    schema_: Literal["llm-atlas/routes@1"] = Field(alias="schema")
    contract: Literal["1"] = CONTRACT_VERSION
    evidence: Evidence
    model: ModelIdentity
    artifacts: tuple[ArtifactFile, ...]
    routing: Routing
    record: ImportedRecord | None
    weight_decimals: Count | None
    choice: str = Field(description="how the prompts and positions of this file were chosen")
    docs: Docs
    prompts: tuple[RoutedPrompt, ...] = Field(min_length=1)
    layers: tuple[RoutesLayer, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _cross_fields(self) -> Routes:
        if (self.evidence == "imported") != (self.record is not None):
            raise ValueError("record: expected with evidence imported, and only then")
        numbers = [x.layer for x in self.layers]
        if numbers != sorted(set(numbers)) or not set(numbers) <= set(self.routing.moe_layers):
            raise ValueError(f"layers: expected ascending MoE layer numbers, found {numbers}")
        ids = [p.prompt_id for p in self.prompts]
        if len(set(ids)) != len(ids):
            raise ValueError("prompts: expected different prompt ids")
        for layer in self.layers:
            if [p.prompt_id for p in layer.prompts] != ids:
                raise ValueError(f"layer {layer.layer}: expected the prompts in order")
            for prompt, routes in zip(self.prompts, layer.prompts, strict=True):
                self._check_routes(f"layer {layer.layer}, {prompt.prompt_id}", prompt, routes)
        return self

    def _check_routes(self, where: str, prompt: RoutedPrompt, routes: OrderedRoutes) -> None:
        experts, k = self.routing.n_routed_experts, self.routing.num_experts_per_tok
        lengths = {
            len(routes.expert_ids_TK),
            len(routes.weights_TK),
            len(routes.weight_sum_T),
        }
        if lengths != {prompt.positions}:
            raise ValueError(f"{where}: expected {prompt.positions} rows, found {sorted(lengths)}")
        for position, (ids, weights, total) in enumerate(
            zip(routes.expert_ids_TK, routes.weights_TK, routes.weight_sum_T, strict=True)
        ):
            row = f"{where}, position {position}"
            if len(ids) != k or len(weights) != k or len(set(ids)) != k or max(ids) >= experts:
                raise ValueError(f"{row}: expected {k} different experts below {experts}")
            keys = [(-weight, expert) for weight, expert in zip(weights, ids, strict=True)]
            if keys != sorted(keys):
                raise ValueError(f"{row}: expected the largest weight first, then the lower id")
            if abs(math.fsum(weights) - total) > WEIGHT_SUM_TOLERANCE:
                raise ValueError(f"{row}: expected weights that sum to {total}")


class ExportedFile(Strict):
    """The archive, by its name in the export's folder."""

    name: str
    bytes: Count
    sha256: Sha256


class ExportedArray(Strict):
    """One array of the archive. `sha256` is over its elements, little-endian, C order."""

    name: str
    axes: str
    dtype: Literal["uint16", "int64", "float32"]
    shape: tuple[Count, ...]
    sha256: Sha256


class ExportedPrompt(Strict):
    """One sequence: rows `start` to `start + tokens` of the token axis."""

    prompt_id: str
    domain: Slug | None
    start: Count
    tokens: Positive
    route_sha256: Sha256


class RouteExport(Strict):
    """The manifest. It is written after the archive that it describes."""

    schema_: Literal["llm-atlas/route-export@1"] = Field(alias="schema")
    contract: Literal["1"] = CONTRACT_VERSION
    evidence: Evidence
    model: ModelIdentity
    artifacts: tuple[ArtifactFile, ...]
    record: ImportedRecord | None
    routing: Routing
    layers: tuple[LayerNumber, ...] = Field(min_length=1)
    weight_decimals: Count | None
    archive: ExportedFile
    arrays: tuple[ExportedArray, ...]
    prompts: tuple[ExportedPrompt, ...] = Field(min_length=1)
    docs: Docs

    @model_validator(mode="after")
    def _contiguous(self) -> RouteExport:
        start = 0
        for prompt in self.prompts:
            if prompt.start != start:
                raise ValueError(
                    f"{prompt.prompt_id}: expected start {start}, found {prompt.start}"
                )
            start += prompt.tokens
        return self
