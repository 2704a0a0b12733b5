# ruff: noqa: E501 (a spec and its markup read best on one line)
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from atlas.errors import SiteError
from atlas.guard import inspect, require_clean
from atlas.guard.markup import markup_problems
from tests.atlas.site.conftest import ROOT

REFUSED_TEXTS = [
    # an expert without its layer
    "E29 takes nine percent",
    "the share of E0",
    "专家E29的份额",
    "Ｅ２９ in full-width letters",
    "E\u200b29 with a character that nobody sees",
    "expert 29 is the most loaded",
    "Expert #7 leads",
    "29 号专家份额最高",
    "专家 29 号",
    # a claim that gives an expert a meaning
    "L4·E29 is the code expert",
    "L4·E29 specialises in mathematics",
    "this expert understands Chinese",
    "a translation expert",
    "an expert for law",
    "L4·E29 是代码专家",
    "L4·E29 擅长翻译",
    "该专家专门负责中文",
    "它是“数学”专家",
    "L4·E29 ｉｓ the ｃｏｄｅ expert",
    "L4·E29 is the <b>code</b> expert",
    "L4·E29 is the co<wbr>de expert",
    "L4·E29 is the &#99;ode expert",
    # an interval read as a test
    "the difference is significant",
    "p < 0.05",
    "the interval excludes 0, so the domains differ",
    "we reject the null hypothesis",
    "差异显著",
    "区间不含 0，因此两者不同",
    "拒绝原假设",
]
ALLOWED_TEXTS = [
    "L4·E29 takes 7.93% of the selections",
    "the top expert of layer 4 is L4·E51",
    "64 experts, 6 selected per token",
    "the interval lies above the uniform share",
    "expert 29 of layer 4",
    "第 4 层的 29 号专家",
    "half of the selections go to 10 experts",
    "一半的选择落在 10 个专家上",
    "SHA-256 0d7e9f39bde40111a4c0f390b87497dce4565cf578d916395e6b2c7851f1e8da",
    "smallest margin 6.37e-05, 1E5 tokens",
    "prompts of the law domain",
    "mixture-of-experts",
    "<code>E29</code>",
    '<span data-quoted="">E29 is the code expert</span>',
    '<p data-cannot-say="">L4·E51 is not the translation expert.</p>',
    '<p data-cannot-say="">Whether a difference is significant.</p>',
    '<p data-cannot-say="">expert 7 of one layer and expert 7 of another</p>',
]
REFUSED_MARKUP = {
    "two layers joined": '<svg><g data-layer="1" data-marks="expert"><path d="M0 0"/></g>'
    '<g data-layer="2"><path d="M0 0"/></g><path class="trail" d="M0 0L9 9"/></svg>',
    "joined by a line": '<svg><line x1="0"/><g data-layer="1"></g><g data-layer="2"></g></svg>',
    "joined by a use": '<svg><g data-layer="1"></g><g data-layer="2"></g><use href="#t"/></svg>',
    "nested layers": '<svg><g data-layer="1"><g data-layer="2"><path d="M0 0"/></g></g></svg>',
    "marks of no layer": '<svg><g data-marks="expert"><path d="M0 0"/></g></svg>',
    "two numbers": '<svg><g data-layer="1 2" data-marks="expert"></g></svg>',
    "a full-width number": '<svg><g data-layer="１" data-marks="expert"></g></svg>',
    "a script": "<script>x</script>",
    "a script in capitals": "<SCRIPT>x</SCRIPT>",
    "a frame": '<iframe srcdoc="x"></iframe>',
    "a form": '<form action="x"></form>',
    "a handler": '<p onclick="x">y</p>',
    "an inline style": '<p style="color:red">y</p>',
    "a style sheet in the page": "<style>p{}</style>",
    "a link out": '<a href="https://example.org">x</a>',
    "a link without scheme": '<a href="//example.org">x</a>',
    "a link with a tab": '<a href="java&#9;script:x">x</a>',
    "a javascript link": '<a href=" javascript:alert(1)">x</a>',
    "a data image": '<img src="data:image/png;base64,x" alt="">',
    "foreign content": "<svg><foreignObject></foreignObject></svg>",
    "an attribute without quotes": "<p class=x>y</p>",
    "an apostrophe attribute": "<p class='x'>y</p>",
    "an element that is not closed": "<div><p>x</p>",
    "elements out of order": "<b><i>x</b></i>",
    "a loose bracket": "<p>a < b</p>",
    "a comment": "<!-- hidden -->",
    "an expert in a title attribute": '<p title="E29 leads">x</p>',
    "a claim in a label": '<p aria-label="the code expert">x</p>',
    "a claim in the description": '<meta name="description" content="the code expert">',
}
ALLOWED_MARKUP = {
    "one layer": '<svg><path d="M0 0"/><g data-layer="1" data-marks="expert"><path d="M0 0"/></g></svg>',
    "two layers apart": '<svg><g data-layer="1"><path d="M0 0"/></g>'
    '<g data-layer="2"><path d="M0 0"/></g></svg>',
    "two drawings": '<svg><g data-layer="1"></g></svg><svg><g data-layer="2"></g></svg>',
    "layer inside its own": '<svg><g data-layer="1"><g data-layer="1"><path d="M0 0"/></g></g></svg>',
    "an anchor": '<a href="#chart">x</a>',
    "a relative link": '<a href="../x/layer-01.html">x</a>',
    "a void element": '<p>a<br>b<input type="radio" checked></p>',
}


