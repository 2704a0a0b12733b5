"""The whole small site, built in memory: what every page has to hold."""

from __future__ import annotations

import dataclasses
import json
import posixpath
import re
from collections import Counter
from hashlib import sha256
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
from jinja2 import meta, nodes

from atlas.contract import parse
from atlas.effects import Memory
from atlas.errors import SiteError
from atlas.pages.compare import CompareContext
from atlas.pages.data import DataContext
from atlas.pages.datacard import DataCardContext
from atlas.pages.drawing import DrawingContext
from atlas.pages.explore import ExploreContext
from atlas.pages.frame import Writer
from atlas.pages.home import HomeContext, RootContext
from atlas.pages.layer import LayerContext
from atlas.pages.limits import LimitsContext
from atlas.pages.mla import MlaContext
from atlas.pages.model import DomainContext, ModelContext
from atlas.pages.notes import NoteContext, NotesContext, note_pages
from atlas.pages.official import OfficialContext
from atlas.pages.published import PublishedContext
from atlas.pages.routes import RoutesContext
from atlas.pages.trace import TraceContext
from atlas.pages.tracelayer import TraceLayerContext
from atlas.pages.workstation import WorkstationContext
from atlas.render import GLOBALS, environment
from atlas.shelf import shelve
from atlas.site import Difference, Files, build, check, site_pages
from atlas.strings import parse_strings
from atlas.urls import VEGA
from tests.atlas.site import samples
from tests.atlas.site.conftest import (
    DATA,
    OPTIONS,
    OUTPUT,
    ROOT,
    TEMPLATES,
    memory,
    template_files,
)
from tests.atlas.site.parsed import tree

CONTEXTS = {
    "compare.html.j2": CompareContext,
    "data.html.j2": DataContext,
    "data_card.html.j2": DataCardContext,
    "chart.svg.j2": DrawingContext,
    "explore.html.j2": ExploreContext,
    "home.html.j2": HomeContext,
    "root.html.j2": RootContext,
    "layer.html.j2": LayerContext,
    "limits.html.j2": LimitsContext,
    "model.html.j2": ModelContext,
    "domain.html.j2": DomainContext,
    "routes.html.j2": RoutesContext,
    "trace.html.j2": TraceContext,
    "trace_layer.html.j2": TraceLayerContext,
    "mla.html.j2": MlaContext,
    "note.html.j2": NoteContext,
    "notes.html.j2": NotesContext,
    "official.html.j2": OfficialContext,
    "published.html.j2": PublishedContext,
    "workstation.html.j2": WorkstationContext,
}
STRINGS = parse_strings(template_files()["strings.toml"])


def committed(prefix: str) -> dict[str, bytes]:
    """Committed datasets whose names start so: what official files and documents say."""
    return {p.name: p.read_bytes() for p in sorted((ROOT / "src/data").glob(f"{prefix}*.json"))}


@pytest.mark.parametrize("template", sorted(CONTEXTS))
def test_a_template_uses_exactly_the_fields_of_its_context(template: str) -> None:
    sources = {n: b.decode() for n, b in template_files().items() if n.endswith(".j2")}
    env = environment(sources, "en", STRINGS)
    used: set[str] = set()
    waiting, seen = [template], set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            tree_ = env.parse(sources[name])
            # a block does not see that its template imported a macro
            macros = {
                name if isinstance(name, str) else name[1]
                for node in tree_.find_all(nodes.FromImport)
                for name in node.names
            } | {node.name for node in tree_.find_all(nodes.Macro)}
            used |= meta.find_undeclared_variables(tree_) - macros
            waiting += [x for x in meta.find_referenced_templates(tree_) if x is not None]
    fields = {f.name for f in dataclasses.fields(CONTEXTS[template])}
    assert used - set(GLOBALS) == fields


def test_every_template_with_a_page_has_a_context_in_this_test() -> None:
    writer = Writer("en", STRINGS, shelve(samples.folder() | committed("deepseek-v2-lite-")))
    pages = [*site_pages(writer), *note_pages(writer, {"a": "# Title\n\n**Conclusion.**\n"})]
    made = {(p.template, type(p.context)) for p in pages}
    assert made == set(CONTEXTS.items()) - {("root.html.j2", RootContext)}


