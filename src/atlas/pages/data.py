"""Every committed file: kind, bytes, hash, licence, evidence, how to make and check it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atlas.contract import SCHEMAS
from atlas.croissant import licence_of
from atlas.numbers import COUNT
from atlas.pages.datacard import card_links
from atlas.pages.frame import Frame, Link, Page, Writer
from atlas.shelf import SourceFile
from atlas.urls import URLS


@dataclass(frozen=True)
class DataRow:
    """One file of src/data."""

    name: str
    href: str
    model: str
    schema: Link
    evidence: str
    evidence_name: str
    bytes: str
    sha256: str
    licence: str
    command: str
    note: str


@dataclass(frozen=True)
class DataContext:
    """Context of data.html.j2."""

    frame: Frame
    headline: str
    lead: str
    rows: tuple[DataRow, ...]
    schemas: tuple[Link, ...]
    cards: tuple[Link, ...]
    tables: tuple[Link, ...]


def schema_kind(schema: str) -> str:
    """`trace@1` of `llm-atlas/trace@1`."""
    return schema.rpartition("/")[2]


def data_page(writer: Writer) -> Page:
    """The data page of the writer's language."""
    t = writer.t
    path = URLS.data(writer.lang)
    context = DataContext(
        frame=writer.frame(path, t("data.title"), t("data.lead")),
        headline=t("data.title"),
        lead=t("data.lead"),
        rows=tuple(_row(writer, file, path) for file in writer.shelf.files),
        schemas=tuple(
            Link(URLS.link(path, URLS.schema(schema_kind(s))), s) for s in sorted(SCHEMAS)
        ),
        cards=card_links(writer, path),
        tables=tuple(_tables(writer, path)),
    )
    return Page(path, "data.html.j2", writer.lang, context)


def _tables(writer: Writer, path: str) -> Iterator[Link]:
    """The tables that hold a whole corpus each."""
    for model in writer.shelf.models:
        if model.corpus is None:
            continue
        title = model.identity.title
        metrics = URLS.link(path, URLS.metrics_csv(model.slug))
        yield Link(metrics, writer.t("data.table_metrics", model=title))
        if len(model.corpus.corpus.domains) > 1:
            divergences = URLS.link(path, URLS.divergences_csv(model.slug))
            yield Link(divergences, writer.t("data.table_divergences", model=title))


def _row(writer: Writer, file: SourceFile, path: str) -> DataRow:
    t, dataset = writer.t, file.dataset
    model = getattr(dataset, "model", None)
    return DataRow(
        name=file.name,
        href=URLS.link(path, URLS.dataset(file.name)),
        model=model.title if model is not None else "–",
        schema=Link(URLS.link(path, URLS.schema(schema_kind(dataset.schema_))), dataset.schema_),
        evidence=dataset.evidence,
        evidence_name=t(f"evidence.{dataset.evidence}"),
        bytes=COUNT.text(file.bytes),
        sha256=file.sha256,
        licence=licence_of(file) or "–",
        command=_command(file),
        note=t("data.rerun", name=file.rerun_of) if file.rerun_of is not None else "",
    )


def _command(file: SourceFile) -> str:
    """The command that makes the file again, given what it was made from; empty for figures
    that were copied from a document."""
    dataset, output = file.dataset, f"src/data/{file.name}"
    kind = schema_kind(dataset.schema_)
    if dataset.evidence == "demo":
        return "make demo"
    if dataset.evidence == "imported":
        option = "--routes-output" if kind == "routes@1" else "--output"
        return f"python -m capture import esft --scores-dir DIR … {option} {output}"
    command = _COMMANDS.get(kind)
    return f"python -m capture {command} --output {output}" if command else ""


_COMMANDS = {
    "trace@1": "trace --artifact-dir DIR",
    "comparison@1": "compare --first A --second B",
    "routing-corpus@1": "corpus --artifact-dir DIR",
    "selection@1": "corpus --select-only --artifact-dir DIR",
    "official@1": "inspect --artifact-dir DIR --tokenizer FILE --human-eval FILE --gsm8k FILE",
    "verification@1": "verify --data FILE --against FILE",
}