@pytest.mark.parametrize("text", REFUSED_TEXTS)
def test_a_text_that_figures_cannot_carry_is_refused(text: str) -> None:
    (problem, *_) = markup_problems("en/x.html", f"<div><p>{text}</p></div>")
    assert problem.file == "en/x.html"
    assert problem.place == "line 1"


@pytest.mark.parametrize("text", ALLOWED_TEXTS)
def test_a_text_that_says_what_figures_show_passes(text: str) -> None:
    assert markup_problems("en/x.html", f"<div>{text}</div>") == []


@pytest.mark.parametrize("case", sorted(REFUSED_MARKUP))
def test_markup_that_joins_layers_runs_or_leaves_is_refused(case: str) -> None:
    assert markup_problems("x.html", f"<div>{REFUSED_MARKUP[case]}</div>") != []


@pytest.mark.parametrize("case", sorted(ALLOWED_MARKUP))
def test_markup_that_keeps_layers_apart_passes(case: str) -> None:
    assert markup_problems("x.html", f"<div>{ALLOWED_MARKUP[case]}</div>") == []


def test_a_drawing_of_its_own_shows_exactly_one_layer() -> None:
    two = '<svg><g data-layer="1"></g><g data-layer="2"></g></svg>'
    assert "found 1, 2" in str(markup_problems("x.svg", two)[0])
    assert "found none" in str(markup_problems("x.svg", "<svg></svg>")[0])
    assert markup_problems("x.svg", '<svg><g data-layer="1"></g></svg>') == []


def test_a_problem_names_file_and_line() -> None:
    (problem,) = markup_problems("zh/a.html", "<p>one</p>\n<p>two</p>\n<p>E29 leads</p>")
    assert str(problem) == "zh/a.html: line 3: expert without its layer: 'E29 leads'"


def test_the_small_site_is_clean(site: dict[str, bytes]) -> None:
    assert inspect(site) == []


def test_a_build_stops_at_the_first_problem_and_counts_the_others() -> None:
    with pytest.raises(SiteError, match=r"guard: a.html: line 1: .* \(and 1 more\)"):
        require_clean({"a.html": b"<p>E29</p>", "b.html": b"<script></script>"})


# --- Vega-Lite ---


def rows(*layers: int, expert: str = "expert", layer: str = "layer") -> list[dict[str, Any]]:
    return [{expert: e, layer: n, "share": 0.5} for n in layers for e in (0, 1)]


