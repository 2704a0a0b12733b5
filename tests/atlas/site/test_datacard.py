"""The dataset card, its Markdown, and the Croissant description."""

from __future__ import annotations

import json
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

import mlcroissant
import pytest

from atlas import VERSION
from atlas.croissant import CONFORMS_TO
from atlas.pages.data import data_page
from atlas.pages.datacard import data_card_text
from atlas.pages.frame import Writer
from atlas.shelf import shelve
from atlas.strings import LANGS, Lang, parse_strings
from tests.atlas.site import samples
from tests.atlas.site.conftest import ROOT, template_files
from tests.atlas.site.parsed import tree

STRINGS = parse_strings(template_files()["strings.toml"])


@pytest.fixture(scope="module")
def description(site: dict[str, bytes]) -> dict[str, Any]:
    return dict(json.loads(site["data/croissant.json"]))


def test_the_version_is_the_same_in_every_place_that_says_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_croissant_lists_every_dataset_schema_and_table_with_size_and_hash(
    site: dict[str, bytes], description: dict[str, Any]
) -> None:
    listed = {f"data/{f['contentUrl']}": f for f in description["distribution"]}
    wanted = {n for n in site if n.startswith(("data/files/", "data/schema/"))}
    wanted |= {f"data/sample-model/{table}.csv" for table in ("metrics", "divergences")}
    wanted |= {n for n in site if n.startswith("data/sample-demo/") and n.endswith("metrics.csv")}
    assert set(listed) >= wanted
    for name, entry in listed.items():
        assert entry["sha256"] == sha256(site[name]).hexdigest()
        assert entry["contentSize"] == f"{len(site[name])} B"
    licences = [e["description"] for n, e in listed.items() if n.startswith("data/files/")]
    assert all("evidence: " in text for text in licences)


def test_croissant_holds_no_clock_and_no_place_of_this_machine(
    site: dict[str, bytes], description: dict[str, Any]
) -> None:
    assert description["conformsTo"] == CONFORMS_TO
    assert not {"datePublished", "dateModified", "dateCreated", "url"} & set(description)
    assert str(ROOT) not in site["data/croissant.json"].decode()


def test_croissants_own_reader_accepts_it_and_loads_the_tables(
    site: dict[str, bytes], tmp_path: Path
) -> None:
    for name, data in site.items():
        if name.startswith("data/"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    dataset = mlcroissant.Dataset(jsonld=tmp_path / "data/croissant.json")
    issues = dataset.metadata.ctx.issues
    assert issues.errors == set()
    # a date would be a clock in the output
    assert [w for w in issues.warnings if "datePublished" not in w] == []
    ids = [records.id for records in dataset.metadata.record_sets]
    assert "sample-model/metrics" in ids
    for record_set in ids:
        table = site[f"data/{record_set}.csv"].decode().splitlines()
        rows = list(dataset.records(record_set))
        assert len(rows) == len(table) - 1
        first = dict(zip(table[0].split(","), table[1].split(","), strict=True))
        assert {k.rpartition("/")[2] for k in rows[0]} == set(first)
        assert rows[0][f"{record_set}/layer"] == int(first["layer"])
        assert rows[0][f"{record_set}/weighting"].decode() == first["weighting"]


def test_the_reader_refuses_a_description_without_a_hash(
    site: dict[str, bytes], tmp_path: Path
) -> None:
    broken = json.loads(site["data/croissant.json"])
    del broken["distribution"][0]["sha256"]
    (tmp_path / "croissant.json").write_text(json.dumps(broken), encoding="utf-8")
    with pytest.raises(mlcroissant.ValidationError, match="sha256"):
        mlcroissant.Dataset(jsonld=tmp_path / "croissant.json")


@pytest.mark.parametrize("lang", LANGS)
def test_the_data_page_links_card_markdown_and_croissant(
    lang: Lang, pages: dict[str, str], site: dict[str, bytes]
) -> None:
    root = tree(pages[f"{lang}/data.html"])
    links = {node.attributes["href"] for node in root.all("a")}
    readme = "../data/README.md" if lang == "en" else "../data/README.zh.md"
    assert {"data-card.html", readme, "../data/croissant.json"} <= links
    assert "../data/sample-model/metrics.csv" in links
    assert readme.removeprefix("../") in site


@pytest.mark.parametrize("lang", LANGS)
def test_the_card_names_every_file_with_hash_and_licence_in_both_forms(
    lang: Lang, pages: dict[str, str], site: dict[str, bytes]
) -> None:
    page = tree(pages[f"{lang}/data-card.html"])
    rows = [[c.text for c in r.children if not isinstance(c, str)] for r in page.all("tr")][1:]
    text = site[f"data/README{'' if lang == 'en' else '.zh'}.md"].decode()
    files = {n.removeprefix("data/files/"): d for n, d in site.items() if "data/files/" in n}
    assert [row[0] for row in rows] == sorted(files)
    for name, _, _, digest, licence in rows:
        assert digest == sha256(files[name]).hexdigest()
        (line,) = [x for x in text.splitlines() if f"](files/{name})" in x]
        assert digest in line and licence in line
    headings = [h.text for h in page.all("h2")]
    assert [x.removeprefix("## ") for x in text.splitlines() if x.startswith("## ")] == headings


def test_text_of_a_dataset_begins_no_markup_in_the_markdown() -> None:
    model = samples.MODEL | {"licence": "<b>*x*</b> | [y](z) `q`"}
    corpus = samples.corpus(
        samples.random_counts((1,), ("alpha",), 4, 2), 2, evidence="demo", model=model
    )
    shelf = shelve({"c.json": samples.canonical_json(corpus)})
    text = data_card_text(Writer("en", STRINGS, shelf)).decode()
    (line,) = [x for x in text.splitlines() if "c.json" in x]
    assert line.endswith(r"| \<b\>\*x\*\</b\> \| \[y\](z) \`q\` |")


def test_figures_entered_by_hand_have_no_command_and_official_ones_name_all_inputs() -> None:
    files = {p.name: p.read_bytes() for p in (ROOT / "src/data").glob("deepseek-v2-lite-*.json")}
    context = data_page(Writer("en", STRINGS, shelve(files))).context
    commands = {row.name: row.command for row in context.rows}
    assert commands["deepseek-v2-lite-published.json"] == ""
    assert commands["deepseek-v2-lite-official.json"] == (
        "python -m capture inspect --artifact-dir DIR --tokenizer FILE --human-eval FILE "
        "--gsm8k FILE --output src/data/deepseek-v2-lite-official.json"
    )
