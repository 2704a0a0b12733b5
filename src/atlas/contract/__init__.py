"""The data contract: one pydantic model per kind of file under src/data.

`read(path)` gives the typed dataset; `SCHEMAS` maps the `schema` field to its model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from atlas.canonical import parse_json
from atlas.contract.base import CONTRACT_VERSION as CONTRACT_VERSION
from atlas.contract.base import Evidence as Evidence
from atlas.contract.base import Strict as Strict
from atlas.contract.comparison import Comparison as Comparison
from atlas.contract.corpus import RoutingCorpus as RoutingCorpus
from atlas.contract.official import Official as Official
from atlas.contract.published import Published as Published
from atlas.contract.routes import Routes as Routes
from atlas.contract.selection import CorpusSelection as CorpusSelection
from atlas.contract.trace import Trace as Trace
from atlas.contract.verification import Verification as Verification

Dataset = (
    Trace
    | Comparison
    | RoutingCorpus
    | Routes
    | CorpusSelection
    | Published
    | Official
    | Verification
)

SCHEMAS: dict[
    str,
    type[Trace]
    | type[Comparison]
    | type[RoutingCorpus]
    | type[Routes]
    | type[CorpusSelection]
    | type[Published]
    | type[Official]
    | type[Verification],
] = {
    "llm-atlas/trace@1": Trace,
    "llm-atlas/comparison@1": Comparison,
    "llm-atlas/routing-corpus@1": RoutingCorpus,
    "llm-atlas/routes@1": Routes,
    "llm-atlas/selection@1": CorpusSelection,
    "llm-atlas/published@1": Published,
    "llm-atlas/official@1": Official,
    "llm-atlas/verification@1": Verification,
}


class ContractError(Exception):
    """A dataset that breaks the contract; one line with file, field, expected and found."""

    def __init__(self, text: str) -> None:
        # keys and values of a file are data: control characters must not reach a terminal
        super().__init__("".join(c if c.isprintable() else "?" for c in text)[:1000])


def parse(data: bytes, name: str) -> Dataset:
    """Typed dataset from the bytes of a file called `name`. Raises ContractError."""
    try:
        raw = parse_json(data)
    except ValueError as error:
        raise ContractError(f"{name}: expected JSON: {error}") from error
    schema = raw.get("schema") if isinstance(raw, dict) else None
    model = SCHEMAS.get(schema) if isinstance(schema, str) else None
    if model is None:
        raise ContractError(
            f"{name}: schema: expected one of {', '.join(SCHEMAS)}, found {str(schema)[:80]!r}"
        )
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "file"
        more = error.error_count() - 1
        tail = f" (and {more} more)" if more else ""
        raise ContractError(f"{name}: {place}: {first['msg'][:500]}{tail}") from error


def read(path: Path) -> Dataset:
    """Typed dataset of a file. Raises ContractError, naming the file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ContractError(f"{path.name}: cannot be read: {error.strerror}") from error
    return parse(data, path.name)


def json_schema(model: type[Strict]) -> dict[str, Any]:
    """JSON Schema of a file kind, as the site offers it."""
    return model.model_json_schema(by_alias=True)
