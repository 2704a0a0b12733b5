"""Numbers in notes, bound to fields of datasets: what a reference shows and where it leads.

An alias stands for a model. Its datasets are asked in the order of evidence, so that a figure
of a source document gives way to the captured one on the day the capture is committed; it keeps
the decimals that the document printed, so that the two can be compared digit by digit. A path
that begins with `published.` stays with the document: it tells of the document's own run.

Formats: none (the point), `estimate` (point and percentile interval), `interval`, `bca`,
`token_unit` (an interval alone: its point has to be bound in the same paragraph or table row),
`bias` (signed), `plain` (digits without separators), or a kind of number of `atlas.numbers`
(`count`, `percent`, `share` …).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Protocol

from pydantic import BaseModel

from atlas.contract import Evidence, Official, RoutingCorpus, Trace
from atlas.contract.base import Interval
from atlas.contract.published import Published, PublishedFigure
from atlas.fields import Field, FieldError, field
from atlas.numbers import (
    COUNT,
    CV,
    EFFECTIVE,
    GINI,
    JACCARD,
    JSD,
    MARGIN,
    MULTIPLE,
    PERCENT,
    RATIO,
    SHARE,
    WEIGHT,
    WHOLE_PERCENT,
    Measure,
    expert_name,
)
from atlas.references import Literal, Reference, Step
from atlas.shelf import EVIDENCE_ORDER, Shelf

ALIASES = {"esft": "esft-vanilla-lite", "v2lite": "deepseek-v2-lite", "demo": "demo"}
"""Slug of the model that an alias stands for."""

INTERVALS = ("interval", "bca", "token_unit")
"""Formats that show an interval without its point."""

FORMATS: Mapping[str, Measure] = {
    "count": COUNT,
    "cv": CV,
    "effective_experts": EFFECTIVE,
    "gini": GINI,
    "jaccard": JACCARD,
    "jsd": JSD,
    "margin": MARGIN,
    "multiple": MULTIPLE,
    "percent": PERCENT,
    "ratio": RATIO,
    "share": SHARE,
    "weight": WEIGHT,
    "whole_percent": WHOLE_PERCENT,
}
"""Formats that say how a number is written."""

_CJK = 0x2E80
"""First code point of Chinese text and its punctuation."""

_SUFFIXES = {"percent": "%", "times": "×", "billion parameters": "B"}
_KINDS: Mapping[str, type[BaseModel]] = {
    "corpus": RoutingCorpus,
    "trace": Trace,
    "official": Official,
}


class BindingError(Exception):
    """A reference that cannot be shown: where it points, expected, found."""


class Places(Protocol):
    """Where links of a note lead, as written on the page that holds it; the caller's part."""

    def source(self, file: str, key: str) -> str:
        """The place of a field on the data page. `key` is the id of a printed figure, or the
        path inside the dataset."""

    def note(self, name: str, anchor: str) -> str:
        """Another note, or a place in it (empty: its top)."""

    def page(self, name: str) -> str | None:
        """A page of the site (`data`, `limits`, `model/esft-vanilla-lite`); None: unknown."""


@dataclass(frozen=True)
class Source:
    """One dataset file."""

    file: str
    evidence: Evidence
    dataset: BaseModel


@dataclass(frozen=True)
class Bound:
    """A reference as it is shown: text, kind of evidence, the file and path it comes from."""

    path: str
    format: str | None
    text: str
    evidence: Evidence
    file: str
    html: str


def sources(shelf: Shelf) -> dict[str, tuple[Source, ...]]:
    """Datasets of every alias on a shelf, real evidence first; reruns are left out."""
    found: dict[str, list[Source]] = {alias: [] for alias in ALIASES}
    for file in shelf.files:
        model = getattr(file.dataset, "model", None)
        for alias, slug in ALIASES.items():
            if model is not None and model.slug == slug and file.rerun_of is None:
                found[alias].append(Source(file.name, file.dataset.evidence, file.dataset))
    return {
        alias: tuple(sorted(held, key=lambda s: (EVIDENCE_ORDER.index(s.evidence), s.file)))
        for alias, held in found.items()
    }