def named(*layers: int) -> list[dict[str, Any]]:
    return [{"id": f"L{n}·E{e}", "share": 0.5} for n in layers for e in (0, 1)]


def bars(data: Any, mark: Any = "bar", **encoding: Any) -> dict[str, Any]:
    base = {"x": {"field": "expert"}, "y": {"field": "share"}}
    return {"data": data, "mark": mark, "encoding": base | encoding}


ONE = {"values": rows(4)}
TWO = {"values": rows(4, 5)}

REFUSED_SPECS: dict[str, dict[str, Any]] = {
    "two layers in one dataset": bars(TWO),
    "two layers, filtered": bars(TWO) | {"transform": [{"filter": "datum.layer == 4"}]},
    "two layers in a facet": {"data": TWO, "facet": {"row": {"field": "layer"}}, "spec": bars({"name": "x"})},
    "two layers in a row channel": bars(TWO, row={"field": "layer"}),
    "two layers in a repeat": {"data": TWO, "repeat": ["share"], "spec": bars({"name": "x"})},
    "nested facets": {"data": TWO, "facet": {"field": "layer"}, "spec": {"facet": {"field": "share"}, "spec": bars({"name": "x"})}},
    "named data": {"datasets": {"a": rows(1, 2)}, **bars({"name": "a"})},
    "data behind a url": bars({"url": "two.json"}),
    "csv behind a url": bars({"url": "two.csv"}),
    "data that nobody can see": bars({"url": "https://example.org/x.json"}),
    "data that is not there": bars({"url": "gone.json"}),
    "inline csv": bars({"values": "expert,layer,share\n0,4,0.5\n0,5,0.5\n"}),
    "a layer in a string": bars({"values": [{"expert": 0, "layer": "layer 4"}, {"expert": 0, "layer": "layer 5"}]}),
    "a layer in an expert's name": bars({"values": named(4, 5)}),
    "a layer in full-width characters": bars({"values": [{"id": "Ｌ４·Ｅ１"}, {"id": "L5·E1"}]}),
    "a renamed column": bars({"values": rows(4, 5, expert="Expert_ID", layer="LAYER_NO")}),
    "experts of no layer": bars({"values": [{"expert": 0, "share": 1.0}]}),
    "bare names of no layer": bars({"values": [{"id": "E0", "share": 1.0}]}),
    "generated experts": bars({"sequence": {"start": 0, "stop": 64, "as": "expert"}}),
    "a second dataset by lookup": bars(ONE) | {"transform": [{"lookup": "expert", "from": {"data": TWO, "key": "expert", "fields": ["share"]}}]},
    "a line": bars(ONE, mark="line"),
    "a line as an object": bars(ONE, mark={"type": "line", "point": True}),
    "a trail": bars(ONE, mark="trail"),
    "an area": bars(ONE, mark="area"),
    "a rule": bars(ONE, mark="rule"),
    "an error band": bars(ONE, mark="errorband"),
    "an area with a line": bars(ONE, mark={"type": "area", "line": True}),
    "a point with a line": bars(ONE, mark={"type": "point", "line": True}),
    "a line over names": {"data": {"values": named(4)}, "mark": "line", "encoding": {"x": {"field": "id"}}},
    "a line over a renamed field": bars(ONE, mark="line", x={"field": "who"}) | {"transform": [{"calculate": "datum.expert", "as": "who"}]},
    "a line over a field renamed twice": bars(ONE, mark="line", x={"field": "b"}) | {"transform": [{"calculate": "datum['expert']", "as": "a"}, {"calculate": "datum.a + 1", "as": "b"}]},
    "a line over an aggregated field": bars(ONE, mark="line", x={"field": "m"}) | {"transform": [{"aggregate": [{"op": "max", "field": "expert", "as": "m"}], "groupby": ["layer"]}]},
    "a line by detail": bars(ONE, mark="line", x={"field": "layer"}, detail={"field": "expert"}),
    "a line by order": bars(ONE, mark="line", x={"field": "share"}, order={"field": "expert"}),
    "a line under an encoding from above": {"data": ONE, "encoding": {"x": {"field": "expert"}}, "layer": [{"mark": "bar"}, {"mark": "line"}]},
    "a line deep in a concat": {"data": ONE, "hconcat": [{"vconcat": [{"layer": [bars({"name": "x"}, mark="line")]}]}]},
    "a line by condition": bars(ONE, mark="line", x={"field": "share"}, color={"condition": {"test": "datum.expert == 1", "value": "red"}, "value": "grey"}),
    "colour across concatenated layers": {"hconcat": [bars({"values": rows(4)}, color={"field": "expert"}), bars({"values": rows(5)}, color={"field": "expert"})]},
    "detail across concatenated layers": {"vconcat": [bars({"values": rows(4)}, detail={"field": "expert"}), bars({"values": rows(5)})]},
    "a selection across concatenated layers": {"params": [{"name": "p", "select": {"type": "point", "fields": ["expert"]}}], "hconcat": [bars({"values": rows(4)}), bars({"values": rows(5)})]},
    "colour across layered layers": {"layer": [bars({"values": rows(4)}, color={"field": "expert"}), bars({"values": rows(5)})]},
    "colour by names across layers": {"concat": [bars({"values": named(4)}, color={"field": "id"}), bars({"values": named(5)}, color={"field": "id"})]},
    "a list instead of a spec": [bars(ONE)],  # type: ignore[dict-item]
}  # fmt: skip

