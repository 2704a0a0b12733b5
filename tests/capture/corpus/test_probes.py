"""The embedded probe corpus: enough texts, long enough, no one else's."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from capture.corpus.selection import DOMAINS, DomainPick, select, selection_table
from capture.corpus.sources import PROBES, probes
from capture.errors import Refusal

NAMES = [rule.domain for rule in DOMAINS]
Encode = Callable[[str], list[int]]


def texts_of(domain: str) -> list[str]:
    return [candidate.text for candidate in probes(domain).texts()]


@pytest.fixture(scope="module")
def demo_encode() -> Encode:
    tokenizers = pytest.importorskip("tokenizers", reason="install tokenizers==0.19.1 to run this")
    folder = PROBES.parent / "checkpoint"
    if not (folder / "tokenizer.json").is_file():
        pytest.skip("run python -m capture.demo.train to make the embedded tokenizer")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    bos = json.loads((folder / "config.json").read_text(encoding="utf-8"))["bos_token_id"]
    return lambda text: [bos, *tokenizer.encode(text, add_special_tokens=False).ids]


@pytest.mark.parametrize("domain", NAMES)
def test_a_domain_has_at_least_64_different_pinned_texts(domain: str) -> None:
    reading = probes(domain)
    candidates = list(reading.texts())
    assert len(candidates) >= 64
    assert len({text for _, text in candidates}) == len(candidates)
    expected = [f"probe/{domain}/{i:03d}" for i in range(len(candidates))]
    assert [source_id for source_id, _ in candidates] == expected
    assert reading.notes == () and reading.source.licence == "MIT"
    assert all(file.pinned for file in reading.source.files)


@pytest.mark.parametrize("domain", NAMES)
def test_a_probe_line_holds_its_id_and_text_only(domain: str) -> None:
    for line in (PROBES / f"{domain}.jsonl").read_text(encoding="utf-8").splitlines():
        assert set(json.loads(line)) == {"source_id", "text"}


def long_enough(found: tuple[DomainPick, ...]) -> dict[str, int]:
    return {pick.rule.domain: pick.selection.long_enough for pick in found}


def test_the_embedded_tokenizer_finds_48_long_enough_texts_in_each_domain(
    demo_encode: Encode,
) -> None:
    found = select([probes(name) for name in NAMES], demo_encode)
    assert list(long_enough(found)) == NAMES
    assert min(long_enough(found).values()) >= 48
    assert [pick.selection.picked for pick in found] == [32] * 4
    assert len(selection_table(found).splitlines()) == 7


def test_the_official_tokenizer_finds_48_long_enough_texts_in_each_domain(
    official_encode: Encode,
) -> None:
    found = select([probes(name) for name in NAMES], official_encode)
    assert min(long_enough(found).values()) >= 48


def test_every_code_probe_is_python_up_to_an_open_block() -> None:
    for text in texts_of("code"):
        last = text.rstrip("\n").splitlines()[-1]
        if last.endswith(":"):
            indent = " " * (len(last) - len(last.lstrip()) + 4)
            text += f"{indent}pass\n"
            if last.strip() == "try:":
                text += f"{indent[4:]}finally:\n{indent}pass\n"
        tree = ast.parse(text)
        assert any(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(tree))
        assert 5 <= len(text.splitlines()) <= 22


def test_english_probes_are_paragraphs_and_chinese_ones_headlines() -> None:
    for text in texts_of("en_encyclopedia"):
        assert 30 <= len(text.split()) <= 120 and "\n" not in text
    for text in texts_of("zh_news"):
        chinese = re.findall(r"[\u4e00-\u9fff]", text)
        assert 10 <= len(chinese) <= len(text) <= 35 and "\n" not in text


def test_word_problems_ask_for_a_number_and_give_no_answer() -> None:
    for text in texts_of("math"):
        sentences = re.findall(r"[.?!](?:\s|$)", text)
        assert text.endswith("?") and 2 <= len(sentences) <= 5, text
        assert re.search(r"[0-9]|half|third|quarter|three|two|six", text, re.IGNORECASE), text


def test_a_probe_of_another_domain_is_refused(tmp_path: Path) -> None:
    row = json.dumps({"source_id": "probe/code/000", "text": "x"})
    (tmp_path / "math.jsonl").write_text(row + "\n", encoding="utf-8")
    reading = probes("math", tmp_path, allow_unpinned=True)
    with pytest.raises(Refusal) as refused:
        list(reading.texts())
    assert str(refused.value) == (
        "math.jsonl: line 1: source_id: expected probe/math/…, found probe/code/000"
    )


def test_a_changed_probe_file_is_refused(tmp_path: Path) -> None:
    changed = (PROBES / "math.jsonl").read_bytes() + b"\n"
    (tmp_path / "math.jsonl").write_bytes(changed)
    with pytest.raises(Refusal, match=r"^math\.jsonl: not the pinned corpus file"):
        probes("math", tmp_path)


def pieces(text: str, length: int) -> set[str]:
    joined = re.sub(r"\s+", " ", text.lower())
    return {joined[i : i + length] for i in range(len(joined) - length + 1)}


@pytest.mark.parametrize(
    ("domain", "length", "files"),
    [
        ("en_encyclopedia", 50, ["wikitext-2/valid.txt", "wikitext-2/test.txt", "text-en/c4.txt"]),
        ("zh_news", 12, ["tnews/test.json", "tnews/train.json"]),
        ("math", 50, ["gsm8k/test.jsonl", "gsm8k/train.jsonl"]),
    ],
)
def test_no_probe_shares_a_passage_with_a_public_corpus(
    domain: str, length: int, files: list[str], shared_file: Callable[[str], Path]
) -> None:
    ours = set().union(*(pieces(text, length) for text in texts_of(domain)))
    for name in files:
        with shared_file(name).open(encoding="utf-8") as lines:
            for line in lines:
                assert not ours & pieces(line, length), textwrap.shorten(line, 200)