@dataclass(frozen=True)
class Resolver:
    """Shows references of one language; `labels` names the kinds of evidence in it."""

    sources: Mapping[str, tuple[Source, ...]]
    places: Places
    labels: Mapping[Evidence, str]

    def bind(self, reference: Reference) -> Bound:
        """What a reference shows. Raises BindingError."""
        source, key, value = self._field(reference)
        text = _text(value, reference)
        href = self.places.source(source.file, key)
        title = f"{self.labels[source.evidence]} · {source.file} · {key}"
        html = (
            f'<a class="num" href="{escape(href)}" data-source="{escape(source.file)}" '
            f'data-evidence="{source.evidence}" title="{escape(title)}">{escape(text)}</a>'
        )
        return Bound(reference.path, reference.format, text, source.evidence, source.file, html)

    def literal(self, literal: Literal) -> str:
        """HTML of a number that is no field, with the reason beside it."""
        return f'<span class="num" title="{escape(literal.why)}">{escape(literal.text)}</span>'

    def knows(self, number: str) -> str | None:
        """A path whose point or interval reads `number`, None where no dataset has it."""
        wanted = number.replace(",", "")
        for alias in sorted(self.sources):
            for source in self.sources[alias]:
                for path, text in printed(source.dataset):
                    if wanted in _digits(text):
                        return f"{alias}.{path}"
        return None

    def has(self, alias: str, layer: int | None = None, domain: str | None = None) -> bool:
        """Whether an alias has datasets, and in one of them that layer and domain."""
        for source in self.sources.get(alias, ()):
            if layer is None and domain is None:
                return True
            published = isinstance(source.dataset, Published)
            figures = getattr(source.dataset, "figures", ()) if published else ()
            layers = {x.layer for x in getattr(source.dataset, "layers", figures)}
            domains = {d.domain for d in getattr(source.dataset, "domains", figures)}
            if (layer is None or layer in layers) and (domain is None or domain in domains):
                return True
        return False

    def _field(self, reference: Reference) -> tuple[Source, str, Field]:
        held = self.sources.get(reference.alias)
        if not held:
            known = ", ".join(sorted(a for a, s in self.sources.items() if s))
            raise BindingError(
                f"{reference.path}: expected a model with data ({known}), found {reference.alias!r}"
            )
        steps = reference.steps
        if steps[0] == Step("published"):
            held, steps = tuple(s for s in held if isinstance(s.dataset, Published)), steps[1:]
            if not held or not steps:
                raise BindingError(f"{reference.path}: expected a printed figure, found none")
        printed_figure = _figure_among(held, steps)
        problems = []
        for source in held:
            try:
                if isinstance(source.dataset, Published):
                    entry = figure(source.dataset, steps)
                    return source, entry.id, _of_figure(entry)
                value = _of_dataset(source.dataset, steps)
            except FieldError as error:
                problems.append(f"{source.file}: {error}")
                continue
            if printed_figure is not None and printed_figure.decimals is not None:
                value = _with_decimals(value, printed_figure.decimals)
            return source, ".".join(map(str, steps)), value
        raise BindingError(f"{reference.path}: {problems[-1]}")


def figure(published: Published, steps: tuple[Step, ...]) -> PublishedFigure:
    """The printed figure at a path: its id with `layer(4)` for `layer-4`.

    A path may leave out the document (`corpus.`, `trace.`) and `prompt_balanced`. Raises
    FieldError, also where two figures fit.
    """
    parts = [step.name + "".join(f"-{a}" for a in step.arguments) for step in steps]
    balanced = [*parts[:-1], "prompt_balanced", parts[-1]]
    exact = published.by_id.get(".".join(parts))
    if exact is not None:
        return exact
    names = [
        ".".join([*front, *p]) for front in ([], ["corpus"], ["trace"]) for p in (parts, balanced)
    ]
    found = [published.by_id[name] for name in names if name in published.by_id]
    if len(found) != 1:
        raise FieldError(
            f"expected the id of one printed figure, found {' and '.join(f.id for f in found)}"
            if found
            else f"expected the id of a printed figure, found {'.'.join(parts)!r}"
        )
    return found[0]


def printed(dataset: BaseModel) -> Iterator[tuple[str, str]]:
    """Path and text of every number that a note may not write without binding it."""
    if isinstance(dataset, Published):
        for entry in dataset.figures:
            value = _of_figure(entry)
            yield entry.id, _text(value, Reference("", ()))
            yield entry.id, entry.printed
            if value.percentile is not None and value.measure is not None:
                yield entry.id, value.measure.interval(value.percentile)
    elif isinstance(dataset, RoutingCorpus):
        for name in ("tokens", "selections", "selections_per_layer"):
            yield name, _text(field(dataset, (Step(name),)), Reference("", ()))
        for check in dataset.record.checks if dataset.record is not None else ():
            yield f"record.checks({check.name})", COUNT.text(check.total)
        for domain in dataset.domains:
            yield f"{domain.domain}.tokens", COUNT.text(domain.tokens)
            yield f"{domain.domain}.prompts", COUNT.text(domain.prompts)
        yield from _printed_loads(dataset)


