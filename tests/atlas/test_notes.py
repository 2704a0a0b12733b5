"""Notes: what they become, what they may not hold, and that the committed ones are whole."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.bindings import Resolver, Source, sources
from atlas.contract import Evidence
from atlas.errors import SiteError
from atlas.figures import NEEDED, Figure, figure_of
from atlas.guard.markup import markup_problems
from atlas.notes import Heading, Note, NoteLink, check_links, render
from atlas.references import MARK, Reference, parse
from atlas.references import Literal as Declared
from atlas.shelf import shelve
from atlas.strings import Lang
from tests.atlas import notesamples
from tests.atlas.site import samples

ROOT = Path(__file__).parents[2]
RESEARCH = ROOT / "research"
NAMES = ("corpus", "esft", "limits", "reading", "trace")
RESOLVER = notesamples.resolver()
CV = "v2lite.corpus.layer(4).zh_news.cv"


def note(body: str, lang: Lang = "en", resolver: Resolver = RESOLVER) -> Note:
    return render(f"# Title\n\n{body}\n", "sample", resolver, lang)


def refused(body: str, line: int = 3) -> str:
    """The message about a note whose body begins in line 3."""
    with pytest.raises(SiteError) as caught:
        note(body)
    message = str(caught.value)
    assert message.startswith(f"research/en/sample.md, line {line}: "), message
    assert "\n" not in message
    assert "expected" in message
    assert "found" in message
    return message


class Seen(HTMLParser):
    """Tags, attributes and text of a page, as a browser takes them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_note_has_a_title_a_conclusion_and_headings() -> None:
    made = note("**It is so**, {{ v2lite.trace.tokens }} times.\n\n## Why it is\n\n### Really\n\nx")
    assert (made.title, made.lead) == ("Title", "It is so, 90 times.")
    assert made.toc == (Heading(2, "why-it-is", "Why it is"), Heading(3, "really", "Really"))
    assert made.anchors == {"why-it-is", "really"}
    assert "<h1" not in made.html


def test_anchors_of_chinese_headings_are_chinese() -> None:
    made = note("结论。\n\n## 证据 从哪里来\n\n[去](#证据-从哪里来)", "zh")
    assert made.toc == (Heading(2, "证据-从哪里来", "证据 从哪里来"),)


def test_bound_numbers_are_collected_in_their_order_with_evidence() -> None:
    made = note("{{ v2lite.trace.tokens }} and {{ esft.layer(1).law.cv | estimate }}")
    assert [(r.path, r.format, r.text, r.evidence) for r in made.references] == [
        ("v2lite.trace.tokens", None, "90", "published"),
        ("esft.layer(1).law.cv", "estimate", "0.61 [0.61, 0.61]", "imported"),
    ]
    assert made.html.count('<a class="num"') == 2


def test_an_interval_follows_its_point_in_a_paragraph_and_in_a_row() -> None:
    note(f"{{{{ {CV} }}}},\nthat is {{{{ {CV} | interval }}}}.")
    note(f"x\n\n| a | b |\n|---|---|\n| {{{{ {CV} }}}} | {{{{ {CV} | interval }}}} |")


def test_a_bound_number_in_code_is_shown_as_it_is_written() -> None:
    made = note("`{{ esft.nothing }}`\n\n```text\n{{ esft.nothing }} 0.910\n```")
    assert made.references == ()
    assert Seen(made.html).text.count("{{ esft.nothing }}") == 2


def test_a_formula_becomes_mathml_and_leaves_no_tex() -> None:
    html = note("$p_e$ and\n\n$$\nH = -\\sum_e p_e \\log p_e\n$$").html
    assert html.count("<math ") == 2
    opened = '<div class="formula" tabindex="0" role="group" aria-label="Formula">'
    assert f'{opened}<math display="block">' in html
    assert "\\" not in html
    assert "arithmatex" not in html


def test_tables_have_scopes_and_alignment_without_inline_style() -> None:
    html = note("x\n\n| a | b |\n|---|--:|\n| x | y |").html
    assert '<th scope="col" class="align-right">b</th>' in html
    assert "<thead>" in html
    assert "style" not in html


def test_footnotes_lead_there_and_back_in_the_language_of_the_note() -> None:
    html = note("正文[^一]。\n\n[^一]: 脚注。", "zh").html
    assert 'href="#fn:一"' in html
    assert 'title="回到正文"' in html


