"""Explore pages: the same static chart, one layer per spec, scripts that may stay away."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import altair as alt
import pytest

from atlas.charts.explore import COLUMNS, layer_rows
from atlas.charts.load import LayerLoadChart
from atlas.errors import SiteError
from atlas.guard import SCRIPT_HEAD, SCRIPT_TAIL
from atlas.site import build, check
from atlas.urls import VEGA
from tests.atlas.site.conftest import OPTIONS, OUTPUT, memory
from tests.atlas.site.parsed import tree

FOLDER = "en/models/sample-model/"


def chart(layer: int, shares_E: tuple[float, ...], domain: str = "law") -> LayerLoadChart:
    low_E, high_E = tuple(s / 2 for s in shares_E), tuple(min(1.0, 2 * s) for s in shares_E)
    return LayerLoadChart(layer, domain, "prompt_balanced", shares_E, low_E, high_E)


def specs(site: dict[str, bytes], lang: str = "en") -> dict[int, dict[str, Any]]:
    """Specs of the sample model by layer."""
    found = {}
    for name, data in site.items():
        if name.startswith(f"{lang}/models/sample-model/explore/"):
            assert data.startswith(SCRIPT_HEAD) and data.endswith(SCRIPT_TAIL)
            spec = json.loads(data[len(SCRIPT_HEAD) : -len(SCRIPT_TAIL)])
            found[spec["usermeta"]["layer"]] = spec
    return found


def test_rows_rank_experts_by_share_with_ties_by_id() -> None:
    rows = {r["expert"]: r for r in layer_rows([chart(4, (0.125, 0.5, 0.25, 0.125))])}
    assert rows["L4·E1"]["prompt_balanced"] == [50.0, 25.0, 100.0, 2.0, 0, "holds"]
    assert [rows[f"L4·E{e}"]["prompt_balanced"][COLUMNS.index("rank")] for e in range(4)] == [
        2, 0, 1, 3,
    ]  # fmt: skip


def test_rows_of_two_layers_are_refused() -> None:
    with pytest.raises(ValueError, match="expected charts of one layer"):
        layer_rows([chart(4, (0.5, 0.5)), chart(5, (0.5, 0.5))])


def test_each_spec_holds_the_experts_of_one_layer_and_all_its_domains(
    site: dict[str, bytes],
) -> None:
    for lang in ("en", "zh"):
        found = specs(site, lang)
        assert sorted(found) == [1, 2]
        for layer, spec in found.items():
            rows = spec["data"]["values"]
            assert {r["expert"].split("·")[0] for r in rows} == {f"L{layer}"}
            assert {r["domain"] for r in rows} == {"alpha", "beta", "gamma"}
            assert len(rows) == 3 * 8
            # the one other dataset knows no expert
            assert list(spec["datasets"].values()) == [[{"uniform_percent": 12.5}]]


def test_a_spec_shows_the_figures_of_the_csv_of_its_layer(site: dict[str, bytes]) -> None:
    rows = {(r["domain"], r["expert"]): r for r in specs(site)[2]["data"]["values"]}
    for domain in ("alpha", "beta", "gamma"):
        text = site[f"data/sample-model/load/{domain}/layer-02.csv"].decode()
        for line in csv.DictReader(io.StringIO(text)):
            row = rows[domain, line["expert"]]
            for weighting in ("prompt_balanced", "token_weighted"):
                assert row[weighting][:4] == [
                    float(line[f"{weighting}_{column}"]) for column in COLUMNS[:4]
                ]


def test_a_spec_is_one_that_altair_accepts(site: dict[str, bytes]) -> None:
    for spec in specs(site).values():
        alt.LayerChart.from_dict(spec, validate=True)


def test_a_spec_reads_nothing_and_needs_no_code_to_be_made(site: dict[str, bytes]) -> None:
    for spec in specs(site).values():
        text = json.dumps({k: v for k, v in spec.items() if k != "$schema"})
        assert '"url"' not in text and "://" not in text
        # Vega's reader of CSV makes a function from text, which the policy forbids
        assert '"format": {' not in text


def test_what_a_spec_says_about_its_page_is_what_the_layer_page_says(
    site: dict[str, bytes], pages: dict[str, str]
) -> None:
    for layer, spec in specs(site).items():
        for domain, words in spec["usermeta"]["domains"].items():
            name = f"load/{domain}/layer-{layer:02d}.html"
            figure = tree(pages[FOLDER + name]).one("figure", id="chart")
            assert words["page"] == name
            assert words["title"] == figure.one("figcaption").one("h2").text
            assert words["caption"] == figure.one("p", class_="note").text


def test_the_page_starts_from_the_chart_of_the_most_concentrated_layer(
    pages: dict[str, str],
) -> None:
    root = tree(pages[FOLDER + "explore.html"])
    page = root.one("a", id="page").attributes["href"]
    layer = tree(pages[FOLDER + page])
    for kind, class_ in (("div", "plots"), ("table", "values")):
        assert root.one(kind, class_=class_) == layer.one(kind, class_=class_)
    marked = [a.attributes["href"] for a in root.all("a", aria_current="true")]
    assert marked == [page, page]
    (option,) = [o for o in root.all("option") if "selected" in o.attributes]
    assert page.endswith(f"layer-{int(option.attributes['value']):02d}.html")
    (radio,) = [i for i in root.all("input", name="domain") if "checked" in i.attributes]
    assert f"/{radio.attributes['value']}/" in page


def test_without_the_script_only_what_works_is_shown(pages: dict[str, str]) -> None:
    root = tree(pages[FOLDER + "explore.html"])
    assert "hidden" in root.one("div", id="picks").attributes
    assert "hidden" in root.one("div", id="live").attributes
    assert "hidden" not in root.one("div", id="still").attributes
    links = {a.attributes["href"] for a in root.one("div", id="still").all("a")}
    assert len(links) == 2 + 3 - 1


def test_every_layer_that_can_be_picked_has_its_spec(
    site: dict[str, bytes], pages: dict[str, str]
) -> None:
    options = tree(pages[FOLDER + "explore.html"]).one("select", id="layer-pick").all("option")
    assert [o.attributes["value"] for o in options] == ["1", "2"]
    assert all(FOLDER + o.attributes["data-source"] in site for o in options)


def test_model_and_layer_pages_lead_to_the_explore_page(pages: dict[str, str]) -> None:
    model = {a.attributes["href"] for a in tree(pages[FOLDER + "index.html"]).all("a")}
    layer = {a.attributes["href"] for a in tree(pages[FOLDER + "load/beta/layer-02.html"]).all("a")}
    assert "explore.html" in model
    assert "../../explore.html#layer-2" in layer


def test_a_model_without_a_corpus_has_no_explore_page(site: dict[str, bytes]) -> None:
    with_load = {n.split("/")[2] for n in site if "/load/" in n and n.startswith("en/")}
    with_explore = {n.split("/")[2] for n in site if n.endswith("/explore.html")}
    assert with_explore == with_load


def test_the_bundle_changes_no_other_file_and_is_no_part_of_a_check(
    site: dict[str, bytes],
) -> None:
    effects = memory()
    with_bundle = replace(OPTIONS, vendor={VEGA: b"third party"})
    build(with_bundle, effects)
    assert effects.folders[OUTPUT] == site | {VEGA: b"third party"}
    assert check(OPTIONS, effects) == ()
    del effects.folders[OUTPUT][VEGA]
    assert check(with_bundle, effects) == ()


def test_a_third_party_script_stays_in_its_folder() -> None:
    with pytest.raises(SiteError, match=r"x.js: expected a third-party script under assets/vendor"):
        build(replace(OPTIONS, vendor={"x.js": b""}), memory())
