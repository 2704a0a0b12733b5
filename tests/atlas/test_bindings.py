"""References to fields of datasets: grammar, what they show, where they lead, what is refused."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.bindings import BindingError, Bound, Resolver, sources
from atlas.contract import Published
from atlas.references import GrammarError, Literal, Reference, Step, parse
from atlas.shelf import shelve
from tests.atlas import notesamples
from tests.atlas.site import samples

RESOLVER = notesamples.resolver()


def bound(text: str, resolver: Resolver = RESOLVER) -> Bound:
    reference = parse(text)
    assert isinstance(reference, Reference)
    return resolver.bind(reference)


def refused(text: str, resolver: Resolver = RESOLVER) -> str:
    with pytest.raises((GrammarError, BindingError)) as caught:
        bound(text, resolver)
    message = str(caught.value)
    assert "\n" not in message
    assert "expected" in message
    assert "found" in message
    return message


def test_a_reference_is_an_alias_steps_and_a_format() -> None:
    assert parse(" esft.layer(4).jsd(law, zh_news) | interval ") == Reference(
        "esft", (Step("layer", ("4",)), Step("jsd", ("law", "zh_news"))), "interval"
    )


def test_a_literal_is_a_number_and_a_reason() -> None:
    assert parse("literal 304,560 : 8,460 × 6 × 6") == Literal("304,560", "8,460 × 6 × 6")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "esft",
        "esft.",
        ".cv",
        "esft..cv",
        "esft.layer()",
        "esft.layer(4",
        "esft.layer(4))",
        "esft.layer(4)(5)",
        "esft.cv |",
        "esft.cv | a b",
        "esft.cv | a | b",
        "esft.cv + 1",
        "esft[0]",
        'esft.layer("4")',
        "esft.layer(__import__('os'))",
        "1 + 1",
        "literal 5",
        "literal 5 :",
        "literal : why",
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    refused(text)


@given(st.text(max_size=60))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        parsed = parse(text)
    except GrammarError:
        return
    assert isinstance(parsed, Reference | Literal)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # shares 1/2, 1/4, 1/8, 1/8: sqrt(4 · (1/16 + 0 + 1/64 + 1/64)) = 0.6124
        ("esft.layer(1).law.cv", "0.61"),
        ("esft.layer(1).law.token_weighted.cv", "0.61"),
        # (2 · (1/8 + 2/8 + 3/4 + 4/2) - 5) / 4 = 0.3125, half to even
        ("esft.layer(1).law.gini", "0.31"),
        # 2^1.75
        ("esft.layer(1).law.effective_experts", "3.4"),
        ("esft.layer(1).law.top_share", "50.00%"),
        ("esft.layer(1).law.top_expert", "L1·E0"),
        ("esft.layer(4).zh_news.top_expert", "L4·E1"),
        ("esft.layer(1).law.shares(1)", "25.00%"),
        ("esft.layer(1).law.used", "4"),
        # 2 domains of 2 prompts of 8 selections, 2 per token
        ("esft.tokens", "16"),
        ("esft.prompts", "4"),
        ("esft.law.tokens", "8"),
        ("esft.domains(law).prompts", "2"),
        ("esft.selections", "64"),
        ("esft.selections_per_layer", "32"),
        ("esft.layer(1).selections", "32"),
        ("esft.model.title", "Sample Model"),
        ("esft.statistics.replicates", "50"),
        ("esft.statistics.seed | plain", "20260729"),
        ("esft.statistics.seed", "20,260,729"),
        # all prompts of a domain are alike: every replicate is the point
        ("esft.layer(1).law.cv | estimate", "0.61 [0.61, 0.61]"),
        ("esft.layer(1).law.cv | interval", "[0.61, 0.61]"),
        ("esft.layer(1).law.cv | bias", "0.00"),
        ("esft.layer(1).law.top_share | whole_percent", "50%"),
        # (4,2,1,1)/8 and the uniform: ln(4/3)/2 + ln(2/3)/4 = 0.0425 from either side
        ("esft.layer(1).jsd(law,zh_news)", "0.042"),
        ("esft.layer(1).jsd(zh_news,law).token_weighted", "0.042"),
        ("esft.layer(1).prompt_balanced.jsd", "0.042"),
        ("esft.layer(1).prompt_balanced.cv.lowest", "0.00"),
        ("esft.layer(1).prompt_balanced.cv.highest", "0.61"),
        ("esft.weighting.largest_cv_difference", "0.00"),
        ("esft.found.even", "4.0"),
        ("v2lite.trace.tokens", "90"),
        ("v2lite.trace.selections", "3,240"),
        ("v2lite.trace.mla.ratio", "8.8889×"),
        ("v2lite.trace.shape", "[4, 27, 576]"),
        ("v2lite.corpus.layer(4).zh_news.prompt_balanced.cv", "0.910"),
        ("v2lite.corpus.layer-4.zh_news.prompt_balanced.cv", "0.910"),
        ("v2lite.corpus.layer(4).zh_news.cv", "0.910"),
        ("v2lite.layer(4).zh_news.top_share", "9.06%"),
        ("v2lite.layer(4).zh_news.top_expert", "L4·E29"),
        ("v2lite.corpus.layer(4).zh_news.cv | interval", "[0.857, 0.993]"),
        ("v2lite.corpus.layer(4).zh_news.cv | estimate", "0.910 [0.857, 0.993]"),
    ],
)
def test_a_reference_shows_its_field_as_the_one_formatter_writes_it(text: str, shown: str) -> None:
    assert bound(text).text == shown


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("nobody.cv", "expected a model with data (esft, v2lite)"),
        ("esft.layer(2).law.cv", "expected one of 2 entries"),
        ("esft.layer(1).maths.cv", "found 'maths'"),
        ("esft.layer(1).law.skew", "found 'skew'"),
        ("esft.layer(1).law", "expected a number or a text"),
        ("esft.layer(1).law.shares(4)", "expected an expert below 4"),
        ("esft.layer(1).law.shares(x)", "expected an expert below 4"),
        ("esft.layer(1).counts_PE", "expected a number or a text"),
        ("esft.__class__", "found '__class__'"),
        ("esft.model_dump", "found 'model_dump'"),
        ("esft.layer(1).law.cv | wide", "expected one of"),
        ("esft.layer(1).law.cv | bca", "expected a field with bca"),
        ("esft.tokens | interval", "expected a field with interval"),
        ("esft.model.title | count", "expected no format of a text"),
        ("v2lite.trace.nothing", "expected the id of a printed figure"),
        ("v2lite.layer(4).zh_news.cv", "expected the id of one printed figure"),
        ("v2lite.layer(4).law.gini | interval", "expected a field with interval"),
    ],
)
def test_a_reference_that_shows_nothing_is_refused(text: str, part: str) -> None:
    assert part in refused(text)


def test_a_bound_number_links_to_its_source_and_names_its_evidence() -> None:
    html = bound("v2lite.corpus.layer(4).zh_news.cv").html
    assert unescape(html) == (
        '<a class="num" '
        'href="data.html#published.json:corpus.layer-4.zh_news.prompt_balanced.cv" '
        'data-source="published.json" data-evidence="published" '
        'title="PUBLISHED · published.json · corpus.layer-4.zh_news.prompt_balanced.cv">0.910</a>'
    )


def test_text_of_a_dataset_is_escaped() -> None:
    assert ">Sample &lt;b&gt;</a>" in bound("v2lite.trace.model").html


def test_a_captured_figure_takes_the_place_of_the_printed_one_with_its_decimals() -> None:
    captured = notesamples.resolver(captured=True)
    cv = bound("v2lite.corpus.layer(4).zh_news.cv | estimate", captured)
    assert (cv.evidence, cv.file) == ("captured", "captured.json")
    # the counts of the captured sample, as many decimals as the document prints
    assert cv.text == "0.612 [0.612, 0.612]"
    # a share is stored as a fraction and printed in percent
    assert bound("v2lite.layer(4).zh_news.top_share", captured).text == "50.00%"


def test_a_path_that_asks_for_the_document_stays_with_it() -> None:
    captured = notesamples.resolver(captured=True)
    cv = bound("v2lite.published.corpus.layer(4).zh_news.cv", captured)
    assert (cv.text, cv.evidence) == ("0.910", "published")
    assert "expected a printed figure" in refused("esft.published.tokens")
    assert "expected a printed figure" in refused("v2lite.published")


def test_what_the_capture_does_not_hold_stays_published() -> None:
    captured = notesamples.resolver(captured=True)
    ratio = bound("v2lite.trace.mla.ratio", captured)
    assert (ratio.text, ratio.evidence) == ("8.8889×", "published")


def test_changing_a_printed_digit_changes_that_number_and_no_other() -> None:
    entries = notesamples.figures()
    paths = ["v2lite." + entry["id"] for entry in entries]
    before = [bound(path).text for path in paths]
    for place, entry in enumerate(entries):
        if entry["id"] != "trace.mla.ratio":
            continue
        changed = [*entries]
        changed[place] = entry | {"value": 8.8888, "printed": "8.8888×"}
        other = notesamples.resolver(document=notesamples.published(changed))
        after = [bound(path, other).text for path in paths]
        assert [a for a, b in zip(after, before, strict=True) if a != b] == ["8.8888×"]


def test_a_trace_is_read_by_the_names_of_the_printed_figures() -> None:
    trace = samples.trace(evidence="captured")
    held = {"v2lite": (notesamples.Source("trace.json", "captured", trace),)}
    resolver = Resolver(held, notesamples.Places(), notesamples.LABELS)
    moe = trace.moe_layers[0].moe
    assert moe is not None
    first = f"v2lite.trace.layer({trace.moe_layers[0].layer})"
    shown = {
        "v2lite.trace.tokens": "5",
        # 5 tokens, 2 experts, 2 layers
        "v2lite.trace.selections": "20",
        "v2lite.trace.code.tokens": "3",
        "v2lite.trace.mla.eager_bytes": "40",
        "v2lite.trace.mla.reduction": "50.00%",
        "v2lite.trace.prompts": "2",
        "v2lite.trace.selections_per_layer": "10",
        "v2lite.trace.range.selections.lowest": "10",
        "v2lite.trace.range.used.highest": str(
            max(layer.moe.summary.used for layer in trace.moe_layers if layer.moe is not None)
        ),
        f"{first}.code.expert(1).count": str(moe.prompts[1].counts_E[1]),
        f"{first}.selections": "10",
        f"{first}.code.selections": "6",
        f"{first}.top_expert": f"L{trace.moe_layers[0].layer}·E{moe.summary.top_expert}",
        f"{first}.mean_weight_sum": f"{moe.mean_topk_weight_sum:.4f}",
    }
    assert {path: bound(path, resolver).text for path in shown} == shown


def test_real_evidence_comes_first_and_reruns_are_left_out() -> None:
    files = {
        "deepseek-v2-lite-published.json": notesamples.canonical_json(notesamples.published()),
        "deepseek-v2-lite-routing-corpus.json": notesamples.canonical_json(
            notesamples.corpus("captured", "deepseek-v2-lite")
        ),
    }
    files["deepseek-v2-lite-routing-corpus-repro.json"] = files[
        "deepseek-v2-lite-routing-corpus.json"
    ]
    held = sources(shelve(files))
    assert [s.file for s in held["v2lite"]] == [
        "deepseek-v2-lite-routing-corpus.json",
        "deepseek-v2-lite-published.json",
    ]
    assert held["esft"] == ()


@pytest.mark.parametrize(
    ("number", "path"),
    [
        ("0.910", "v2lite.corpus.layer-4.zh_news.prompt_balanced.cv"),
        ("0.857", "v2lite.corpus.layer-4.zh_news.prompt_balanced.cv"),
        ("3240", "v2lite.trace.selections"),
        ("3,240", "v2lite.trace.selections"),
        ("9.06%", "v2lite.corpus.layer-4.zh_news.prompt_balanced.top_share"),
        ("0.61", "esft.layer(1).law.prompt_balanced.cv"),
        ("12.345", None),
    ],
)
def test_a_number_is_traced_to_the_field_that_reads_so(number: str, path: str | None) -> None:
    assert RESOLVER.knows(number) == path


def test_every_path_that_a_message_names_can_be_written_in_a_note() -> None:
    for number in ("0.910", "0.61", "50.00%", "3240", "64"):
        path = RESOLVER.knows(number)
        assert path is not None
        assert bound(path).text


def test_a_figure_needs_a_dataset_with_its_layer_and_domain() -> None:
    assert RESOLVER.has("esft", 1, "law")
    assert not RESOLVER.has("esft", 2, "law")
    assert not RESOLVER.has("esft", 1, "maths")
    assert not RESOLVER.has("nobody")
    assert RESOLVER.has("v2lite")


def test_the_reason_of_a_literal_stands_beside_it_and_is_escaped() -> None:
    html = RESOLVER.literal(Literal("29.256", 'a "quotient"'))
    assert html == '<span class="num" title="a &quot;quotient&quot;">29.256</span>'


def test_a_published_dataset_is_one_of_the_sources() -> None:
    assert isinstance(RESOLVER.sources["v2lite"][0].dataset, Published)
    assert re.fullmatch(r"\d+", bound("v2lite.trace.tokens").text)
