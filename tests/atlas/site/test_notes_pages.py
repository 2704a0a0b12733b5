"""Notes as pages of the site: text, figures, twins, links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from atlas.effects import Memory
from atlas.errors import SiteError
from atlas.pages.frame import Writer
from atlas.pages.notes import note_pages
from atlas.shelf import shelve
from atlas.site import build
from atlas.strings import parse_strings
from tests.atlas.site import samples
from tests.atlas.site.conftest import DATA, OPTIONS, ROOT, TEMPLATES, template_files
from tests.atlas.site.parsed import Node, tree

NOTES = Path("research")
ESFT = samples.MODEL | {"slug": "esft-vanilla-lite", "title": "A record"}
FIGURES = """
::figure kind=load dataset=esft layer=2 domain=beta

::figure kind=ranks dataset=esft domain=alpha

::figure kind=metrics dataset=esft measure=cv

::figure kind=metrics dataset=esft measure=jsd

::figure kind=divergences dataset=esft layer=1

::figure kind=mla dataset=v2lite
"""


def built(english: str, chinese: str | None = None) -> dict[str, bytes]:
    counts = samples.random_counts((1, 2), ("alpha", "beta", "gamma"), 8, 2)
    data = {"c.json": samples.canonical_json(samples.corpus(counts, 2, model=ESFT))}
    data["r.json"] = samples.canonical_json(samples.routes(tokens=12, model=ESFT))
    data |= {p.name: p.read_bytes() for p in (ROOT / "src/data").glob("deepseek-v2-lite-*.json")}
    texts = {"en/a.md": english.encode()}
    if chinese is not None:
        texts["zh/a.md"] = chinese.encode()
    effects = Memory({DATA: data, TEMPLATES: template_files(), NOTES: texts})
    return build(replace(OPTIONS, notes=NOTES), effects)


def page(text: str) -> Node:
    return tree(built(text, text)["en/notes/a.html"].decode())


def test_a_note_is_a_page_and_stands_in_the_list_and_in_the_navigation() -> None:
    files = built("# A title\n\n**The conclusion.**\n", "# 标题\n\n**结论。**\n")
    assert tree(files["en/notes/a.html"].decode()).one("h1").text == "A title"
    listed = tree(files["zh/notes/index.html"].decode()).one("article")
    assert (listed.one("h2").text, listed.one("p").text) == ("标题", "结论。")
    assert "notes/index.html" in files["en/index.html"].decode()


def test_every_kind_of_figure_is_drawn_with_its_evidence_and_its_home() -> None:
    root = page(f"# Title\n\n**Conclusion.**\n{FIGURES}")
    figures = root.all("figure", class_="chart")
    assert [f.attributes["id"] for f in figures] == [f"figure-{i}" for i in range(1, 7)]
    badges = [f.all("p", class_="badge")[0].attributes["class"] for f in figures]
    assert badges == ["badge imported"] * 5 + ["badge official"]
    homes = [f.all("p", class_="files")[-1].one("a").attributes["href"] for f in figures]
    assert homes[0].endswith("models/esft-vanilla-lite/load/beta/layer-02.html")
    assert len(figures[0].all("g", data_marks="expert")) == 2
    assert figures[5].text.count("bytes per token and layer") == 2


def test_routes_in_a_note_are_the_first_ten_and_a_link_leads_to_the_rest() -> None:
    files = built(
        *2 * ["# Title\n\n**Conclusion.**\n\n::figure kind=routes dataset=esft layer=1\n"]
    )
    figure = tree(files["en/notes/a.html"].decode()).one("figure", class_="chart")
    rows = figure.one("tbody").all("tr")
    assert [row.one("th").text for row in rows] == [str(n) for n in range(10)]
    assert "Of these 12, the first 10 stand here." in figure.one("section").text
    link = figure.one("p", class_="files").one("a")
    assert link.text == "All 12 positions, on this figure's own page"
    target, anchor = "en/models/esft-vanilla-lite/routes/index.html", "prompt-1"
    assert link.attributes["href"] == f"../{target.removeprefix('en/')}#{anchor}"
    assert len(tree(files[target].decode()).one("section", id=anchor).one("tbody").all("tr")) == 12


def test_a_printed_measure_names_domains_by_their_titles() -> None:
    text = "# {}\n\n**{}**\n\n::figure kind=metrics dataset=v2lite measure=cv\n"
    files = built(text.format("Title", "Conclusion."), text.format("标题", "结论。"))
    heads = [
        [cell.text for cell in tree(files[f"{lang}/notes/a.html"].decode()).one("thead").all("th")]
        for lang in ("en", "zh")
    ]
    assert sorted(heads[0][1:]) == [
        "Chinese news", "English encyclopedia", "Grade-school mathematics", "Python code",
    ]  # fmt: skip
    assert sorted(heads[1][1:]) == ["Python 代码", "中文新闻", "小学数学", "英文百科"]


def test_notes_stand_in_the_order_of_a_reader() -> None:
    texts = {
        n: f"# {n}\n\n**Conclusion.**\n" for n in ("corpus", "limits", "trace", "zebra", "esft")
    }
    writer = Writer("en", parse_strings(template_files()["strings.toml"]), shelve(samples.folder()))
    (listed,) = [
        p.context.notes for p in note_pages(writer, texts) if p.template == "notes.html.j2"
    ]
    assert [link.text for link, _ in listed] == ["esft", "trace", "corpus", "limits", "zebra"]


def test_the_end_of_a_note_counts_its_bound_numbers_by_kind_of_evidence() -> None:
    root = page(
        "# Title\n\n**{{ v2lite.trace.prompts }} prompts, {{ v2lite.published.trace.date }}, "
        "{{ v2lite.official.parameters.total }}.**\n"
    )
    kinds = root.one("ul", class_="kinds").all("span")
    assert [(k.attributes["data-evidence"], k.text) for k in kinds] == [
        ("official", "1 OFFICIAL"), ("published", "2 PUBLISHED"),
    ]  # fmt: skip


def test_a_figure_that_no_data_holds_is_refused() -> None:
    for line in ("kind=load dataset=esft layer=9 domain=beta", "kind=mla dataset=demo"):
        with pytest.raises(SiteError, match=r"expected"):
            page(f"# Title\n\n**Conclusion.**\n\n::figure {line}\n")


def test_a_note_without_its_twin_is_refused() -> None:
    with pytest.raises(SiteError, match=r"research/zh: expected a.md beside its twin"):
        built("# Title\n\n**Conclusion.**\n")


def test_a_claim_in_a_note_stops_the_build_unless_it_stands_where_it_cannot_be_said() -> None:
    claim = "L4·E29 is the code expert."
    with pytest.raises(SiteError, match=r"guard: en/notes/a.html: .*gives an expert a meaning"):
        page(f"# Title\n\n**Conclusion.**\n\n{claim}\n")
    root = page(f"# Title\n\n**Conclusion.**\n\n::cannot\n\n{claim}\n\n::end\n")
    assert claim in root.text


def test_a_bound_number_leads_to_the_place_that_printed_it() -> None:
    root = page("# Title\n\n**It has {{ v2lite.trace.prompts }} prompts.**\n")
    link = root.one("a", class_="num")
    assert link.text == "4"
    assert link.attributes["href"].startswith("../models/deepseek-v2-lite/published.html#trace.")