def test_both_languages_have_the_same_pages(site: dict[str, bytes]) -> None:
    pages = {lang: {n[3:] for n in site if n.startswith(f"{lang}/")} for lang in ("en", "zh")}
    assert pages["en"] == pages["zh"]
    assert len(pages["en"]) > 20


def test_the_pages_follow_from_the_data(site: dict[str, bytes]) -> None:
    real, demo = "en/models/sample-model/", "en/models/sample-demo/"
    own = {n.removeprefix(real) for n in site if n.startswith(real)}
    assert own == {
        "index.html", "compare.html", "explore.html", "routes/index.html", "routes/layer-02.html",
        *(f"load/{d}/index.html" for d in ("alpha", "beta", "gamma")),
        *(f"load/{d}/layer-0{n}.{kind}" for d in ("alpha", "beta", "gamma") for n in (1, 2)
          for kind in ("html", "svg")),
        *(f"explore/layer-0{n}.vl.js" for n in (1, 2)),
    }  # fmt: skip
    assert {"trace/index.html", "trace/layer-01.html", "trace/layer-02.html", "trace/mla.html"} <= {
        n.removeprefix(demo) for n in site if n.startswith(demo)
    }


def test_every_link_and_anchor_leads_somewhere_inside_the_site(
    site: dict[str, bytes], pages: dict[str, str]
) -> None:
    ids = {name: {n.attributes.get("id") for n in tree(t).walk()} for name, t in pages.items()}
    for name, text in pages.items():
        for node in tree(text).walk():
            for attribute in ("href", "src"):
                if attribute not in node.attributes:
                    continue
                url, fragment = urldefrag(node.attributes[attribute])
                target = (
                    posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(url)))
                    if url
                    else name
                )
                # the bundle is there or not; explore pages live with both
                assert target in site or target == VEGA, f"{name}: {url}"
                if fragment:
                    assert fragment in ids[target], f"{name}: {url}#{fragment}"


