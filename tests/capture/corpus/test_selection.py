"""Selection: hash order, minimum length, truncation, counts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture.corpus import sources
from capture.corpus.selection import (
    DOMAINS,
    RULES,
    DomainPick,
    select,
    selection_key,
    selection_record,
    selection_table,
)
from capture.errors import Refusal

Write = Callable[[str, bytes], Path]
Encode = Callable[[str], list[int]]


def tasks(rows: dict[str, str]) -> bytes:
    return b"".join(
        json.dumps({"task_id": name, "prompt": text}).encode() + b"\n"
        for name, text in rows.items()
    )


def words(count: int, word: str = "w") -> str:
    return " ".join([word] * count)


def pick(path: Path, encode: Encode, per_domain: int, maximum: int = 96) -> DomainPick:
    reading = sources.human_eval(path, allow_unpinned=True)
    (found,) = select([reading], encode, per_domain=per_domain, maximum_tokens=maximum)
    return found


def test_the_four_domains_have_the_published_minimum_lengths() -> None:
    found = [(rule.domain, rule.minimum_tokens) for rule in DOMAINS]
    assert found == [("en_encyclopedia", 24), ("zh_news", 8), ("code", 24), ("math", 16)]


def test_the_key_is_the_sha256_of_salt_domain_and_source_id() -> None:
    # printf 'llm-atlas-deepseek-routing-v1|code|HumanEval/0' | sha256sum
    assert (
        selection_key("llm-atlas-deepseek-routing-v1", "code", "HumanEval/0")
        == "9e9b4c8abc89dbb7e9556017048aa54024b6f895ce06d8e62e5bf328a0c857aa"
    )


def test_prompts_come_in_hash_order(write: Write, encode_words: Encode) -> None:
    # printf 'llm-atlas-deepseek-routing-v1|code|%s' a (b, c, d, e) | sha256sum
    hashes = {"a": "441a6e80", "b": "a3cbe491", "c": "6f36eabf", "d": "f0836918", "e": "72399bd8"}
    data = tasks({name: words(30, name) for name in "abcde"})
    found = pick(write("h.jsonl", data), encode_words, per_domain=3)
    assert [p.source_id for p in found.prompts] == sorted("abcde", key=hashes.__getitem__)[:3]
    assert [p.rank for p in found.prompts] == [0, 1, 2]
    assert [p.prompt_id for p in found.prompts] == ["code/000", "code/001", "code/002"]
    assert found.selection.model_dump() == {
        "minimum_tokens": 24,
        "candidates": 5,
        "long_enough": 5,
        "picked": 3,
        "tokens": 3 * 31,
    }


def test_a_text_below_the_minimum_gives_its_place_to_the_next(
    write: Write, encode_words: Encode
) -> None:
    first = pick(
        write("a.jsonl", tasks({name: words(30) for name in "abcde"})), encode_words, per_domain=2
    )
    shortest = first.prompts[0].source_id
    rows = {name: words(22 if name == shortest else 23) for name in "abcde"}
    second = pick(write("b.jsonl", tasks(rows)), encode_words, per_domain=2)
    assert second.selection.candidates == 5
    assert second.selection.long_enough == 4  # 23 words and the begin id are 24 tokens
    assert shortest not in [p.source_id for p in second.prompts]
    assert second.prompts[0].source_id == first.prompts[1].source_id
    assert second.prompts[0].rank == 0


@pytest.mark.parametrize(("count", "expected"), [(38, 39), (39, 40), (40, 40), (400, 40)])
def test_tokens_are_cut_on_the_right_at_the_limit(
    count: int, expected: int, write: Write, encode_words: Encode
) -> None:
    text = " ".join(f"w{i}" for i in range(count))
    found = pick(write("h.jsonl", tasks({"a": text})), encode_words, 1, maximum=40)
    (prompt,) = found.prompts
    assert prompt.tokens == expected == found.selection.tokens
    assert list(prompt.token_ids) == encode_words(text)[:expected]
    assert prompt.text == text and prompt.characters == len(text)
    assert prompt.text_sha256 == sha256(text.encode()).hexdigest()


def test_too_few_long_texts_are_refused_with_the_count(write: Write, encode_words: Encode) -> None:
    path = write("h.jsonl", tasks({"a": words(30), "b": words(30), "c": words(3)}))
    with pytest.raises(Refusal) as refused:
        pick(path, encode_words, per_domain=3)
    assert str(refused.value) == (
        "code: texts of at least 24 tokens: expected 3 or more, found 2 of 3 candidates"
    )


def test_a_repeated_source_id_is_refused(write: Write, encode_words: Encode) -> None:
    data = tasks({"HumanEval/1": words(30)}) + tasks({"HumanEval/1": words(31)})
    with pytest.raises(Refusal) as refused:
        pick(write("h.jsonl", data), encode_words, per_domain=1)
    assert str(refused.value) == "code: source_id found twice: found HumanEval/1"


def test_a_repeated_text_is_allowed_and_keeps_its_order(write: Write, encode_words: Encode) -> None:
    data = tasks({name: words(30) for name in "abcde"})
    found = pick(write("h.jsonl", data), encode_words, per_domain=5)
    assert len({p.text_sha256 for p in found.prompts}) == 1
    keys = [
        selection_key("llm-atlas-deepseek-routing-v1", "code", p.source_id) for p in found.prompts
    ]
    assert keys == sorted(keys)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(seed=st.integers(0, 2**32), lengths=st.lists(st.integers(0, 60), min_size=6, max_size=25))
def test_the_order_of_rows_changes_nothing(
    seed: int, lengths: list[int], write: Write, encode_words: Encode
) -> None:
    rows = [(f"HumanEval/{i}", words(30 if i < 4 else n, f"w{i}")) for i, n in enumerate(lengths)]
    first = pick(write("a.jsonl", tasks(dict(rows))), encode_words, per_domain=4)
    random.Random(seed).shuffle(rows)
    second = pick(write("b.jsonl", tasks(dict(rows))), encode_words, per_domain=4)
    assert (first.prompts, first.selection) == (second.prompts, second.selection)


def test_the_order_of_sources_changes_nothing(write: Write, encode_words: Encode) -> None:
    code = sources.human_eval(write("h.jsonl", tasks({"a": words(30)})), allow_unpinned=True)
    row = json.dumps({"question": words(30)}).encode()
    math = sources.gsm8k(write("g.jsonl", row), allow_unpinned=True)
    found = select([math, code], encode_words, per_domain=1)
    assert [p.rule.domain for p in found] == ["code", "math"]
    assert found == select([code, math], encode_words, per_domain=1)
    with pytest.raises(Refusal, match=r"^corpus: domains: expected each of .* found code$"):
        select([code, math, code], encode_words, per_domain=1)


@pytest.mark.parametrize(
    ("per_domain", "maximum", "told"),
    [
        (0, 96, "code: per domain: expected 1 or more, found 0"),
        (1, 23, "code: maximum tokens: expected at least the domain's minimum of 24, found 23"),
    ],
)
def test_limits_that_no_prompt_can_meet_are_refused(
    per_domain: int, maximum: int, told: str, write: Write, encode_words: Encode
) -> None:
    path = write("h.jsonl", tasks({"a": words(30)}))
    with pytest.raises(Refusal) as refused:
        pick(path, encode_words, per_domain, maximum)
    assert str(refused.value) == told


def test_the_table_shows_counts_and_their_total(write: Write, encode_words: Encode) -> None:
    rows = {f"HumanEval/{i}": words(1100 if i else 3) for i in range(3)}
    code = sources.human_eval(write("h.jsonl", tasks(rows)), allow_unpinned=True)
    row = json.dumps({"question": words(20)}).encode() + b"\n"
    math = sources.gsm8k(write("g.jsonl", row), allow_unpinned=True)
    picks = select([code, math], encode_words, per_domain=1, maximum_tokens=2000)
    assert selection_table(picks).splitlines() == [
        "domain  minimum  candidates  long enough  picked  tokens",
        "------  -------  ----------  -----------  ------  ------",
        "code         24           3            2       1   1,101",
        "math         16           1            1       1      21",
        "total                     4            3       2   1,122",
    ]


def test_the_record_is_the_published_contract() -> None:
    record = selection_record()
    assert (record.salt, record.per_domain) == ("llm-atlas-deepseek-routing-v1", 32)
    assert (record.maximum_tokens, record.batch_size) == (96, 16)
    assert record.special_tokens and record.truncation == record.padding == "right"


def test_human_eval_gives_164_164_32_with_the_official_tokenizer(
    human_eval_file: Path, official_encode: Encode
) -> None:
    reading = sources.human_eval(human_eval_file)
    (found,) = select([reading], official_encode)
    counts = found.selection
    assert (counts.candidates, counts.long_enough, counts.picked) == (164, 164, 32)
    assert counts.tokens == sum(p.tokens for p in found.prompts) <= 32 * 96
    (all_of_them,) = select([reading], official_encode, per_domain=164)
    assert all_of_them.selection.tokens == 15_096
    assert all_of_them.prompts[:32] == found.prompts


def test_gsm8k_gives_1319_1319_32_with_the_official_tokenizer(
    shared_file: Callable[[str], Path], official_encode: Encode
) -> None:
    (found,) = select([sources.gsm8k(shared_file("gsm8k/test.jsonl"))], official_encode)
    counts = found.selection
    assert (counts.candidates, counts.long_enough, counts.picked) == (1319, 1319, 32)


def test_every_rule_has_a_title_in_both_languages() -> None:
    assert all(rule.title.en and rule.title.zh for rule in RULES.values())
