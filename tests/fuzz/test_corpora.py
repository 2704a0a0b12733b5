"""Damaged corpora, as --allow-unpinned-corpus would read them."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from capture.corpus import sources
from capture.errors import Refusal
from tests.fuzz.conftest import MUTATIONS, bounded
from tests.fuzz.mutations import damaged, damaged_json

pytestmark = pytest.mark.fuzz
TEXTS = ("a first text of the corpus", "", "= heading =", "第二个文本", 'quoted "text"')


def json_lines(field: str, **more: Any) -> bytes:
    rows = [{field: text, "task_id": f"HumanEval/{i}", **more} for i, text in enumerate(TEXTS)]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": list(TEXTS) * 4}), sink)
    return sink.getvalue()


def archive(member: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as file:
        file.writestr("test.json", member)
    return sink.getvalue()


SEEDS: dict[str, bytes] = {
    "human_eval": json_lines("prompt"),
    "human_eval_gz": gzip.compress(json_lines("prompt"), mtime=0),
    "gsm8k": json_lines("question", answer="4"),
    "tnews": json_lines("sentence", id=3),
    "wikitext": parquet(),
    "wikitext_txt": "\n".join(TEXTS).encode(),
}
NAMES = {"wikitext": "validation.parquet", "wikitext_txt": "valid.txt"}


@pytest.mark.parametrize("kind", sorted(SEEDS))
def test_a_damaged_corpus_is_read_or_refused(
    kind: str, tmp_path: Path, guarded: Callable[..., Any]
) -> None:
    path = tmp_path / NAMES.get(kind, "corpus.jsonl")
    reader: Any = getattr(sources, kind.removesuffix("_gz").removesuffix("_txt"))

    def run() -> None:
        try:
            texts = list(reader(path, allow_unpinned=True).texts())
        except Refusal:
            return
        assert all(t.text.strip() for t in texts)

    lines = [json.loads(x) for x in SEEDS["gsm8k"].splitlines()]
    files = damaged([SEEDS[kind]])
    if kind == "gsm8k":
        files |= damaged_json(lines)

    @settings(bounded("corpora"), max_examples=MUTATIONS["corpora"] // 6 - 25)
    @given(files)
    def check(data: bytes) -> None:
        path.write_bytes(data)
        guarded(run)

    check()


def test_a_damaged_archive_is_refused(tmp_path: Path, guarded: Callable[..., Any]) -> None:
    corpus = tmp_path / "test.json"
    corpus.write_bytes(SEEDS["tnews"])
    path = tmp_path / "tnews_public.zip"

    def run() -> None:
        try:
            sources.tnews(corpus, path, allow_unpinned=True)
        except Refusal:
            return

    @settings(bounded("corpora"), max_examples=150)
    @given(damaged([archive(SEEDS["tnews"])]))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        guarded(run)

    check()
