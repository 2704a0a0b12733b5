"""`llm-atlas/published@1`: figures printed in a source document, kept as they are printed.

Nothing here was run again. A figure keeps its characters (`printed`), its value, and where it
stands; where a document contradicts itself or arithmetic, the printed figure stays and a note
says so.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from atlas.contract.base import (
    CONTRACT_VERSION,
    Bilingual,
    Count,
    Evidence,
    ExpertId,
    LayerNumber,
    Sha256,
    Slug,
    Strict,
)
from atlas.contract.corpus import Weighting
from atlas.contract.identity import ModelIdentity

FigureId = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]+(?:[-_.][a-z0-9]+)*$", max_length=120),
]
Section = Annotated[str, StringConstraints(pattern=r"^(?:front|[0-9]+(?:\.[0-9]+)?)$")]
DocumentId = Literal["trace", "corpus"]
Kind = Literal["integer", "number", "expert", "integers", "text", "words", "boolean"]
"""integer, number: one numeral. expert: an expert id of `layer`. integers: a shape, or a range
printed by its ends. text: characters that are the value. words: a statement in the document's
language, `value` being its form here. boolean: yes or no, however it is put."""

Unit = Literal[
    "billion parameters",
    "bytes",
    "candidates",
    "dimensions",
    "elements",
    "experts",
    "GiB",
    "heads",
    "layers",
    "MiB",
    "nats",
    "percent",
    "prompts",
    "replicates",
    "selections",
    "times",
    "tokens",
]

Input = Literal[
    "artifacts",
    "clock",
    "corpora",
    "document",
    "environment",
    "file_format",
    "prompt_texts",
    "random_stream",
    "settings",
    "source_ids",
    "tokenizer",
    "weights",
]
"""What a figure depends on. artifacts: the model's files other than weights. settings: chosen
by whoever runs. file_format: bytes of a file of the documents' own project. document: said
there, made elsewhere."""

UNPUBLISHED: tuple[Input, ...] = ("prompt_texts", "source_ids", "random_stream")
"""Inputs that the documents do not give: the texts of the four trace prompts; how a domain and
a source_id are spelled, whose hash orders the candidates; the generator behind the bootstrap.
A figure that depends on one may rightly come out otherwise."""

_NUMERAL = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")


class SourceDocument(Strict):
    """A document by its name in its own project; `sha256` is of the text that was read."""

    document: DocumentId
    name: str
    title: Bilingual
    date: str
    language: Literal["zh"]
    sha256: Sha256
    note: Bilingual | None


class Quantity(Strict):
    """What a figure measures. Figures with the same quantity may be compared within a layer."""

    quantity: Slug
    title: Bilingual


class PrintedInterval(Strict):
    """A 95 % percentile interval as printed, with the digits of its figure."""

    low: float
    high: float
    printed_low: str
    printed_high: str


class PublishedFigure(Strict):
    """One figure. `expert` with a count or share is the expert that it is of; `pair` are the
    domains that a divergence compares. Every expert id has its layer."""

    id: FigureId
    quantity: Slug
    kind: Kind
    value: bool | int | float | str | tuple[int, ...] | tuple[str, ...]
    printed: Annotated[str, StringConstraints(min_length=1)]
    decimals: Count | None
    unit: Unit | None
    interval: PrintedInterval | None
    layer: LayerNumber | None
    domain: Slug | None
    prompt: Slug | None
    pair: tuple[Slug, Slug] | None
    expert: ExpertId | None
    weighting: Weighting | None
    document: DocumentId
    section: Section
    also_in: tuple[Section, ...] = Field(description="other sections that print it too")
    depends_on: tuple[Input, ...] = Field(min_length=1)
    note: Bilingual | None

    @property
    def unpublished_inputs(self) -> tuple[Input, ...]:
        """Inputs of this figure that the documents do not give; see UNPUBLISHED."""
        return tuple(name for name in UNPUBLISHED if name in self.depends_on)

    def text(self, value: float) -> str:
        """`value`, in the figure's unit, with the figure's printed decimals: 0.910."""
        digits = f"{value:.{self.decimals or 0}f}"
        return digits.removeprefix("-") if float(digits) == 0 else digits

    @model_validator(mode="after")
    def _as_printed(self) -> PublishedFigure:
        numerals = [n.replace(",", "") for n in _NUMERAL.findall(self.printed)]
        if self.kind in ("integer", "number", "expert"):
            wanted = float if self.kind == "number" else int
            if type(self.value) is not wanted or (self.decimals is not None) != (wanted is float):
                raise ValueError(f"{self.id}: expected a value and decimals of kind {self.kind}")
            if numerals != [self.text(float(self.value))]:
                raise ValueError(
                    f"{self.id}: expected the value as printed in {self.printed!r}, "
                    f"found {self.value!r} with {self.decimals} decimals"
                )
        elif self.decimals is not None or self.interval is not None:
            raise ValueError(f"{self.id}: decimals and interval: expected null of a {self.kind}")
        elif self.kind == "integers":
            self._check_integers([int(n) for n in numerals if "." not in n])
        elif self.kind == "text" and self.value != self.printed:
            raise ValueError(f"{self.id}: expected the text as printed, found {self.value!r}")
        elif (self.kind == "boolean") != (type(self.value) is bool):
            raise ValueError(f"{self.id}: expected true or false of a boolean, and only of one")
        return self

    def _check_integers(self, numerals: list[int]) -> None:
        value = list(self.value) if isinstance(self.value, tuple) else []
        ends = len(numerals) == 2 and value == list(range(numerals[0], numerals[1] + 1))
        if not value or not (value == numerals or ends):
            raise ValueError(f"{self.id}: expected the numbers of {self.printed!r}, found {value}")

    @model_validator(mode="after")
    def _placed(self) -> PublishedFigure:
        if self.layer is None and (self.kind == "expert" or self.expert is not None):
            raise ValueError(f"{self.id}: expected an expert id with its layer")
        for name in ("also_in", "depends_on"):
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise ValueError(f"{self.id}: {name}: expected no entry twice")
        if self.interval is not None:
            ends = (
                (self.interval.low, self.interval.printed_low),
                (self.interval.high, self.interval.printed_high),
            )
            for end, printed in ends:
                if _NUMERAL.findall(printed) != [self.text(end)]:
                    raise ValueError(
                        f"{self.id}: interval: expected {printed!r} as printed, found {end}"
                    )
            inside = self.interval.low <= float(str(self.value)) <= self.interval.high
            if not inside and self.note is None:
                raise ValueError(f"{self.id}: expected an interval that holds its point, or a note")
        return self


class Published(Strict):
    """The file: figures in the order of their documents."""

    schema_: Literal["llm-atlas/published@1"] = Field(alias="schema")
    contract: Literal["1"] = CONTRACT_VERSION
    evidence: Evidence
    model: ModelIdentity
    documents: tuple[SourceDocument, ...] = Field(min_length=1)
    quantities: tuple[Quantity, ...] = Field(min_length=1)
    figures: tuple[PublishedFigure, ...] = Field(min_length=1)

    @cached_property
    def by_id(self) -> dict[str, PublishedFigure]:
        """Figures by their id."""
        return {figure.id: figure for figure in self.figures}

    @model_validator(mode="after")
    def _whole(self) -> Published:
        if self.evidence != "published":
            raise ValueError(f"evidence: expected published, found {self.evidence}")
        names: list[str] = [document.document for document in self.documents]
        quantities = [q.quantity for q in self.quantities]
        ids = [figure.id for figure in self.figures]
        for what, keys in (("documents", names), ("quantities", quantities), ("figures", ids)):
            twice = sorted({key for key in keys if keys.count(key) > 1})
            if twice:
                raise ValueError(f"{what}: expected no entry twice, found {twice[0]}")
        for figure in self.figures:
            if figure.document not in names:
                raise ValueError(f"{figure.id}: document: expected one of {names}")
        used = {figure.quantity for figure in self.figures}
        if used != set(quantities):
            strangers = sorted(used ^ set(quantities))
            raise ValueError(f"quantities: expected those of the figures, found {strangers[0]}")
        return self
