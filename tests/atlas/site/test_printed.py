"""What source documents print, on the pages of a model: as printed, none run again."""

from __future__ import annotations

import re
from functools import cache

import pytest

from atlas.charts.dotplot import Axis, DotValue, dot_plot
from atlas.contract import Published, read
from atlas.site import build
from tests.atlas.site.conftest import OPTIONS, ROOT, memory
from tests.atlas.site.parsed import Node, tree

NAME = "deepseek-v2-lite-published.json"
SECTIONS = ("findings", "measures", "divergences", "printed-trace", "ledgers")


def committed() -> dict[str, bytes]:
    """What is committed about the model: printed and official figures."""
    files = (ROOT / "src/data").glob("deepseek-v2-lite-*.json")
    return {
        p.name: p.read_bytes()
        for p in files
        if p.name.endswith(("published.json", "official.json"))
    }


@cache
def site() -> dict[str, str]:
    files = build(OPTIONS, memory(committed()))
    return {name: data.decode() for name, data in files.items() if name.endswith(".html")}


def page(lang: str = "en") -> Node:
    return tree(site()[f"{lang}/models/deepseek-v2-lite/index.html"])


def section(name: str, lang: str = "en") -> Node:
    return page(lang).one("section", id=name)


@cache
def published() -> Published:
    dataset = read(ROOT / "src/data" / NAME)
    assert isinstance(dataset, Published)
    return dataset


def shown(node: Node) -> dict[str, str]:
    """Printed figures below a node, id to text."""
    return {
        link.attributes["title"].rsplit(" · ", 1)[1]: link.text
        for link in node.all("a", class_="num")
        if link.attributes["data-source"] == NAME
    }


def expected(*ids: str) -> dict[str, str]:
    """Figures as their file prints them; an expert with its layer."""
    result = {}
    for identity in ids:
        figure = published().by_id[identity]
        text = figure.printed
        if figure.kind == "expert":
            text = f"L{figure.layer}·{text}"
        if figure.interval is not None:
            text += f" [{figure.interval.printed_low}, {figure.interval.printed_high}]"
        result[identity] = text
    return result


# --- the model's page ---


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_three_findings_lead_with_their_intervals_as_printed(lang: str) -> None:
    cards = section("findings", lang).all("article")
    concentrated = [
        expected(*(f"corpus.layer-{layer}.{domain}.prompt_balanced.{q}" for layer in layers
                   for q in ("effective_experts", "cv", "top_expert", "top_share")))
        for domain, layers in (("zh_news", (4,)), ("math", (5, 6)))
    ]  # fmt: skip
    flat = expected(
        *(f"corpus.layer-2.prompt_balanced.{q}.{end}" for q in ("effective_experts", "cv")
          for end in ("lowest", "highest"))
    )  # fmt: skip
    assert [shown(card) for card in cards] == [*concentrated, flat]
    first = page(lang).all("section")[0]
    assert first.attributes["id"] == "findings"


def test_every_domain_and_layer_has_a_dot_and_a_cell_for_both_measures() -> None:
    for measure in ("cv", "effective_experts"):
        figure = page().one("figure", id=f"measure-{measure}")
        wanted = [
            f.id
            for f in published().figures
            if f.quantity == measure and f.weighting == "prompt_balanced" and f.domain
        ]
        assert len(wanted) == 24
        assert shown(figure.one("table")) == expected(*wanted)
        dots = figure.one("svg", class_="field").all("path", class_="dot")
        assert len(dots) == 24
        titles = sorted(dot.text.rsplit(": ", 1)[1] for dot in dots)
        assert titles == sorted(expected(*wanted).values())


def test_dots_are_not_joined_and_each_stands_in_the_column_of_its_layer() -> None:
    for svg in page().all("svg", class_="field"):
        groups = svg.all("g")
        assert [g.attributes["data-layer"] for g in groups] == list("123456")
        for number, group in enumerate(groups):
            for path in group.all("path"):
                places = [float(x) for x in re.findall(r"M([\d.]+)", path.attributes["d"])]
                places += [float(x) for x in re.findall(r"H([\d.]+)", path.attributes["d"])]
                assert all(10 * number < x < 10 * (number + 1) for x in places)
                if "dot" in path.attributes["class"].split():
                    assert re.fullmatch(r"M[\d.]+ [\d.]+h\.01", path.attributes["d"])