ALLOWED_SPECS: dict[str, Any] = {
    "bars of one layer": bars(ONE),
    "points of one layer": bars(ONE, mark="point"),
    "names of one layer": {"data": {"values": named(4)}, "mark": "bar", "encoding": {"x": {"field": "id"}}},
    "one layer behind a url": bars({"url": "one.json"}),
    "one layer as csv": bars({"url": "one.csv"}),
    "one named layer": {"datasets": {"a": rows(1)}, **bars({"name": "a"})},
    "colour in one layer": bars(ONE, color={"field": "expert"}),
    "a selection in one layer": bars(ONE) | {"params": [{"name": "p", "select": {"type": "point", "fields": ["expert"]}}]},
    "ticks": bars(ONE, mark="tick"),
    "a uniform line that knows no expert": {"layer": [bars(ONE), {"data": {"values": [{"u": 0.5}]}, "mark": "rule", "encoding": {"y": {"field": "u"}}}]},
    "a line over layers without experts": {"data": {"values": [{"layer": n, "cv": 0.5} for n in (1, 2)]}, "mark": "line", "encoding": {"x": {"field": "layer"}, "y": {"field": "cv"}}},
    "a line over ranks of one layer": {"data": {"values": [{"rank": 1, "layer": 4}]}, "mark": "line", "encoding": {"x": {"field": "rank"}}},
    "two layers side by side": {"hconcat": [bars({"values": rows(4)}), bars({"values": rows(5)})]},
    "domains of one layer in a facet": {"data": {"values": [r | {"domain": d} for r in rows(4) for d in "ab"]}, "facet": {"row": {"field": "domain"}}, "spec": bars({"name": "x"})},
    "a sorted axis": bars(ONE, x={"field": "expert", "sort": "-y"}),
    "a calculated multiple": bars(ONE, y={"field": "m"}) | {"transform": [{"calculate": "datum.share * 64", "as": "m"}]},
    "a tooltip": bars(ONE, tooltip=[{"field": "expert"}, {"field": "share"}]),
    "a filter on a domain": bars(ONE) | {"transform": [{"filter": {"field": "share", "gt": 0}}]},
    "a text mark": bars(ONE, mark="text", text={"field": "share"}),
    "an empty dataset": bars({"values": []}),
    "one layer as text": bars({"values": [{"expert": 0, "layer": "layer 4"}]}),
}  # fmt: skip

FILES = {
    "specs/one.json": json.dumps(rows(4)).encode(),
    "specs/two.json": json.dumps(rows(4, 5)).encode(),
    "specs/one.csv": b"expert,layer,share\n0,4,0.5\n",
    "specs/two.csv": b"expert,layer,share\n0,4,0.5\n0,5,0.5\n",
}


