"""Every committed file: kind, bytes, hash, licence, evidence, how to make and check it."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.contract import SCHEMAS, Comparison, Routes, RoutingCorpus, Trace
from atlas.numbers import COUNT
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
    )
    return Page(path, "data.html.j2", writer.lang, context)


def _row(writer: Writer, file: SourceFile, path: str) -> DataRow:
    t, dataset = writer.t, file.dataset
    if isinstance(dataset, Comparison):
        model, licence = "–", "–"
    else:
        model, licence = dataset.model.title, _licence(dataset)
    return DataRow(
        name=file.name,
        href=URLS.link(path, URLS.dataset(file.name)),
        model=model,
        schema=Link(URLS.link(path, URLS.schema(schema_kind(dataset.schema_))), dataset.schema_),
        evidence=dataset.evidence,
        evidence_name=t(f"evidence.{dataset.evidence}"),
        bytes=COUNT.text(file.bytes),
        sha256=file.sha256,
        licence=licence,
        command=_command(file),
        note=t("data.rerun", name=file.rerun_of) if file.rerun_of is not None else "",
    )


def _licence(dataset: Trace | RoutingCorpus | Routes) -> str:
    record = getattr(dataset, "record", None)
    return record.licence if record is not None else dataset.model.licence


def _command(file: SourceFile) -> str:
    """The command that makes the file again, given what it was made from."""
    dataset, output = file.dataset, f"src/data/{file.name}"
    if dataset.evidence == "demo":
        return "make demo"
    if isinstance(dataset, Comparison):
        return f"python -m capture compare --first A.json --second B.json --output {output}"
    if dataset.evidence == "imported":
        return f"python -m capture import esft --scores-dir DIR --output {output}"
    if isinstance(dataset, Trace):
        return f"python -m capture trace --artifact-dir DIR --output {output}"
    return f"python -m capture corpus --artifact-dir DIR --output {output}"