def test_figures_stand_between_the_pieces_of_html() -> None:
    made = note("Before.\n\n::figure kind=load dataset=esft layer=1 domain=law\n\nAfter.")
    assert [type(part) for part in made.parts] == [str, Figure, str]
    assert made.figures == (Figure("load", "esft", layer=1, domain="law"),)
    assert made.html == "<p>Before.</p>\n\n<p>After.</p>"


def test_what_cannot_be_said_is_marked_so() -> None:
    html = note("x\n\n::cannot\n\n- y\n\n::end\n\nz").html
    assert '<section class="cannot" data-cannot-say="">\n<ul>\n<li>y</li>\n</ul>' in html
    assert html.index("</section>") < html.index("<p>z</p>")


def test_links_go_to_notes_headings_and_pages() -> None:
    made = note("[a](other.md) [b](other.md#there) [c](#here) [d](page:data)\n\n## Here\n\nx")
    assert made.links == (NoteLink(3, "other", ""), NoteLink(3, "other", "there"))
    hrefs = [value for name, value in Seen(made.html).attributes if name == "href"]
    assert hrefs == ["other.html", "other.html#there", "#here", "../data.html"]


def test_links_between_notes_are_checked_when_all_are_there() -> None:
    here = note("[a](other.md#there)")
    there = render("# Other\n\nx\n\n## There\n\ny", "other", RESOLVER, "en")
    check_links({"sample": here, "other": there})
    with pytest.raises(SiteError, match="line 3: expected a note .*found 'other'"):
        check_links({"sample": here})
    empty = render("# Other\n\nx", "other", RESOLVER, "en")
    with pytest.raises(SiteError, match="line 3: expected a heading of other.md, found #there"):
        check_links({"sample": here, "other": empty})


@pytest.mark.parametrize(
    ("body", "line", "part"),
    [
        ("text\n- item", 4, "an empty line above the list"),
        ("text\n1. item", 4, "an empty line above the list"),
        ("- a\n  - b", 4, "indented by 4 spaces"),
        ("text\n| a | b |\n|---|---|\n| 1 | 2 |", 4, "an empty line above the table"),
        ("x\n\n$\\nosuch{p}$", 5, "a known TeX command, found '\\\\nosuch'"),
        ("x\n\n$$\n\\frac{a}{b\n$$", 6, "braces in pairs"),
        ("x\n\n[a](#nowhere)", 5, "a heading of this note, found '#nowhere'"),
        ("x[^a]", 3, "a text of the footnote 'a'"),
        ("x\n\n[^a]: y", 5, "a use of the footnote 'a'"),
        ("x[^a]\n\n[^a]: y\n\n[^a]: z", 7, "one text of the footnote 'a'"),
        ("x <b>bold</b>", 3, "Markdown, found raw HTML '<b>'"),
        ("x <!-- y -->", 3, "Markdown, found raw HTML"),
        ("![x](x.png)", 3, "::figure, found an image"),
        ("[a](https://example.org/)", 3, "a link to another note"),
        ("[a](../secret.md)", 3, "a link to another note"),
        ("[a](page:nowhere)", 3, "a link to another note"),
        ("[{{ esft.tokens }}](page:data)", 3, "a link without a bound number"),
        ("x\n\n## A {{ esft.tokens }}", 5, "a heading without a bound number"),
        ("$n = {{ esft.tokens }}$", 3, "numbers bound in the text"),
        ("{{ esft.tokens", 3, "{{ … }} on one line"),
        ("{{ esft.nothing }}", 3, "found 'nothing'"),
        ("x\n\n{{ nobody.cv }}", 5, "a model with data"),
        (f"{{{{ {CV} | interval }}}}", 3, "the point of"),
        (f"{{{{ {CV} }}}}\n\n{{{{ {CV} | interval }}}}", 5, "the point of"),
        (f"{{{{ {CV} | interval }}}} and {{{{ {CV} }}}}", 3, "the point of"),
        (f"| a |\n|---|\n| {{{{ {CV} }}}} |\n| {{{{ {CV} | interval }}}} |", 6, "the point of"),
        ("x\n\n# Again\n\ny", 1, "one title"),
        ("x\n::cannot\n\ny\n\n::end", 4, "empty lines around"),
        ("::cannot\n\ny", 3, "::end after ::cannot"),
        ("::end", 3, "::figure, or ::cannot"),
        ("::chart", 3, "::figure, or ::cannot"),
        ("::cannot\n\n::figure kind=mla dataset=v2lite\n\n::end", 5, "::figure, or ::cannot"),
        ("::figure kind=load dataset=esft layer=1 domain=maths", 3, "a dataset with this layer"),
        ("::figure kind=load dataset=esft layer=1,4 domain=law", 3, "key=value"),
        ("::figure kind=load dataset=esft layer=all domain=law", 3, "one layer number"),
        ("::figure kind=load dataset=esft domain=law", 3, "kind=load with dataset, layer, domain"),
        ("::figure kind=trail dataset=esft", 3, "kind= one of load"),
        ("::figure kind=metrics dataset=esft measure=beauty", 3, "measure= one of"),
    ],
)
def test_what_a_note_may_not_hold_is_named_with_its_line(body: str, line: int, part: str) -> None:
    assert part in refused(body, line)