def test_whiskers_stand_only_where_an_interval_is_printed() -> None:
    for measure in ("cv", "effective_experts"):
        svg = page().one("figure", id=f"measure-{measure}").one("svg", class_="field")
        layers = [
            g.attributes["data-layer"]
            for g in svg.all("g")
            for _ in g.all("path", class_="whisker")
        ]
        assert layers == ["4", "5", "6"]


def test_divergences_trace_table_weights_and_ledgers_are_the_printed_ones() -> None:
    assert shown(section("divergences")) == expected(
        *(f"corpus.layer-{n}.prompt_balanced.jsd" for n in range(1, 7)),
        "corpus.largest_jsd_fraction",
        "corpus.ln_2",
    )
    names = ("selections", "used", "zero", "cv", "gini", "effective_experts")
    names += ("top_expert", "top_count", "mean_weight_sum")
    table = section("printed-trace").all("table")[0]
    assert shown(table) == expected(*(f"trace.layer-{n}.{q}" for n in range(1, 7) for q in names))
    ledger = shown(section("ledgers"))
    assert (ledger["trace.mla.eager_bytes"], ledger["trace.mla.latent_bytes"]) == (
        "10,240",
        "1,152",
    )
    assert ledger["trace.mla.ratio"] == "8.8889×"


def test_the_two_coefficients_of_variation_are_told_apart() -> None:
    text = section("printed-trace").text
    assert "sample standard deviation" in text and "must not be compared" in text
    assert "population standard deviation" in page().one("figure", id="measure-cv").text
    assert "样本标准差" in section("printed-trace", "zh").text


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_section_has_its_badge_its_document_section_file_and_hash(lang: str) -> None:
    for name in SECTIONS:
        node = section(name, lang)
        blocks = node.all("article") or node.all("figure") or [node]
        for block in blocks:
            assert block.all("p", class_="published"), name
            origin = block.all("p", class_="origin")[0]
            assert re.search(r"AUDIT\.md|TRACE\.md", origin.text)
            assert re.search(r"(section|第) \d", origin.text)
            assert origin.one("a").text == NAME
            assert len(origin.one("code", class_="hash").attributes["title"]) == 64
    assert section("official-ledgers", lang).all("p", class_="official")
    mixed = page(lang).one("div", class_="mixed")
    assert {b.attributes["class"] for b in mixed.all("p", class_="badge")} == {
        "badge official",
        "badge published",
    }


def test_no_chart_of_experts_is_drawn_and_the_page_says_what_makes_one() -> None:
    own = [t for n, t in site().items() if "/models/deepseek-v2-lite/" in n]
    assert not any('data-marks="expert"' in text for text in own)
    missing = section("missing")
    assert "64" in missing.text
    commands = missing.one("pre").text
    for name in ("corpus", "trace", "verify"):
        assert f"-m capture {name} " in commands
    assert missing.all("a")[-1].attributes["href"] == "workstation.html"


def test_the_home_page_shows_the_model_with_a_badge_of_each_kind() -> None:
    (card,) = tree(site()["en/index.html"]).all("article", class_="model")
    assert card.one("h3").text == "DeepSeek-V2-Lite"
    assert [b.one("strong").text for b in card.all("p", class_="badge")] == [
        "OFFICIAL",
        "PUBLISHED",
    ]


# --- the drawing ---


def test_a_value_stands_at_its_share_of_the_axis() -> None:
    values = {(1, "a"): DotValue(0.25, 0.0, 0.5, "x"), (2, "a"): DotValue(9.0, None, None, "y")}
    axis = Axis(0.0, 1.0, 0.5, 0.0, 1)
    plot = dot_plot(values, (1, 2), ("a", "b"), axis)
    # a quarter of the way up 300 units is y = 225; the first of two places is a third in
    (mark,) = plot.columns[0].marks
    assert (mark.dot, mark.whisker) == ("M3.3 225h.01", "M3.3 300V150")
    (beyond,) = plot.columns[1].marks
    assert (beyond.dot, beyond.whisker) == ("M13.3 0h.01", "")
    assert [(t.at, t.text) for t in plot.ticks] == [("300", "0.0"), ("150", "0.5"), ("0", "1.0")]
