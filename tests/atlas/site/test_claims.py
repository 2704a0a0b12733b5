"""The rules about text: looking for words first may not let a sentence through."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from atlas.guard import claims

RULES = [
    (claims.NUMBERED, claims.may_speak_of_experts),
    (claims.MEANING, claims.may_speak_of_experts),
    (claims.TEST, claims.may_speak_of_tests),
]


@pytest.mark.parametrize(("rule", "may_match"), RULES, ids=["numbered", "meaning", "test"])
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_a_rule_matches_has_one_of_the_words_that_are_looked_for_first(
    rule: re.Pattern[str], may_match: object, data: st.DataObject
) -> None:
    text = claims.plain(data.draw(st.from_regex(rule)))
    assume(rule.search(text))
    assert callable(may_match)
    assert may_match(claims.small(text))


@pytest.mark.parametrize("letter", ["ı", "İ", "ſ", "Ｉ"])
def test_a_letter_that_only_looks_like_another_hides_nothing(letter: str) -> None:
    text = f"a {letter}ignificant difference" if letter == "ſ" else f"s{letter}gnificant"
    assert claims.said_problems(text, cannot_say=False)


def test_a_label_without_words_is_no_claim() -> None:
    assert claims.said_problems("L4·E51 7.93% [7.72%, 8.12%] ×5.08", cannot_say=False) == ()


def test_a_sentence_can_break_two_rules() -> None:
    text = "E29 is the code expert, significantly so"
    assert [p.split(":")[0] for p in claims.said_problems(text, cannot_say=False)] == [
        "expert without its layer",
        "a claim that gives an expert a meaning",
        "an interval read as a test",
    ]


def test_a_block_that_says_what_cannot_be_said_still_names_layers() -> None:
    assert claims.said_problems("expert 7 understands law, significantly", cannot_say=True) == ()
    assert claims.said_problems("E7 understands law", cannot_say=True) == (
        "expert without its layer: 'E7 understands law'",
    )