@pytest.mark.parametrize("text", ["no title", "## Small\n\nx", "x\n\n# Late", "# A\n\n- x"])
def test_a_note_without_title_or_conclusion_is_refused(text: str) -> None:
    with pytest.raises(SiteError, match="research/zh/n.md, line 1: expected"):
        render(text, "n", RESOLVER, "zh")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("CV 0.910", "0.910"),
        ("CV is 0.910.", "0.910"),
        ("[0.1,0.2]", "0.1"),
        ("**0.91**0", "0.910"),
        ("0\u200b.910", ".910"),
        ("０.９１０", "0.910"),
        ("&#48;.910", "0.910"),
        ("共 8，460 与 304,560 次", "460"),
        ("304560", "304560"),
        ("9%", "9%"),
        ("9 per cent", "9%"),
        ("9％", "9%"),
        ("95% of them", "95%"),
        ("layer 100", "100"),
        ("2000 replicates", "2000"),
        ("$x = 0.910$", "0.910"),
        ("[0.910](page:data)", "0.910"),
        ("| 0.910 |", "0.910"),
        ("x[^a]\n\n[^a]: 0.910", "0.910"),
        ("{{ esft.tokens }}0.5", "0.5"),
    ],
)
def test_a_loose_number_is_refused(text: str, number: str) -> None:
    with pytest.raises(SiteError, match=rf"found {re.escape(number)} loose"):
        note(text)


@pytest.mark.parametrize(
    "text",
    [
        "6 experts of 64, 1/64 each, 99 at most",
        "2026-07-29 and 2026-07-29T05:55:35.599912+00:00",
        "2024 年; in 2024; since 2019",
        "revision 604d5664dddd88a0433dbae533b7fe9472482de0",
        "version 4.41.2 or 2.11.0+cu128",
        "arXiv 2407.01906",
        "`0.910` and ``304,560``",
        "x\n\n~~~\n0.910\n~~~",
        "95% interval, 95 % percentile interval, 95% 区间",
        "BF16, SHA-256, top-6, SM100, L4·E129, GSM8K",
        "{{ literal 0.910 : a coincidence }}",
        "U+\u202e",
    ],
)
def test_a_number_that_is_no_measurement_stays_free(text: str) -> None:
    assert note(text).lead


def test_the_message_about_a_loose_number_names_the_field_that_has_it() -> None:
    assert "v2lite.corpus.layer-4.zh_news.prompt_balanced.cv has it" in refused("x 0.910")
    assert "{{ literal 12.345 : why }}" in refused("x 12.345")


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a]: javascript:alert(1)\n\n[b][a]",
    "<javascript:alert(1)>",
    "[a](data:text/html,x)",
    "[a](&#106;avascript:alert(1))",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\u202etxet\u2066 &#x202e; &#8238;",
    "\ue000\uf8ff &#xe000;",
    "\x00\x1b[31m\x07",
    "```\n<script>alert(1)</script>\n```",
    "{{ v2lite.trace.model }}",
    '{{ literal 5 : "><i onclick=x }}',
    '[a](page:data "x\\" onclick=alert(1)")',
    "x" * 10_000,
    "🙂 \ud7ff",
]


def shown_or_refused(body: str) -> str:
    """HTML of a note; nothing where it is refused, which has to be in one printable line."""
    problem = ""
    try:
        return note(body).html
    except SiteError as error:
        problem = str(error)
    assert problem.isprintable()
    return ""


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_refused_or_shown_as_text(text: str) -> None:
    html = shown_or_refused(f"Text.\n\n{text}")
    seen = Seen(html)
    assert set(seen.tags) <= {"p", "a", "code", "pre", "span"}
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert not [v for n, v in seen.attributes if n == "href" and ":" in v.partition("#")[0]]
    assert all(c.isprintable() or c == "\n" for c in html)