def test_no_id_stands_twice_on_a_page(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        ids = Counter(n.attributes["id"] for n in tree(text).walk() if "id" in n.attributes)
        assert [i for i, count in ids.items() if count > 1] == [], name


def test_every_page_has_a_strict_policy_and_nothing_that_needs_more(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        root = tree(text)
        policy = root.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
        explore = name.endswith("/explore.html")
        assert policy.startswith("default-src 'none';"), name
        assert "unsafe" not in policy, name
        assert re.findall("script-src[^;]*", policy) == ["script-src 'self'"] * explore, name
        assert [node.text for node in root.all("script")] == ["", ""] * explore, name
        for node in root.walk():
            assert node.tag not in ("style", "iframe", "form"), name
            assert not any(a == "style" or a.startswith("on") for a in node.attributes), name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", _markup_only(text)), name


def _markup_only(text: str) -> str:
    """Tags of a page without its text: a repository's address may be written, not linked."""
    return "".join(re.findall(r"<[^>]*>", text))


def test_every_page_has_one_heading_a_title_a_language_and_a_skip_link(
    pages: dict[str, str],
) -> None:
    for name, text in pages.items():
        root = tree(text)
        assert len(root.all("h1")) == 1, name
        assert root.one("head").one("title").text, name
        html = root.one("html").attributes["lang"]
        assert html == ("zh-Hans" if name.startswith("zh/") else "en"), name
        assert len(root.all("main", id="main")) == 1, name
        if name != "index.html":
            assert root.one("a", class_="skip").attributes["href"] == "#main"


def test_every_table_has_a_caption_and_every_heading_cell_a_scope(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        for table in tree(text).all("table"):
            assert table.one("caption").text, name
            assert all(th.attributes.get("scope") for th in table.all("th")), name


def test_every_page_of_a_model_shows_its_evidence(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        if "/models/sample-model/" in name:
            assert tree(text).all("p", class_="imported"), name
        if "/models/sample-demo/" in name:
            root = tree(text)
            assert root.all("p", class_="demo"), name
            banner = root.one("aside", class_="demo-banner").text
            assert "DeepSeek-V2-Lite" in banner
            assert "is-demo" in root.one("body").attributes["class"]
        if "/models/sample-model/" in name:
            assert not tree(text).all("aside", class_="demo-banner"), name


def test_the_real_record_leads_the_front_pages(pages: dict[str, str]) -> None:
    for name in ("index.html", "en/index.html", "zh/index.html"):
        first = tree(pages[name]).all("a", class_="finding")[0]
        assert "/models/sample-model/" in first.attributes["href"].replace("models", "/models", 1)
    cards = tree(pages["en/index.html"]).all("article", class_="model")
    assert [c.one("h3").text for c in cards] == ["Sample Model", "Sample demo"]


def test_the_root_page_offers_both_languages_and_a_finding_with_its_interval(
    pages: dict[str, str],
) -> None:
    root = tree(pages["index.html"])
    links = [
        (a.attributes["href"], a.attributes["hreflang"]) for a in root.all("a", class_="enter")
    ]
    assert links == [("en/index.html", "en"), ("zh/index.html", "zh-Hans")]
    assert "95 % interval" in root.text
    assert "95 % 区间" in root.text


def test_a_layer_page_shows_the_figures_of_its_dataset(pages: dict[str, str]) -> None:
    corpus = samples.corpus(samples.random_counts((1, 2), ("alpha", "beta", "gamma"), 8, 2), 2)
    load = corpus.layers[1].domains[1].prompt_balanced
    root = tree(pages["en/models/sample-model/load/beta/layer-02.html"])
    p = load.effective_experts.percentile
    assert root.one("h1").text == (
        f"In layer 2, Beta is routed as if to {load.effective_experts.point:.1f} of 8 experts "
        f"95 % interval {p.low:.1f}–{p.high:.1f}"
    )
    rows = root.one("table", class_="values").one("tbody").all("tr")
    shown = [row.all("th")[0].text + " " + row.all("td")[0].text for row in rows]
    assert shown == [f"L2·E{e} {share * 100:.2f}%" for e, share in enumerate(load.shares.point_E)]


def test_a_chart_its_table_and_its_csv_show_the_same_figures(
    site: dict[str, bytes], pages: dict[str, str]
) -> None:
    root = tree(pages["en/models/sample-model/load/beta/layer-02.html"])
    rows = root.one("table", class_="values").one("tbody").all("tr")
    csv = site["data/sample-model/load/beta/layer-02.csv"].decode().splitlines()
    hits = {t.split()[0]: t for t in (n.text for n in root.all("title")) if t.startswith("L2·E")}
    for row, line in zip(rows, csv[1:], strict=True):
        cells = line.split(",")
        name, share, interval = row.all("th")[0].text, row.all("td")[0].text, row.all("td")[1].text
        assert cells[2] == name
        assert f"{cells[4]}%" == share
        assert f"[{cells[5]}%, {cells[6]}%]" == interval
        # the last drawing on the page is token-weighted
        assert hits[name] == f"{name} {cells[8]}% [{cells[9]}%, {cells[10]}%] ×{cells[11]}"


def test_the_json_of_a_chart_is_the_dataset_unrounded(site: dict[str, bytes]) -> None:
    raw = json.loads(site["data/sample-model/load/beta/layer-02.json"])
    corpus = parse(samples.folder()["sample-corpus.json"], "x")
    load = corpus.layers[1].domains[1]  # type: ignore[union-attr]
    assert raw["load"]["prompt_balanced"]["shares"]["point_E"] == list(
        load.prompt_balanced.shares.point_E
    )
    assert raw["source"]["sha256"] == sha256(samples.folder()["sample-corpus.json"]).hexdigest()


def test_a_chart_offers_table_downloads_citation_and_permalink(pages: dict[str, str]) -> None:
    card = tree(pages["en/models/sample-model/load/beta/layer-02.html"]).one("figure", id="chart")
    links = [a.text for a in card.one("p", class_="files").all("a")]
    assert links == ["CSV", "JSON", "Vega-Lite", "SVG", "Link to this chart"]
    citation = card.one("p", class_="citation").text
    assert "sample-corpus.json" in citation
    assert re.search(r"SHA-256 [0-9a-f]{64}", citation)
    assert "95 % percentile interval, 50 resamples of 5 prompts" in card.text


def test_every_group_of_expert_marks_stands_in_one_layer(pages: dict[str, str]) -> None:
    groups = 0
    for name, text in pages.items():
        for svg in tree(text).all("svg"):
            layers = {
                n.attributes["data-layer"] for n in svg.walk() if "data-layer" in n.attributes
            }
            marks = [n for n in svg.walk() if n.attributes.get("data-marks")]
            groups += len(marks)
            assert len(layers) <= 1, name
            assert all(n.attributes.get("data-layer") for n in marks), name
    assert groups > 100


def test_a_drawing_of_its_own_holds_one_layer_and_no_reference_out(site: dict[str, bytes]) -> None:
    drawings = {n: b.decode() for n, b in site.items() if n.endswith(".svg") and "/load/" in n}
    assert len(drawings) == 2 * (3 * 2 + 2 * 2)
    for name, text in drawings.items():
        layers = {n.attributes.get("data-layer") for n in tree(text).walk()} - {None}
        assert layers == {str(int(name[-6:-4]))}
        assert "href" not in text and "url(" not in text


def test_routes_show_six_weights_their_sum_and_why_it_is_under_one(pages: dict[str, str]) -> None:
    trace = samples.trace()
    root = tree(pages["en/models/sample-demo/trace/layer-01.html"])
    moe = trace.layers[1].moe
    assert moe is not None
    rows = root.one("section", id="code").one("tbody").all("tr")
    routes = moe.routes[1]
    for position, row in enumerate(rows):
        cells = [td.text for td in row.all("td")]
        expected = [
            f"L1·E{e} {w:.4f}"
            for e, w in zip(
                routes.expert_ids_TK[position], routes.weights_TK[position], strict=True
            )
        ]
        assert cells[1:3] == expected
        assert cells[3] == f"{sum(routes.weights_TK[position]):.4f}"
        assert cells[4].startswith(f"{routes.margin_T[position]:.4f}")
    assert "norm_topk_prob is false" in root.text


def test_the_mla_page_shows_both_ledgers_and_their_ratio(pages: dict[str, str]) -> None:
    text = tree(pages["en/models/sample-demo/trace/mla.html"]).text
    assert "2 × ((4 + 2) + 4) = 20 elements" in text
    assert "8 + 2 = 10 elements" in text
    assert "Ratio 2.0000×" in text
    assert "50.00%" in text


def test_the_trace_page_says_how_many_checks_were_exact_and_where_it_stopped(
    pages: dict[str, str],
) -> None:
    text = tree(pages["en/models/sample-demo/trace/index.html"]).text
    assert "2 / 2 exact" in text
    assert "Layers 0–2 ran. Layer 3 did not" in text
    assert "model-2.safetensors" in text


def test_the_data_page_names_every_file_with_its_hash(pages: dict[str, str]) -> None:
    text = tree(pages["en/data.html"]).text
    for name, data in samples.folder().items():
        assert name in text
        assert sha256(data).hexdigest() in text


def test_the_manifest_names_every_other_file_with_its_hash(site: dict[str, bytes]) -> None:
    manifest = json.loads(site["manifest.json"])
    expected = {n: sha256(b).hexdigest() for n, b in site.items() if n != "manifest.json"}
    assert manifest == {"schema": "llm-atlas/site@1", "files": expected}


def test_datasets_are_offered_byte_for_byte(site: dict[str, bytes]) -> None:
    for name, data in samples.folder().items():
        assert site[f"data/files/{name}"] == data


def test_the_order_of_the_input_changes_nothing(site: dict[str, bytes]) -> None:
    data = dict(reversed(samples.folder().items()))
    templates = dict(reversed(template_files().items()))
    effects = Memory({DATA: data, TEMPLATES: templates})
    assert build(OPTIONS, effects) == site


def test_check_names_what_differs_what_is_missing_and_what_is_unexpected() -> None:
    effects = memory()
    build(OPTIONS, effects)
    assert check(OPTIONS, effects) == ()
    folder = effects.folders[OUTPUT]
    folder["assets/vendor/vega.js"] = b"third party, ignored"
    assert check(OPTIONS, effects) == ()
    folder["en/index.html"] += b" "
    del folder["zh/limits.html"]
    folder["stray.html"] = b"x"
    assert check(OPTIONS, effects) == (
        Difference("differs", "en/index.html"),
        Difference("unexpected", "stray.html"),
        Difference("missing", "zh/limits.html"),
    )


def test_two_sources_for_one_file_are_an_error_even_if_case_differs() -> None:
    files = Files()
    files.add("a/Index.html", b"x", "first")
    with pytest.raises(SiteError, match=r"a/index.html: expected one source, found two: first and"):
        files.add("a/index.html", b"x", "second")


def test_a_folder_without_data_is_refused() -> None:
    with pytest.raises(SiteError, match=r"data: expected datasets \(\*.json\), found none"):
        build(OPTIONS, memory({"readme.txt": b"x"}))


def test_a_broken_dataset_leaves_the_old_site() -> None:
    effects = memory()
    build(OPTIONS, effects)
    before = dict(effects.folders[OUTPUT])
    effects.folders[DATA]["demo-trace.json"] = b'{"schema": "llm-atlas/trace@1"}'
    with pytest.raises(SiteError, match=r"demo-trace.json: "):
        build(OPTIONS, effects)
    assert effects.folders[OUTPUT] == before


HOSTILE = {
    "script": "<script>alert(1)</script>",
    "attribute": '" onmouseover="alert(1)',
    "link": "javascript:alert(1)",
    "direction": "\u202egnihton\u202c",
    "control": "bell\x07 null\x00 escape\x1b[31m",
    "emoji": "👩‍👩‍👧 🤖",
    "template": "{{ 7 * 7 }} {% raw %}",
    "expert": "E29 is the code expert",
    "long": "x" * 10_000,
    "cdata": "]]><!-- --><![CDATA[",
}


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_text_in_prompts_and_labels_is_shown_as_text(kind: str) -> None:
    text = HOSTILE[kind]
    trace = samples.trace(texts={"zh_explanation": [text, "b"], "code": ["c\n", "\td"]})
    titles = {"alpha": {"en": text[:200], "zh": text[:200]}} if kind != "expert" else {}
    counts = samples.random_counts((1,), ("alpha", "beta"), 8, 2)
    data = {
        "trace.json": samples.canonical_json(trace),
        "corpus.json": samples.canonical_json(samples.corpus(counts, 2, titles=titles)),
    }
    files = build(OPTIONS, memory(data))
    for name, page in files.items():
        if not name.endswith((".html", ".svg")):
            continue
        markup = page.decode("utf-8")
        root = tree(markup)
        scripts = 2 if name.endswith("/explore.html") else 0
        assert [n.text for n in root.all("script")] == [""] * scripts, name
        assert not any(a.startswith("on") for n in root.walk() for a in n.attributes), name
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", markup), name
        if kind == "template" and name.endswith("alpha/layer-01.html"):
            assert text in root.one("head").one("title").text
    shown = tree(files["en/models/sample-demo/trace/index.html"].decode()).all("blockquote")[0].text
    expected = "".join(c if c.isprintable() else f"⟨U+{ord(c):04X}⟩" for c in f"{text}b")
    assert shown == " ".join(expected.split())


def test_the_line_breaks_of_a_prompt_are_kept() -> None:
    trace = samples.trace(texts={"code": ["def f():\n", "    return 1\n", "\n", "    # end"]})
    data = {"trace.json": samples.canonical_json(trace)}
    page = build(OPTIONS, memory(data))["en/models/sample-demo/trace/index.html"].decode()
    block: Any = tree(page).one("blockquote")
    assert "".join(block.children) == "def f():\n    return 1\n\n    # end"


def test_pages_stay_small(site: dict[str, bytes]) -> None:
    assert max(len(b) for n, b in site.items() if n.endswith(".html")) < 60_000
