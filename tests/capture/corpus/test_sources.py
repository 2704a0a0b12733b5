"""Readers: only (source_id, text) comes out, pinned or said not to be."""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from capture.corpus import records, sources
from capture.corpus.pins import FilePin, SourcePin, check_file, source_pins
from capture.errors import Refusal

Write = Callable[[str, bytes], Path]
POISON = "POISON-5e1f"


def json_lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def pin_as(monkeypatch: pytest.MonkeyPatch, key: str, **files: str) -> None:
    """Pin the files of a source to the given SHA-256."""
    pins = dict(source_pins())
    pinned = {role: FilePin(name=role, bytes=None, sha256=h) for role, h in files.items()}
    pins[key] = pins[key].model_copy(update={"files": pinned})
    monkeypatch.setattr(sources, "source_pins", lambda: pins)


def parquet(path: Path, columns: dict[str, list[object]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="install pyarrow to run this")
    from pyarrow import parquet as pq

    pq.write_table(pyarrow.table(columns), path)
    return path


READERS = {
    "human_eval": (
        lambda path: sources.human_eval(path, allow_unpinned=True),
        {"task_id": "HumanEval/7", "prompt": "def f():"},
        {"canonical_solution": POISON, "test": POISON, "entry_point": POISON, POISON: POISON},
        ("HumanEval/7", "def f():"),
    ),
    "gsm8k": (
        lambda path: sources.gsm8k(path, allow_unpinned=True),
        {"question": "How many?"},
        {"answer": POISON, POISON: {"question": POISON}},
        ("gsm8k/test/0", "How many?"),
    ),
    "tnews": (
        lambda path: sources.tnews(path, allow_unpinned=True),
        {"id": 41, "sentence": "新闻"},
        {"label": POISON, "label_desc": POISON, "keywords": POISON, POISON: [POISON]},
        ("tnews/test/41", "新闻"),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_no_other_field_leaves_a_reader(name: str, write: Write) -> None:
    read, kept, poisoned, expected = READERS[name]
    reading = read(write(f"{name}.jsonl", json_lines({**poisoned, **kept})))
    assert [tuple(x) for x in reading.texts()] == [expected]
    assert POISON not in repr(reading) + repr(list(reading.texts())) + repr(reading.source)


@pytest.mark.parametrize("name", READERS)
def test_a_refused_record_is_named_without_its_content(name: str, write: Write) -> None:
    read, kept, poisoned, _ = READERS[name]
    field = "task_id" if name == "human_eval" else next(k for k in kept if k != "id")
    broken = {**kept, **poisoned, field: {POISON: POISON}}
    reading = read(write("data.jsonl", json_lines(kept | {"id": 1}, broken)))
    with pytest.raises(Refusal) as refused:
        list(reading.texts())
    assert str(refused.value) == (
        f"data.jsonl: line 2: field {field!r}: expected a string, found an object"
    )


def test_other_columns_of_a_parquet_file_are_not_read(tmp_path: Path) -> None:
    path = parquet(tmp_path / "v.parquet", {"label": [POISON], "text": [" A text . \n"]})
    reading = sources.wikitext(path, allow_unpinned=True)
    assert [tuple(x) for x in reading.texts()] == [("wikitext-2-raw/validation/0", "A text .")]
    assert POISON not in repr(reading) + repr(list(reading.texts()))


def test_wikitext_drops_empty_rows_and_headings_but_counts_them(tmp_path: Path) -> None:
    rows: list[object] = [
        "",
        " = Title = \n",
        " First . \n",
        "   \n",
        " = = Part = = \n",
        "a = b",
        "= a",
        "a =",
    ]
    path = parquet(tmp_path / "v.parquet", {"text": rows})
    found = [tuple(x) for x in sources.wikitext(path, allow_unpinned=True).texts()]
    assert found == [
        ("wikitext-2-raw/validation/2", "First ."),
        ("wikitext-2-raw/validation/5", "a = b"),
        ("wikitext-2-raw/validation/6", "= a"),
        ("wikitext-2-raw/validation/7", "a ="),
    ]


def test_the_line_edition_has_the_same_rows_under_its_own_ids(write: Write) -> None:
    data = " \n = Title = \r\n A <unk> line\u2028with a separator . \r\n \n Last .".encode()
    found = [tuple(x) for x in sources.wikitext(write("v.txt", data), allow_unpinned=True).texts()]
    assert found == [
        ("wikitext-2/validation/2", "A <unk> line\u2028with a separator ."),
        ("wikitext-2/validation/4", "Last ."),
    ]


def test_the_line_edition_is_never_the_pinned_file(write: Write) -> None:
    path = write("valid.txt", b" A line . \n")
    found = sha256(b" A line . \n").hexdigest()
    with pytest.raises(Refusal) as refused:
        sources.wikitext(path)
    assert str(refused.value).startswith("valid.txt: not the pinned corpus file")
    assert found in str(refused.value)
    assert source_pins()["wikitext"].files["corpus"].sha256 in str(refused.value)
    reading = sources.wikitext(path, allow_unpinned=True)
    assert reading.notes == (f"valid.txt: not the pinned wikitext file, SHA-256 {found}",)
    assert reading.source.name == "WikiText-2 validation, line edition"
    assert reading.source.revision == "unknown: not the pinned file"
    assert [f.pinned for f in reading.source.files] == [False]


def test_a_pinned_file_is_read_without_a_flag_and_says_so(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json_lines({"question": "How many?"})
    pin_as(monkeypatch, "gsm8k", corpus=sha256(data).hexdigest())
    reading = sources.gsm8k(write("test.jsonl", data))
    assert reading.notes == ()
    assert reading.source.revision == "3101c7d5072418e28b9008a6636bde82a006892c"
    (file,) = reading.source.files
    assert (file.name, file.role, file.bytes) == ("test.jsonl", "corpus", len(data))
    assert (file.sha256, file.pinned) == (sha256(data).hexdigest(), True)


def test_an_abbreviated_pin_compares_both_ends_and_records_the_whole_hash(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json_lines({"id": 0, "sentence": "新闻"})
    found = sha256(data).hexdigest()
    pin_as(monkeypatch, "tnews", corpus=f"{found[:8]}…{found[-5:]}")
    reading = sources.tnews(write("test.json", data))
    assert [f.sha256 for f in reading.source.files] == [found]
    assert reading.source.revision == "9e61ddd…55a2e (abbreviated when published)"
    other = "0" if found[-1] != "0" else "1"
    pin_as(monkeypatch, "tnews", corpus=f"{found[:8]}…{found[-5:-1]}{other}")
    with pytest.raises(Refusal, match="not the pinned corpus file"):
        sources.tnews(write("test.json", data))


def test_a_file_that_changes_after_its_check_is_refused(write: Write) -> None:
    path = write("test.jsonl", json_lines({"question": "One?"}))
    reading = sources.gsm8k(path, allow_unpinned=True)
    write("test.jsonl", json_lines({"question": "Two?"}))
    with pytest.raises(Refusal, match=r"^test\.jsonl: file changed while it was in use"):
        list(reading.texts())


def archive_of(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/").replace("_json", ".json"), data)
    return path


def test_the_archive_must_hold_the_given_test_json(tmp_path: Path, write: Write) -> None:
    data = json_lines({"id": 0, "sentence": "新闻"})
    path = write("test.json", data)
    good = archive_of(tmp_path / "good.zip", tnews__test_json=data, tnews__dev_json=b"x")
    reading = sources.tnews(path, good, allow_unpinned=True)
    assert [f.name for f in reading.source.files] == ["test.json", "good.zip"]
    assert len(reading.notes) == 2
    other = archive_of(tmp_path / "other.zip", test_json=data + b"\n")
    with pytest.raises(Refusal, match=r"^other\.zip: test\.json: differs from the given"):
        sources.tnews(path, other, allow_unpinned=True)
    with pytest.raises(Refusal, match=r"^good\.zip: not the pinned corpus file"):
        check_file(good, source_pins()["tnews"].files["archive"])


@pytest.mark.parametrize("members", [{}, {"a__test_json": b"x", "b__test_json": b"x"}])
def test_an_archive_with_no_or_two_test_json_is_refused(
    members: dict[str, bytes], tmp_path: Path, write: Write
) -> None:
    path = write("test.json", b"x")
    archive = archive_of(tmp_path / "a.zip", **members)
    with pytest.raises(Refusal) as refused:
        sources.tnews(path, archive, allow_unpinned=True)
    assert str(refused.value) == (f"a.zip: test.json: expected one such file, found {len(members)}")


def test_bytes_that_are_no_archive_are_refused(write: Write) -> None:
    with pytest.raises(Refusal, match=r"^a\.zip: not a zip archive"):
        sources.tnews(write("test.json", b"x"), write("a.zip", b"PK\3\4no"), allow_unpinned=True)


def test_tnews_counts_lines_where_records_have_no_id(write: Write) -> None:
    data = json_lines({"sentence": "一"}) + b"\r\n" + json_lines({"sentence": "二"})
    found = [tuple(x) for x in sources.tnews(write("t.json", data), allow_unpinned=True).texts()]
    assert found == [("tnews/test/0", "一"), ("tnews/test/2", "二")]


@pytest.mark.parametrize("own", [-1, True, 1.5, None, "1\n2", "", "٣", [1]])
def test_an_id_that_is_no_number_is_refused(own: object, write: Write) -> None:
    path = write("t.json", json_lines({"id": own, "sentence": "一"}))
    with pytest.raises(Refusal, match=r"^t\.json: line 1: field 'id': expected a number"):
        list(sources.tnews(path, allow_unpinned=True).texts())


@pytest.mark.parametrize("own", ["", "a\nb", "x" * 201, "a\u202eb"])
def test_a_task_id_that_cannot_be_printed_is_refused(own: str, write: Write) -> None:
    path = write("h.jsonl", json_lines({"task_id": own, "prompt": "def f():"}))
    with pytest.raises(Refusal, match=r"^h\.jsonl: line 1: field 'task_id'"):
        list(sources.human_eval(path, allow_unpinned=True).texts())


def test_blank_texts_are_no_candidates_and_do_not_shift_ids(write: Write) -> None:
    path = write("g.jsonl", json_lines({"question": ""}, {"question": " \n"}, {"question": "x"}))
    found = [tuple(x) for x in sources.gsm8k(path, allow_unpinned=True).texts()]
    assert found == [("gsm8k/test/2", "x")]


def test_text_is_handed_on_as_it_stands(write: Write) -> None:
    text = '<script>alert(1)</script>\r\n\tdef f():\r\n    "\u202e\x00é"  '
    path = write("h.jsonl.gz", json_lines({"task_id": "HumanEval/0", "prompt": text}))
    (found,) = sources.human_eval(path, allow_unpinned=True).texts()
    assert found.text == text


def test_a_lone_surrogate_is_refused_with_its_place(write: Write) -> None:
    path = write("g.jsonl", b'{"question": "ok"}\n{"question": "ab\\ud800c"}\n')
    with pytest.raises(Refusal) as refused:
        list(sources.gsm8k(path, allow_unpinned=True).texts())
    assert str(refused.value) == (
        "g.jsonl: line 2: field 'question': expected text that UTF-8 can hold, "
        "found the lone surrogate U+D800 at character 2"
    )


def test_a_surrogate_in_a_field_that_is_not_read_does_no_harm(write: Write) -> None:
    path = write("g.jsonl", b'{"question": "a \\ud83d\\ude00", "answer": "\\ud800"}\n')
    assert [x.text for x in sources.gsm8k(path, allow_unpinned=True).texts()] == ["a 😀"]


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"^none\.jsonl: file cannot be read: found No such file"):
        sources.gsm8k(tmp_path / "none.jsonl")
    with pytest.raises(Refusal, match=r": not a file: expected a regular file$"):
        sources.gsm8k(tmp_path)


def test_parquet_without_the_column_or_with_a_null_is_refused(tmp_path: Path) -> None:
    wrong = parquet(tmp_path / "wrong.parquet", {"sentence": ["x"]})
    with pytest.raises(Refusal, match=r"^wrong\.parquet: wrong columns: expected a column 'text'"):
        list(sources.wikitext(wrong, allow_unpinned=True).texts())
    null = parquet(tmp_path / "null.parquet", {"text": ["x", None]})
    with pytest.raises(Refusal) as refused:
        list(sources.wikitext(null, allow_unpinned=True).texts())
    assert str(refused.value) == (
        "null.parquet: row 1: field 'text': expected a string, found null"
    )


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + b"\xff" * 64 + b"PAR1", b"text\n"])
def test_bytes_that_are_no_parquet_file_are_refused(data: bytes, write: Write) -> None:
    pytest.importorskip("pyarrow", reason="install pyarrow to run this")
    with pytest.raises(Refusal, match=r"^v\.parquet: not a parquet file: found ") as refused:
        list(sources.wikitext(write("v.parquet", data), allow_unpinned=True).texts())
    assert "\n" not in str(refused.value)


def test_a_truncated_parquet_file_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path / "v.parquet", {"text": [f"row {i} " * 50 for i in range(500)]})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(Refusal, match=r"^v\.parquet: not a parquet file"):
        list(sources.wikitext(path, allow_unpinned=True).texts())


def test_a_parquet_file_that_inflates_past_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path / "v.parquet", {"text": [f"{i} " * 100 for i in range(100)]})
    monkeypatch.setattr(records, "MAX_BYTES", 1000)
    with pytest.raises(Refusal, match=r"^v\.parquet: file is too long: expected at most 1000"):
        list(sources.wikitext(path, allow_unpinned=True).texts())


def test_without_pyarrow_only_parquet_is_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(Refusal, match=r"^v\.parquet: parquet cannot be read: expected the package"):
        list(sources.wikitext(write("v.parquet", b"PAR1"), allow_unpinned=True).texts())
    lines = sources.wikitext(write("v.txt", b"A line\n"), allow_unpinned=True)
    assert [x.text for x in lines.texts()] == ["A line"]


def test_a_package_that_is_not_installed_has_no_file() -> None:
    assert sources.packaged_file("no-such-package-of-this-project", "x") is None
    assert sources.packaged_file("pytest", "no/such/file") is None


def test_a_packaged_file_is_found_without_an_import(human_eval_file: Path) -> None:
    assert human_eval_file.name == "HumanEval.jsonl.gz"
    assert "human_eval" not in sys.modules


def test_the_packaged_human_eval_is_the_pinned_file(human_eval_file: Path) -> None:
    reading = sources.human_eval(human_eval_file)
    texts = list(reading.texts())
    assert reading.notes == ()
    assert [x.source_id for x in texts] == [f"HumanEval/{i}" for i in range(164)]
    with gzip.open(human_eval_file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    everything = repr(texts)
    assert [x.text for x in texts] == [row["prompt"] for row in rows]
    assert not any(repr(row["canonical_solution"])[1:-1] in everything for row in rows)


def test_the_shared_gsm8k_is_the_pinned_file(shared_file: Callable[[str], Path]) -> None:
    reading = sources.gsm8k(shared_file("gsm8k/test.jsonl"))
    texts = list(reading.texts())
    assert len(texts) == 1319
    assert texts[-1].source_id == "gsm8k/test/1318"
    assert "####" not in repr(texts) and "<<" not in repr(texts)


def test_the_shared_wikitext_lines_have_1841_candidates(
    shared_file: Callable[[str], Path],
) -> None:
    path = shared_file("wikitext-2/valid.txt")
    with pytest.raises(Refusal, match="f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2"):
        sources.wikitext(path)
    texts = list(sources.wikitext(path, allow_unpinned=True).texts())
    assert len(texts) == 1841
    assert all(x.text == x.text.strip() for x in texts)


def test_the_shared_tnews_copy_has_10000_candidates_and_no_labels(
    shared_file: Callable[[str], Path],
) -> None:
    path = shared_file("tnews/test.json")
    with pytest.raises(Refusal, match="expected 74f19932…a0ca8, found 0dd33323"):
        sources.tnews(path)
    texts = list(sources.tnews(path, allow_unpinned=True).texts())
    assert len(texts) == 10_000
    assert "news_" not in repr(texts)


def test_every_pin_names_its_source_completely() -> None:
    for key, pin in source_pins().items():
        assert isinstance(pin, SourcePin) and pin.name and pin.url and pin.licence, key
        assert pin.revision_complete == ("…" not in pin.revision), key