@given(st.text(alphabet="ab <>&\"'[](){}`$|*_#:!-\n\\\u202e/=;^", max_size=80))
def test_no_text_becomes_a_script_or_a_handler(text: str) -> None:
    seen = Seen(shown_or_refused(f"Text.\n\n{text}"))
    assert not {"script", "img", "iframe", "style", "form", "input"} & set(seen.tags)
    assert not [name for name, _ in seen.attributes if name.startswith(("on", "style", "src"))]


def test_direction_marks_are_shown_by_their_code_points() -> None:
    text = Seen(note("a \u202e b &#x202e; c").html).text
    assert text == "a ⟨U+202E⟩ b ⟨U+202E⟩ c"


def parse_reference(text: str) -> Reference:
    parsed = parse(text)
    assert isinstance(parsed, Reference)
    return parsed


def test_the_same_text_is_the_same_html() -> None:
    body = "{{ esft.layer(1).law.cv | estimate }} $x_1$[^a]\n\n[^a]: y"
    assert note(body) == note(body)


# the committed notes


@cache
def committed(lang: Lang) -> dict[str, Note]:
    folder = ROOT / "src" / "data"
    shelf = shelve({path.name: path.read_bytes() for path in sorted(folder.glob("*.json"))})
    labels: dict[Evidence, str] = notesamples.LABELS
    resolver = Resolver(sources(shelf), notesamples.Places(), labels)
    return {
        path.stem: render(path.read_text("utf-8"), path.stem, resolver, lang)
        for path in sorted((RESEARCH / lang).glob("*.md"))
    }


def test_both_languages_have_the_same_notes() -> None:
    for lang in ("en", "zh"):
        assert tuple(committed(lang)) == NAMES
        check_links(committed(lang))


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_headings_figures_and_numbers(name: str) -> None:
    en, zh = committed("en")[name], committed("zh")[name]
    assert [h.level for h in en.toc] == [h.level for h in zh.toc]
    assert en.figures == zh.figures
    numbers = [sorted((r.path, r.format or "") for r in made.references) for made in (en, zh)]
    assert numbers[0] == numbers[1]
    assert [r.text for r in sorted(en.references, key=lambda r: (r.path, r.format or ""))] == [
        r.text for r in sorted(zh.references, key=lambda r: (r.path, r.format or ""))
    ]
    assert [link.note for link in en.links] == [link.note for link in zh.links]
    for tag in ("<table", "<li", "<math", "<section", "<pre", 'class="footnote-ref"'):
        assert en.html.count(tag) == zh.html.count(tag), tag


def test_the_notes_show_a_figure_of_every_kind() -> None:
    kinds = {figure.kind for made in committed("en").values() for figure in made.figures}
    assert kinds == set(NEEDED)


def test_the_examples_for_authors_show_what_they_say() -> None:
    text = (RESEARCH / "README.md").read_text("utf-8").replace("\\|", "|")
    assert len(text.split("\n")) < 60
    folder = ROOT / "src" / "data"
    shelf = shelve({path.name: path.read_bytes() for path in sorted(folder.glob("*.json"))})
    resolver = Resolver(sources(shelf), notesamples.Places(), notesamples.LABELS)
    shown = {}
    for match in MARK.finditer(text):
        if "…" in match["inner"]:
            continue
        parsed = parse(match["inner"])
        if not isinstance(parsed, Declared):
            shown[match["inner"].strip()] = resolver.bind(parsed).text
    assert len(shown) == 5
    published = resolver.bind(parse_reference("v2lite.published.corpus.layer(4).zh_news.cv"))
    assert published.text == "0.910"
    assert shown["esft.layer(20).translation.top_expert"] == "L20·E38"
    for line in text.split("\n"):
        if line.startswith("::figure"):
            figure = figure_of(line)
            assert resolver.has(figure.dataset, figure.layer, figure.domain), line


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", NAMES)
def test_the_guard_lets_the_notes_pass(name: str, lang: Lang) -> None:
    html = committed(lang)[name].html
    page = f"<!doctype html><html><head></head><body><main>{html}</main></body></html>"
    assert markup_problems(f"{lang}/{name}.html", page) == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_literal_that_names_a_file_stands_in_that_file(lang: Lang) -> None:
    found = 0
    for path in sorted((RESEARCH / lang).glob("*.md")):
        for match in MARK.finditer(path.read_text("utf-8")):
            parsed = parse(match["inner"])
            if not isinstance(parsed, Declared) or "benchmarks/" not in parsed.why:
                continue
            file, _, places = parsed.why.partition(", ")
            lines = (ROOT / file).read_text("utf-8").split("\n")
            if places:
                task, drawn = places.split(", ")
                start = next(i for i, line in enumerate(lines) if line.startswith(f"{task}: "))
                lines = [x for x in lines[start + 1 :][:20] if x.startswith(f"| {drawn} |")][:4]
            assert any(parsed.text in line for line in lines), (path.name, parsed)
            found += 1
    assert found


