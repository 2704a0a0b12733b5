from __future__ import annotations

import re
from typing import get_args

import pytest

from atlas.contract.base import Evidence
from atlas.contract.identity import ArtifactFile, StopLine
from atlas.errors import SiteError
from atlas.strings import LANGS, parameters_of, parse_strings
from tests.atlas.site.conftest import ROOT, template_files

STRINGS = parse_strings(template_files()["strings.toml"])


def test_every_key_has_both_languages_with_the_same_parameters() -> None:
    for key, entry in STRINGS.table.items():
        assert set(entry) == set(LANGS), key
        assert parameters_of(entry["en"]) == parameters_of(entry["zh"]), key
        assert all(text.strip() or key == "site.gap" for text in entry.values()), key


def test_chinese_texts_are_chinese_and_english_ones_are_not() -> None:
    same = {"site.name", "metric.cv", "metric.gini", "site.language", "trace.prompts"}
    han = re.compile(r"[\u4e00-\u9fff]")
    english = [k for k, e in STRINGS.table.items() if han.search(e["en"]) and k not in same]
    chinese = {k for k, e in STRINGS.table.items() if not han.search(e["zh"])}
    assert english == []
    assert chinese <= same | {
        "site.gap", "datacard.colon", "routes.piece", "trace_layer.prompt", "trace.kind_moe",
        "provenance.stop_unknown", "chart.svg_source", "data.schemas",
    }  # fmt: skip


def test_every_key_that_a_template_names_is_in_the_table() -> None:
    used = set()
    for name, data in template_files().items():
        if name.endswith(".j2"):
            used |= set(re.findall(r'\bt\("([a-z_]+\.[a-z_]+)"(?! ~)', data.decode()))
    assert used
    assert used <= set(STRINGS.table)


def test_every_key_of_the_table_is_used_somewhere() -> None:
    text = "".join(
        p.read_text(encoding="utf-8")
        for folder in ("templates", "src/atlas")
        for p in sorted((ROOT / folder).rglob("*"))
        if p.suffix in (".j2", ".py")
    )
    composed = tuple(
        m
        for a, b in re.findall(r"[\"']([a-z_]+\.[a-z_]*)(?:\"\s*~|\{)(_[a-z]+)?", text)
        for m in [a]
    )
    unused = [
        key
        for key in STRINGS.table
        if f'"{key}"' not in text and not any(key.startswith(prefix) for prefix in composed)
    ]
    assert unused == []


@pytest.mark.parametrize("evidence", get_args(Evidence))
def test_every_class_of_evidence_has_a_name_and_a_meaning(evidence: str) -> None:
    for lang in LANGS:
        for suffix in ("", "_meaning", "_detail"):
            assert STRINGS.get(lang, f"evidence.{evidence}{suffix}")


def test_every_role_of_a_file_and_every_stop_reason_has_a_name() -> None:
    roles = get_args(ArtifactFile.model_fields["role"].annotation)
    reasons = get_args(StopLine.model_fields["reason"].annotation)
    assert all(f"role.{role}" in STRINGS.table for role in roles)
    assert all(f"provenance.stop_{reason}" in STRINGS.table for reason in reasons)


def test_a_missing_key_is_an_error() -> None:
    with pytest.raises(SiteError, match=r"expected the key 'nav.nowhere', found nothing"):
        STRINGS.get("en", "nav.nowhere")


def test_a_missing_parameter_and_an_unknown_one_are_errors() -> None:
    with pytest.raises(
        SiteError, match=r"layer.crumb: expected parameters \['layer'\], found \[\]"
    ):
        STRINGS.get("en", "layer.crumb")
    with pytest.raises(SiteError, match=r"found \['layer', 'x'\]"):
        STRINGS.get("en", "layer.crumb", layer=1, x=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[a]\nb = { en = "x" }', "a.b: expected en and zh"),
        ('[a]\nb = { en = "{x}", zh = "{y}" }', "a.b: expected the same parameters"),
        ("[a\n", "expected TOML"),
    ],
)
def test_a_table_that_lacks_a_language_or_a_parameter_is_refused(text: str, message: str) -> None:
    with pytest.raises(SiteError, match=re.escape(message)):
        parse_strings(text.encode())