def _printed_loads(corpus: RoutingCorpus) -> Iterator[tuple[str, str]]:
    for layer in corpus.layers:
        here = Step("layer", (str(layer.layer),))
        paths: list[tuple[Step, ...]] = [
            (here, Step(load.domain), Step(weighting), Step(name))
            for load in layer.domains
            for weighting in ("prompt_balanced", "token_weighted")
            for name in ("cv", "gini", "effective_experts", "top_share")
        ]
        paths += [
            (here, Step("jsd", (pair.first, pair.second)), Step(weighting))
            for pair in layer.divergences
            for weighting in ("prompt_balanced", "token_weighted")
        ]
        for steps in paths:
            value = field(corpus, steps)
            measure = value.measure or COUNT
            path = ".".join(map(str, steps))
            yield path, measure.text(float(value.value))
            for interval in (value.percentile, value.bca, value.token_unit):
                if interval is not None:
                    yield path, measure.interval(interval)


def _of_dataset(dataset: BaseModel, steps: tuple[Step, ...]) -> Field:
    """The field at a path that may begin with the kind of dataset: `corpus.`, `trace.`."""
    kind = _KINDS.get(steps[0].name) if not steps[0].arguments else None
    if kind is not None:
        if not isinstance(dataset, kind):
            raise FieldError(f"expected a {steps[0].name}, found a {type(dataset).__name__}")
        steps = steps[1:]
    return field(dataset, steps)


def _figure_among(held: tuple[Source, ...], steps: tuple[Step, ...]) -> PublishedFigure | None:
    for source in held:
        if isinstance(source.dataset, Published):
            try:
                return figure(source.dataset, steps)
            except FieldError:
                return None
    return None


def _of_figure(entry: PublishedFigure) -> Field:
    if entry.kind == "expert" and entry.layer is not None:
        return Field(expert_name(entry.layer, int(str(entry.value))))
    if isinstance(entry.value, bool):
        return Field("true" if entry.value else "false")
    if isinstance(entry.value, int | float):
        measure = Measure(entry.decimals or 0, suffix=_SUFFIXES.get(entry.unit or "", ""))
        interval = entry.interval
        ends = Interval(low=interval.low, high=interval.high) if interval is not None else None
        return Field(entry.value, measure, ends)
    if isinstance(entry.value, str):
        # words of a document stay in its language; what both languages read is kept as printed
        own = entry.kind == "words" and any(ord(c) >= _CJK for c in entry.printed)
        return Field(entry.value if own else entry.printed)
    if "–" in entry.printed and len(entry.value) > 1:
        return Field(f"{entry.value[0]}–{entry.value[-1]}")
    shown = ", ".join(map(str, entry.value))
    return Field(f"[{shown}]" if entry.kind == "integers" else shown)


def _with_decimals(value: Field, decimals: int) -> Field:
    if value.measure is None or value.measure is COUNT:
        return value
    return replace(value, measure=replace(value.measure, decimals=decimals))


def _text(value: Field, reference: Reference) -> str:
    form = reference.format
    if isinstance(value.value, str):
        if form is not None:
            raise BindingError(f"{reference.path}: expected no format of a text, found {form!r}")
        return value.value
    measure = FORMATS.get(form or "", value.measure)
    if measure is None:
        raise BindingError(f"{reference.path}: expected a format such as `| count`, found none")
    if form == "plain":
        return measure.bare(value.value)
    if form is None or form in FORMATS:
        return measure.text(value.value)
    if form == "bias" and value.bias is not None:
        return measure.signed(value.bias)
    intervals = {
        "estimate": value.percentile,
        "interval": value.percentile,
        "bca": value.bca,
        "token_unit": value.token_unit,
    }
    if form not in intervals and form != "bias":
        known = ", ".join(sorted([*FORMATS, *intervals, "bias", "plain"]))
        raise BindingError(f"{reference.path}: expected one of {known}, found {form!r}")
    interval = intervals.get(form)
    if interval is None:
        raise BindingError(f"{reference.path}: expected a field with {form}, found none there")
    shown = measure.interval(interval)
    return f"{measure.text(value.value)} {shown}" if form == "estimate" else shown


def _digits(text: str) -> set[str]:
    """The numbers of a text, thousands joined, percent sign kept."""
    plain = "".join(c if c.isdigit() or c in ".%" else " " for c in text.replace(",", ""))
    return set(plain.split())