def test_changing_one_printed_digit_changes_the_notes_that_show_it_and_no_other() -> None:
    folder = ROOT / "src" / "data"
    files = {path.name: path.read_bytes() for path in sorted(folder.glob("*.json"))}
    name = "deepseek-v2-lite-published.json"
    # the share of the busiest expert, Chinese news in layer 4, is printed once
    changed = files[name].replace(b'"printed": "9.06%"', b'"printed": "9.07%"')
    changed = changed.replace(b'"value": 9.06,', b'"value": 9.07,')
    assert changed != files[name]
    other = Resolver(
        sources(shelve(files | {name: changed})), notesamples.Places(), notesamples.LABELS
    )
    for note_name in NAMES:
        text = (RESEARCH / "en" / f"{note_name}.md").read_text("utf-8")
        before, after = committed("en")[note_name].html, render(text, note_name, other, "en").html
        assert after == before.replace("9.06%", "9.07%")
        assert (after != before) == ("zh_news.top_share" in text)


def test_on_the_day_of_the_capture_every_note_shows_it_and_keeps_the_rest_as_printed() -> None:
    folder = ROOT / "src" / "data"
    files = {path.name: path.read_bytes() for path in sorted(folder.glob("*.json"))}
    model = json.loads(files["deepseek-v2-lite-published.json"])["model"]
    domains = ("en_encyclopedia", "zh_news", "code", "math")
    counts = samples.random_counts(tuple(range(1, 7)), domains, 64, 6, prompts=3)
    corpus = samples.corpus(counts, 6, evidence="captured", model=model)
    prompts = ("zh_explanation", "en_architecture", "code", "math")
    trace = samples.trace(
        experts=64,
        k=6,
        moe_layers=tuple(range(1, 7)),
        texts={prompt: ["a", "b"] for prompt in prompts},
        evidence="captured",
    )
    held = {alias: list(found) for alias, found in sources(shelve(files)).items()}
    held["v2lite"] = [
        Source("trace.json", "captured", trace),
        Source("corpus.json", "captured", corpus),
        *(source for source in held["v2lite"] if source.evidence != "captured"),
    ]
    resolver = Resolver(
        {alias: tuple(found) for alias, found in held.items()},
        notesamples.Places(),
        notesamples.LABELS,
    )
    load = next(d for d in corpus.layers[3].domains if d.domain == "zh_news").prompt_balanced
    for lang in ("en", "zh"):
        text = (RESEARCH / lang / "corpus.md").read_text("utf-8")
        made = render(text, "corpus", resolver, lang)
        shown = {(r.path, r.format): (r.text, r.evidence) for r in made.references}
        path = "v2lite.corpus.layer(4).zh_news"
        interval = load.cv.percentile
        assert shown[f"{path}.cv", "estimate"] == (
            f"{load.cv.point:.3f} [{interval.low:.3f}, {interval.high:.3f}]",
            "captured",
        )
        assert shown[f"{path}.top_expert", None] == (f"L4·E{load.top_expert}", "captured")
        assert shown["v2lite.corpus.layer(4).prompt_balanced.jsd", None][1] == "captured"
        assert shown["v2lite.corpus.largest_jsd_fraction", None] == ("21.7%", "published")
        text = (RESEARCH / lang / "trace.md").read_text("utf-8")
        made = render(text, "trace", resolver, lang)
        shown = {(r.path, r.format): (r.text, r.evidence) for r in made.references}
        # 4 prompts of 2 tokens, 6 experts, 6 layers
        assert shown["v2lite.trace.selections", None] == ("288", "captured")
        assert shown["v2lite.published.trace.environment.python", None] == (
            "3.10.14",
            "published",
        )
        for name in ("esft", "limits", "reading"):
            render((RESEARCH / lang / f"{name}.md").read_text("utf-8"), name, resolver, lang)
