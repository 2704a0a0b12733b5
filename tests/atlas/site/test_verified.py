"""Captured files beside published figures: the pages show both, and how much came back."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from atlas.canonical import canonical_json
from atlas.contract import RoutingCorpus, Trace, Verification, parse
from atlas.errors import SiteError
from atlas.shelf import shelve
from atlas.site import build
from capture.verify import verify
from tests.atlas.site.conftest import OPTIONS, memory
from tests.atlas.site.parsed import Node, tree
from tests.atlas.site.test_printed import NAME, SECTIONS, committed, published
from tests.capture.published_files import corpus_with, trace_with

MODEL = "models/deepseek-v2-lite"
TRACE, CORPUS = "deepseek-v2-lite-trace.json", "deepseek-v2-lite-routing-corpus.json"
REPORT = "deepseek-v2-lite-verification.json"


@cache
def captured() -> dict[str, bytes]:
    """Synthetic captured files; one Gini of the trace is not the printed one."""
    trace = trace_with(published()).model_dump(mode="json", by_alias=True)
    trace["layers"][1]["moe"]["summary"]["gini"] = 0.4229
    return {TRACE: canonical_json(trace), CORPUS: canonical_json(corpus_with(published()))}


def verification(name: str) -> bytes:
    """Report on one captured file, as the command writes it."""
    dataset = parse(captured()[name], name)
    assert isinstance(dataset, Trace | RoutingCorpus)
    against = committed()[NAME]
    return canonical_json(verify(dataset, captured()[name], name, published(), against, NAME))


@cache
def pages(*names: str, reports: tuple[str, ...] = ()) -> dict[str, str]:
    """HTML of a site of the committed files and these captured ones."""
    data = committed() | {name: captured()[name] for name in names}
    for number, name in enumerate(reports):
        data[REPORT if number == 0 else f"more-{REPORT}"] = verification(name)
    files = build(OPTIONS, memory(data))
    return {name: content.decode() for name, content in files.items() if name.endswith(".html")}


def model(*names: str, lang: str = "en", reports: tuple[str, ...] = ()) -> Node:
    return tree(pages(*names, reports=reports)[f"{lang}/{MODEL}/index.html"])


def kinds(root: Node) -> list[str]:
    mixed = root.one("div", class_="mixed")
    return [b.one("strong").text for b in mixed.all("p", class_="badge")]


def test_a_captured_trace_is_shown_beside_the_printed_table_each_with_its_badge() -> None:
    assert not model().all("section", id="trace")
    root = model(TRACE)
    own = root.one("section", id="trace")
    assert own.all("p", class_="captured") and not own.all("p", class_="published")
    assert len(own.one("tbody").all("tr")) == 6
    # the stored population CV of layer 1: 0.925 as printed, times the root of 63/64, is 0.918
    assert own.one("tbody").all("tr")[0].all("td")[3].text == "0.92"
    assert "population" in own.text
    assert root.one("section", id="printed-trace").all("p", class_="published")
    assert kinds(root) == ["CAPTURED", "OFFICIAL", "PUBLISHED"]
    assert f"en/{MODEL}/trace/layer-01.html" in pages(TRACE)
    missing = root.one("section", id="missing").one("pre").text
    assert "-m capture corpus " in missing and "-m capture trace " not in missing


def test_a_captured_corpus_leads_and_the_printed_figures_stay() -> None:
    root = model(CORPUS)
    assert root.one("h1").text.startswith("6 layers, 4 text domains")
    for name in ("matrix", "ranks"):
        assert root.one("section", id=name).all("p", class_="captured"), name
    assert {s.attributes.get("id") for s in root.all("section")} >= set(SECTIONS)
    assert f"en/{MODEL}/load/zh_news/layer-04.html" in pages(CORPUS)
    assert f"en/{MODEL}/load/zh_news/layer-04.html" not in pages()
    # the home page leads with what was run here
    home = tree(pages(CORPUS)["en/index.html"])
    assert home.all("section")[0].one("p", class_="badge").one("strong").text == "CAPTURED"


@pytest.mark.parametrize(
    ("lang", "line"),
    [
        ("en", "Verified against published: {n} of {m} equal"),
        ("zh", "与文献数字核对：{m} 个中 {n} 个一致"),
    ],
)
def test_the_line_counts_what_came_back(lang: str, line: str) -> None:
    report = parse(verification(TRACE), REPORT)
    assert isinstance(report, Verification)
    # that Gini, and the highest of the range over the layers
    assert (report.counts.equal, report.counts.differs) == (154, 2)
    root = model(TRACE, lang=lang, reports=(TRACE,))
    wanted = line.format(n=154, m=156)
    (shown,) = root.all("div", class_="verified")
    assert shown.text.startswith(wanted) and TRACE in shown.text
    assert shown.one("span", class_="captured")
    assert shown.one("a").attributes["href"].endswith(f"data/files/{REPORT}")
    own = tree(pages(TRACE, reports=(TRACE,))[f"{lang}/{MODEL}/trace/index.html"])
    assert own.one("div", class_="verified").text.startswith(wanted)
    assert not model(TRACE, lang=lang).all("div", class_="verified")


def test_every_file_has_its_line_and_nothing_is_missing_any_more() -> None:
    root = model(TRACE, CORPUS, reports=(TRACE, CORPUS))
    lines = [d.one("strong").text for d in root.all("div", class_="verified")]
    assert lines == [
        f"Verified against published: 154 of 156 equal ({TRACE})",
        f"Verified against published: 196 of 196 equal ({CORPUS})",
    ]
    assert not root.all("section", id="missing")


def test_the_published_page_says_what_became_of_each_figure() -> None:
    root = tree(pages(TRACE, reports=(TRACE,))[f"en/{MODEL}/published.html"])
    last = {
        identity: root.one("tr", id=identity).all("td")[-1].text
        for identity in ("trace.layer-1.gini", "trace.layer-2.gini", "corpus.ln_2")
    }
    assert last == {
        "trace.layer-1.gini": "differs: 0.423",
        "trace.layer-2.gini": "equal",
        "corpus.ln_2": "equal",
    }
    before = tree(pages(TRACE)[f"en/{MODEL}/published.html"])
    assert len(before.one("tr", id="corpus.ln_2").all("td")) == 4


@pytest.mark.parametrize("name", ["data", "against"])
def test_a_report_on_other_bytes_is_refused(name: str) -> None:
    report = json.loads(verification(TRACE))
    report[name]["sha256"] = "0" * 64
    files = committed() | {TRACE: captured()[TRACE], REPORT: json.dumps(report).encode()}
    with pytest.raises(SiteError, match=rf"{REPORT}: {name}.sha256: expected .* found 0000"):
        shelve(files)


def test_two_reports_on_one_file_are_refused() -> None:
    again = json.loads(verification(TRACE))
    again["data"]["name"] = "renamed.json"
    files = committed() | {TRACE: captured()[TRACE], REPORT: verification(TRACE)}
    files["deepseek-v2-lite-verification-2.json"] = json.dumps(again).encode()
    with pytest.raises(SiteError, match=r"expected one verification of renamed.json per model"):
        shelve(files)


def test_a_figure_of_a_note_has_the_badge_of_its_own_file_and_not_the_best_of_the_model() -> None:
    note = "# Title\n\n**One.**\n\n::figure kind=mla dataset=v2lite\n"
    note += "\n::figure kind=metrics dataset=v2lite measure=cv\n"
    texts = {f"{lang}/a.md": note.encode() for lang in ("en", "zh")}
    found = {}
    for name in ("", TRACE, CORPUS):
        effects = memory(committed() | ({name: captured()[name]} if name else {}))
        effects.folders[Path("research")] = texts
        page = build(replace(OPTIONS, notes=Path("research")), effects)["en/notes/a.html"]
        figures = tree(page.decode()).all("figure", class_="chart")
        found[name] = [f.one("figcaption").one("strong").text for f in figures]
    assert found == {
        "": ["OFFICIAL", "PUBLISHED"],
        TRACE: ["CAPTURED", "PUBLISHED"],
        CORPUS: ["OFFICIAL", "CAPTURED"],
    }
