"""The data folder described for machines: MLCommons Croissant 1.0, as JSON-LD.

Every dataset, JSON Schema and table of `data/` that the site offers as a whole is a file with
size and SHA-256; the two tables of a corpus are record sets, so that a Croissant reader can load
them row by row. Nothing is dated: the same data is the same description. Locations are relative
to the description's own folder.

Source: Croissant Format Specification 1.0, conformance http://mlcommons.org/croissant/1.0.
"""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from atlas import VERSION
from atlas.canonical import canonical_json
from atlas.shelf import Shelf, SourceFile
from atlas.urls import URLS

CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
LICENCE = "https://spdx.org/licenses/MIT.html"
NAME = "llm-atlas"
TITLE = "LLM Atlas: routed experts of mixture-of-experts models, layer by layer"
DESCRIPTION = (
    "How a mixture-of-experts router spreads tokens over its experts, layer by layer and per "
    "text domain, with 95 % intervals over prompts and the kind of evidence of every file. "
    "Expert ids have no meaning beyond their layer; intervals describe resampling of prompts "
    "and are no tests."
)
CITATION = (
    f"@misc{{llm-atlas, title = {{{TITLE}}}, author = {{{{llm-atlas contributors}}}}, "
    f"version = {{{VERSION}}}, "
    "note = {Name each data file that was used with its SHA-256}}"
)

INTEGERS = ("layer",)
WORDS = ("domain", "weighting", "first", "second")
"""Columns of the tables that are no decimal numbers."""

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""Terms as the specification's own context spells them, the few that are used here among them."""


def croissant(shelf: Shelf, files: Mapping[str, bytes]) -> bytes:
    """The description of `files` (path inside the site to bytes), canonical JSON."""
    tables = list(_tables(shelf, files))
    schemas = sorted(name for name in files if name.startswith(f"{URLS.schema_folder}/"))
    distribution = [_dataset(file) for file in shelf.files]
    distribution += [
        _file(name, files[name], _type(name), text)
        for name, text in [
            *((name, description) for name, description, _ in tables),
            *((name, "JSON Schema of one kind of file.") for name in schemas),
        ]
    ]
    return canonical_json(
        {
            "@context": CONTEXT,
            "@type": "sc:Dataset",
            "conformsTo": CONFORMS_TO,
            "name": NAME,
            "alternateName": TITLE,
            "description": DESCRIPTION,
            "version": VERSION,
            "license": LICENCE,
            "citeAs": CITATION,
            "creator": {"@type": "sc:Organization", "name": "llm-atlas contributors"},
            "inLanguage": ["en", "zh"],
            "isLiveDataset": False,
            "keywords": ["mixture of experts", "expert routing", "DeepSeek-V2", "reproducibility"],
            "distribution": distribution,
            "recordSet": [_records(name, title, files[name]) for name, title, _ in tables],
        }
    )


def licence_of(file: SourceFile) -> str | None:
    """Licence of what a dataset was computed from: of the imported record, else of the model's
    files; None for a kind that names neither."""
    owner = getattr(file.dataset, "record", None) or getattr(file.dataset, "model", None)
    return owner.licence if owner is not None else None


def _tables(shelf: Shelf, files: Mapping[str, bytes]) -> Iterator[tuple[str, str, str]]:
    """Path, description and model of the tables that hold a whole corpus."""
    for model in shelf.models:
        if model.corpus is None:
            continue
        held = f"{model.identity.title} ({model.corpus.corpus.evidence})"
        for name, text in (
            (URLS.metrics_csv(model.slug), "metrics of every layer, domain and weighting"),
            (URLS.divergences_csv(model.slug), "Jensen-Shannon divergence of two domains, nats"),
        ):
            if name in files:
                yield name, f"{held}: {text}; 95 % percentile intervals.", model.slug


def _dataset(file: SourceFile) -> dict[str, Any]:
    licence = licence_of(file)
    parts = [f"{file.dataset.schema_}; evidence: {file.dataset.evidence}."]
    if licence is not None:
        parts.append(f"Licence of what it was computed from: {licence}.")
    if file.rerun_of is not None:
        parts.append(f"An independent rerun, equal to {file.rerun_of} byte for byte.")
    return _described(
        URLS.dataset(file.name), file.bytes, file.sha256, "application/json", " ".join(parts)
    )


def _file(name: str, data: bytes, kind: str, description: str) -> dict[str, Any]:
    return _described(name, len(data), sha256(data).hexdigest(), kind, description)


def _described(name: str, size: int, digest: str, kind: str, description: str) -> dict[str, Any]:
    local = _local(name)
    return {
        "@type": "cr:FileObject",
        "@id": local,
        "name": local,
        "description": description,
        "contentUrl": local,
        "contentSize": f"{size} B",
        "encodingFormat": kind,
        "sha256": digest,
    }


def _local(name: str) -> str:
    """A file as its folder has it: a reader opens it by this name, so nothing is escaped."""
    return posixpath.relpath(name, posixpath.dirname(URLS.croissant))


def _type(name: str) -> str:
    return "text/csv" if name.endswith(".csv") else "application/schema+json"


def _records(name: str, description: str, data: bytes) -> dict[str, Any]:
    """A record set with a field per column of a CSV."""
    local = _local(name)
    records = local.removesuffix(".csv")
    head = next(csv.reader(io.StringIO(data.decode("utf-8"))))
    return {
        "@type": "cr:RecordSet",
        "@id": records,
        "name": records,
        "description": description,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{records}/{column}",
                "name": f"{records}/{column}",
                "description": column.replace("_", " "),
                "dataType": _data_type(column),
                "source": {"fileObject": {"@id": local}, "extract": {"column": column}},
            }
            for column in head
        ],
    }


def _data_type(column: str) -> str:
    if column in INTEGERS:
        return "sc:Integer"
    return "sc:Text" if column in WORDS else "sc:Float"