@pytest.mark.parametrize("case", sorted(REFUSED_SPECS))
def test_a_spec_that_can_join_experts_across_layers_is_refused(case: str) -> None:
    spec = json.dumps(REFUSED_SPECS[case]).encode()
    problems = inspect(FILES | {"specs/x.vl.json": spec})
    assert problems
    assert all(p.file == "specs/x.vl.json" and p.place.startswith("spec") for p in problems)


@pytest.mark.parametrize("case", sorted(ALLOWED_SPECS))
def test_a_spec_of_one_layer_passes(case: str) -> None:
    spec = json.dumps(ALLOWED_SPECS[case]).encode()
    assert inspect(FILES | {"specs/x.vl.json": spec}) == []


def test_there_are_forty_refusals_and_twenty_passes_of_specs() -> None:
    assert len(REFUSED_SPECS) >= 40
    assert len(ALLOWED_SPECS) >= 20


SCRIPTED = {
    "a script inside the page": '<script src="../../../assets/explore.js" defer>run()</script>',
    "a script without a source": "<script defer></script>",
    "another script": '<script src="../../../assets/other.js" defer></script>',
    "a script from elsewhere": '<script src="https://example.org/assets/explore.js" defer></script>',
    "a script as a module": '<script type="module" src="../../../assets/explore.js" defer></script>',
}


@pytest.mark.parametrize("case", sorted(SCRIPTED))
def test_an_explore_page_names_its_two_scripts_and_nothing_else(case: str) -> None:
    assert markup_problems("en/models/x/explore.html", SCRIPTED[case])


def test_the_two_scripts_are_for_explore_pages_only() -> None:
    known = "".join(
        f'<script src="../../../assets/{n}.js" defer></script>' for n in ("vendor/vega", "explore")
    )
    assert markup_problems("en/models/x/explore.html", known) == []
    assert len(markup_problems("en/models/x/index.html", known)) == 2


@pytest.mark.parametrize(
    "script",
    [
        b'atlasLayer({"mark":"bar"});alert(1);\n',
        b'alert(1);atlasLayer({"mark":"bar"});\n',
        b"atlasLayer(alert(1));\n",
        b'atlasLayer(["mark"]);\n',
        b"",
    ],
)
def test_a_script_that_does_more_than_hand_over_a_spec_is_refused(script: bytes) -> None:
    (problem,) = inspect({"en/x/layer-01.vl.js": script})
    assert problem.text == "expected a script that holds one spec and nothing else"


@pytest.mark.parametrize("case", ["an area", "colour by names across layers"])
def test_a_spec_inside_a_script_is_looked_at(case: str) -> None:
    script = f"atlasLayer({json.dumps(REFUSED_SPECS[case])});\n"
    assert [p.file for p in inspect({"en/x/layer-01.vl.js": script.encode()})]
    assert (
        inspect({"en/x/layer-01.vl.js": f"atlasLayer({json.dumps(bars(ONE))});\n".encode()}) == []
    )


def test_a_script_that_nobody_knows_is_refused() -> None:
    assert inspect({"assets/explore.js": b"", "assets/vendor/vega.js": b""}) == []
    assert [p.file for p in inspect({"en/x.js": b"", "assets/x.mjs": b""})] == [
        "assets/x.mjs",
        "en/x.js",
    ]


def test_the_guard_runs_alone_and_names_every_problem(tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text("<p>E29 leads</p>", encoding="utf-8")
    command = [sys.executable, "-m", "atlas.guard", str(tmp_path)]
    env = {"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert run.returncode == 1
    assert run.stdout.splitlines() == [
        "bad.html: line 1: expert without its layer: 'E29 leads'",
        "guard: 1 problem",
    ]
    (tmp_path / "bad.html").unlink()
    assert subprocess.run(command, capture_output=True, env=env, check=False).returncode == 0
