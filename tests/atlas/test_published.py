"""The published figures: as printed, where the documents print them, and right by arithmetic."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.canonical import canonical_json
from atlas.contract import ContractError, Published, parse, read
from atlas.contract.published import PublishedFigure

ROOT = Path(__file__).parents[2]
FILE = ROOT / "src" / "data" / "deepseek-v2-lite-published.json"
SOURCES = ROOT.parent / "shared" / "source-documents"
NUMERAL = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
EXPERTS = 64
LAYERS = range(1, 7)
DOMAINS = ("en_encyclopedia", "zh_news", "code", "math")


@cache
def published() -> Published:
    dataset = read(FILE)
    assert isinstance(dataset, Published)
    return dataset


def value(identity: str) -> Any:
    return published().by_id[identity].value


def printed(identity: str) -> str:
    return published().by_id[identity].printed


def named(quantity: str, document: str | None = None) -> list[PublishedFigure]:
    found = [
        f for f in published().figures if f.quantity == quantity and document in (None, f.document)
    ]
    assert found, quantity
    return found


# --- the file ---


def test_the_file_is_canonical_and_published() -> None:
    assert canonical_json(published()) == FILE.read_bytes()
    assert published().evidence == "published"


def test_every_figure_gives_back_its_printed_digits() -> None:
    for figure in published().figures:
        if figure.kind == "number":
            assert figure.text(float(str(figure.value))) in figure.printed
    cv = published().by_id["corpus.layer-4.zh_news.prompt_balanced.cv"]
    assert (cv.value, cv.printed, cv.text(0.91), cv.decimals) == (0.91, "0.910", "0.910", 3)


def test_every_note_and_title_is_in_both_languages() -> None:
    texts = [q.title for q in published().quantities]
    texts += [x.note for x in (*published().figures, *published().documents) if x.note is not None]
    for text in texts:
        assert text.en.strip() and text.zh.strip()
        assert not re.search(r"[\u4e00-\u9fff]", text.en), text.en


# --- against the documents ---


@cache
def sections(document: str) -> dict[str, str]:
    """Text of each section of a source document, by number; skips where it is not there.

    A numbered line between blank lines is a heading if its number is the next one; a list
    item has other items beside it or an older number.
    """
    if not SOURCES.is_dir():
        pytest.skip("needs ../shared/source-documents, the two audits that print the figures")
    record = next(d for d in published().documents if d.document == document)
    data = next(p.read_bytes() for p in sorted(SOURCES.iterdir()) if _hash(p) == record.sha256)
    lines = data.decode("utf-8").splitlines()
    found: dict[str, list[str]] = defaultdict(list)
    here, main = "front", -1
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        match = re.match(r"(\d+)(?:\.(\d+)|\.) \S", line)
        if match and not before.strip() and not after.strip():
            first, second = int(match[1]), match[2]
            if second is not None and first == main:
                here = f"{first}.{second}"
            elif second is None and first == max(main + 1, 0 if document == "trace" else 1):
                here, main = str(first), first
        found[here].append(line)
    return {number: "\n".join(text) for number, text in found.items()}


def _hash(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def numerals(text: str) -> set[str]:
    return set(NUMERAL.findall(text))


def test_the_documents_fall_into_their_sections() -> None:
    assert list(sections("trace")) == [
        *("front", "0", "1", "1.1", "1.2", "1.3", "2", "2.1", "2.2", "3", "3.1", "3.2", "3.3"),
        *("4", "4.1", "4.2", "4.3", "4.4", "5", "6", "7", "8"),
    ]
    assert list(sections("corpus")) == [
        *("front", "1", "2", "2.1", "2.2", "3", "3.1", "3.2", "3.3", "4", "5", "5.1", "5.2"),
        *("6", "7", "7.1", "7.2", "7.3", "7.4", "8", "8.1", "9", "10"),
    ]


@pytest.mark.parametrize("document", ["trace", "corpus"])
def test_every_figure_stands_in_its_section_as_it_is_printed(document: str) -> None:
    for figure in (f for f in published().figures if f.document == document):
        text = sections(document)[figure.section]
        assert figure.printed in text, f"{figure.id} in section {figure.section}"
        # a numeral of its own, not the inside of another
        assert numerals(figure.printed) <= numerals(text), figure.id
        if figure.interval is not None:
            ends = f"[{figure.interval.printed_low}, {figure.interval.printed_high}]"
            assert ends in text, figure.id
        for other in figure.also_in:
            assert numerals(figure.printed) <= numerals(sections(document)[other]), (
                f"{figure.id} in section {other}"
            )


def rows(document: str, section: str) -> list[list[str]]:
    """Cells of a section's tab-separated table rows."""
    return [line.split("\t") for line in sections(document)[section].splitlines() if "\t" in line]


def test_the_load_table_is_the_documents_row_by_row() -> None:
    at = "trace.layer-{}.{}".format
    mine = [
        [
            str(layer),
            *(printed(at(layer, q)) for q in ("selections", "used", "zero", "cv", "gini")),
            printed(at(layer, "effective_experts")),
            f"{printed(at(layer, 'top_expert'))} · {printed(at(layer, 'top_count'))}",
        ]
        for layer in LAYERS
    ]
    assert rows("trace", "4.2")[1:] == mine


def test_the_weight_sums_are_the_documents_row_by_row() -> None:
    mine = [[str(n), printed(f"trace.layer-{n}.mean_weight_sum")] for n in LAYERS]
    assert rows("trace", "4.4")[1:] == mine


def test_the_corpus_table_is_the_documents_row_by_row() -> None:
    at = "corpus.layer-{}.{}.prompt_balanced.{}".format
    mine = [
        [
            str(layer),
            *(
                f"{printed(at(layer, d, 'cv'))}（{printed(at(layer, d, 'effective_experts'))}）"
                for d in DOMAINS
            ),
        ]
        for layer in LAYERS
    ]
    assert rows("corpus", "7")[1:] == mine


def test_the_divergence_table_is_the_documents_row_by_row() -> None:
    mine = []
    for layer in LAYERS:
        jsd = published().by_id[f"corpus.layer-{layer}.prompt_balanced.jsd"]
        assert jsd.interval is not None
        ends = f"[{jsd.interval.printed_low}, {jsd.interval.printed_high}]"
        pair = printed(f"corpus.layer-{layer}.prompt_balanced.jsd_pair")
        mine.append([str(layer), pair, jsd.printed, ends])
        assert value(f"corpus.layer-{layer}.prompt_balanced.jsd_pair") == jsd.pair
    assert rows("corpus", "7.4")[1:] == mine


def test_the_selection_table_is_the_documents_row_by_row() -> None:
    columns = ("minimum_tokens", "candidates", "long_enough", "picked", "tokens")
    mine = [[printed(f"corpus.{d}.{c}") for c in columns] for d in DOMAINS]
    assert [row[1:] for row in rows("corpus", "2.2")[1:]] == mine


def test_the_token_table_is_the_documents_row_by_row() -> None:
    found = {row[0]: row[2] for row in rows("trace", "2.2")[1:]}
    assert found == {f.prompt: f.printed for f in named("prompt_tokens")}


def test_the_per_prompt_sentences_are_the_documents() -> None:
    text = sections("trace")["4.3"]
    words = {"zh_explanation": "中文", "en_architecture": "英文", "code": "代码", "math": "数学"}
    for layer in (1, 6):
        line = next(x for x in text.split("•") if x.strip().startswith(f"layer {layer}"))
        for figure in named("used", "trace"):
            if figure.layer == layer and figure.prompt is not None:
                cv = printed(f"trace.layer-{layer}.{figure.prompt}.cv")
                part = next(p for p in re.split("[；。]", line) if words[figure.prompt] in p)
                assert sorted(numerals(part) - {str(layer)}) == sorted({figure.printed, cv})


WITHOUT_A_FIGURE = {
    "trace": {"2024"},  # the year of the official code
    "corpus": {"2024", "100"},  # and SM100, a kind of GPU
}
"""Numbers in the documents that are no figures of theirs."""


@pytest.mark.parametrize("document", ["trace", "corpus"])
def test_every_decimal_and_every_number_above_99_of_a_document_is_a_figure(document: str) -> None:
    text = "\n".join(sections(document).values())
    text = re.sub(r"\d{4}-\d\d-\d\dT\S+|\d{4}-\d\d-\d\d", " ", text)
    text = re.sub(r"\b[0-9a-f]{7,}(?:…[0-9a-f]+)?\b(?<!\d{8})", " ", text)  # hashes
    text = re.sub(r"SHA-?256|sha256|BF16", " ", text)
    text = re.sub(r"\[[\d,]+\]", lambda shape: shape[0].replace(",", ", "), text)
    known = set()
    for figure in published().figures:
        ends = figure.interval
        for part in (
            figure.printed,
            *(() if ends is None else (ends.printed_low, ends.printed_high)),
        ):
            known |= {n.replace(",", "") for n in numerals(part)}
    wanted = {n.replace(",", "") for n in numerals(text) if "." in n or len(n.replace(",", "")) > 2}
    headings = {n for n in wanted if n in sections(document)}
    assert wanted - known - headings == WITHOUT_A_FIGURE[document]


# --- arithmetic, with nothing but the file ---


def test_the_prompts_tokens_and_selections_of_the_trace_add_up() -> None:
    tokens = {f.prompt: f.value for f in named("prompt_tokens")}
    assert tokens == {"zh_explanation": 26, "en_architecture": 18, "code": 19, "math": 27}
    assert sum(tokens.values()) == value("trace.tokens") == value("corpus.trace.tokens") == 90
    assert value("trace.batch_shape") == (len(tokens), max(tokens.values())) == (4, 27)
    assert value("trace.prompts") == value("corpus.trace.prompts") == 4
    assert 90 * value("trace.top_k") == value("trace.selections_per_layer") == 540
    assert 540 * value("trace.layers.moe_count") == value("trace.selections") == 3_240


def test_the_prompts_tokens_and_selections_of_the_corpus_add_up() -> None:
    tokens = [f.value for f in named("domain_tokens")]
    assert tokens == [2_882, 573, 2_983, 2_022]
    assert sum(tokens) == value("corpus.tokens") == 8_460
    assert 8_460 * value("corpus.top_k") == value("corpus.selections_per_layer") == 50_760
    assert 8_460 * 6 * 6 == 50_760 * 6 == value("corpus.selections") == 304_560
    assert value("corpus.domains") * value("corpus.per_domain") == value("corpus.prompts") == 128
    assert {f.value for f in named("picked")} == {32}


def test_every_domain_has_enough_candidates_and_as_many_tokens_as_its_limits_allow() -> None:
    at = "corpus.{}.{}".format
    for domain in DOMAINS:
        picked, tokens = value(at(domain, "picked")), value(at(domain, "tokens"))
        assert picked <= value(at(domain, "long_enough")) <= value(at(domain, "candidates"))
        assert picked * value(at(domain, "minimum_tokens")) <= tokens
        assert tokens <= picked * value("corpus.selection.maximum_tokens")


def test_the_two_ledgers_of_the_cache_are_arithmetic_over_the_configuration() -> None:
    heads = value("trace.config.num_attention_heads")
    width = value("trace.config.qk_nope_head_dim") + value("trace.config.qk_rope_head_dim")
    eager = heads * (width + value("trace.config.v_head_dim"))
    latent = value("trace.config.kv_lora_rank") + value("trace.config.qk_rope_head_dim")
    assert value("trace.mla.key_shape") == (4, heads, 27, width)
    assert value("trace.mla.value_shape") == (4, heads, 27, value("trace.config.v_head_dim"))
    assert value("trace.mla.projection_shape") == (4, 27, latent)
    assert (eager, latent) == (
        value("trace.mla.eager_elements"),
        value("trace.mla.latent_elements"),
    )
    assert (eager * 2, latent * 2) == (10_240, 1_152)
    assert (value("trace.mla.eager_bytes"), value("trace.mla.latent_bytes")) == (10_240, 1_152)
    assert f"{10_240 / 1_152:.4f}×" == printed("trace.mla.ratio") == "8.8889×"
    assert f"{100 * (1 - 1_152 / 10_240):.2f}%" == printed("trace.mla.reduction") == "88.75%"


def test_the_checks_of_two_runs_are_3_and_2_and_2_per_layer_and_2_per_moe_layer() -> None:
    layers, moe = len(value("trace.layers.executed")), len(value("trace.layers.moe"))
    assert 3 + 2 + 2 * layers + 2 * moe == value("trace.repeat.total") == 31
    assert value("trace.repeat.exact") == 31


def test_the_layers_of_both_documents_agree_and_leave_none_out() -> None:
    ran, count = value("trace.layers.executed"), value("trace.config.num_hidden_layers")
    assert (
        ran
        == value("corpus.layers.executed")
        == value("trace.layers.dense") + value("trace.layers.moe")
    )
    first = value("trace.layers.first_missing")
    assert (*ran, *value("corpus.layers.missing")) == tuple(range(count))
    assert (*ran, first, *value("trace.layers.missing_beyond")) == tuple(range(count))
    assert len(ran) == value("trace.layers.executed_count") == 7


def test_both_documents_name_the_same_artifacts() -> None:
    for figure in named("revision") + [f for f in published().figures if ".artifact." in f.id]:
        twin = published().by_id.get(figure.id.replace("corpus.", "trace."))
        assert twin is not None and twin.value == figure.value
    assert value("trace.artifact.revision") == published().model.revision


def test_used_and_unused_experts_make_64_and_effective_ones_are_at_most_the_used() -> None:
    at = "trace.layer-{}.{}".format
    for layer in LAYERS:
        used = value(at(layer, "used"))
        assert used + value(at(layer, "zero")) == EXPERTS
        assert 1 <= value(at(layer, "effective_experts")) <= used
        assert value(at(layer, "top_count")) <= 90
        assert value(at(layer, "top_count")) / 540 >= 1 / used
    for figure in named("effective_experts", "corpus"):
        ends = figure.interval
        assert 1 <= figure.value <= EXPERTS
        assert ends is None or ends.high <= EXPERTS


def test_the_ranges_of_the_summaries_are_those_of_the_tables() -> None:
    at = "trace.layer-{}.{}".format
    for name in ("used", "cv", "gini"):
        column = [value(at(layer, name)) for layer in LAYERS]
        assert min(column) == value(f"trace.range.{name}.lowest")
        assert max(column) == value(f"trace.range.{name}.highest")
    for name in ("cv", "effective_experts"):
        row = [value(f"corpus.layer-2.{d}.prompt_balanced.{name}") for d in DOMAINS]
        assert min(row) == value(f"corpus.layer-2.prompt_balanced.{name}.lowest")
        assert max(row) == value(f"corpus.layer-2.prompt_balanced.{name}.highest")


def test_layer_2_is_the_flattest_of_the_six_in_every_domain() -> None:
    at = "corpus.layer-{}.{}.prompt_balanced.{}".format
    for domain in DOMAINS:
        assert min(LAYERS, key=lambda n: value(at(n, domain, "cv"))) == 2
        assert max(LAYERS, key=lambda n: value(at(n, domain, "effective_experts"))) == 2


@pytest.mark.parametrize(("layer", "domain"), [(4, "zh_news"), (5, "math"), (6, "math")])
def test_the_domain_of_a_finding_is_the_most_concentrated_of_its_layer(
    layer: int, domain: str
) -> None:
    at = "corpus.layer-{}.{}.prompt_balanced.{}".format
    assert max(DOMAINS, key=lambda d: value(at(layer, d, "cv"))) == domain
    assert min(DOMAINS, key=lambda d: value(at(layer, d, "effective_experts"))) == domain
    for quantity in ("cv", "effective_experts", "top_share"):
        assert published().by_id[at(layer, domain, quantity)].interval is not None


def test_every_interval_holds_its_point() -> None:
    found = [f for f in published().figures if f.interval is not None]
    assert len(found) == 3 * 3 + 6
    for figure in found:
        assert figure.interval is not None
        assert figure.interval.low <= figure.value <= figure.interval.high


def test_no_cv_is_higher_than_its_effective_experts_allow() -> None:
    # of all loads with this CV the entropy is at least that of order 2: 64 / (1 + CV^2)
    for figure in named("cv", "corpus"):
        effective = value(figure.id.removesuffix("cv") + "effective_experts")
        assert effective > EXPERTS / (1 + figure.value**2)
    for layer in LAYERS:
        population = value(f"trace.layer-{layer}.cv") ** 2 * 63 / 64
        assert value(f"trace.layer-{layer}.effective_experts") > EXPERTS / (1 + population)


def test_a_top_share_lies_between_the_uniform_share_and_what_its_cv_allows() -> None:
    assert f"{100 / EXPERTS}%" == printed("corpus.uniform.share") == "1.5625%"
    for figure in named("top_share"):
        cv = value(figure.id.removesuffix("top_share") + "cv")
        above = figure.value / 100 * EXPERTS - 1
        assert 0 < above <= cv * math.sqrt(EXPERTS - 1)
        assert figure.expert == value(figure.id.removesuffix("top_share") + "top_expert")


def test_the_largest_divergence_is_layer_4_and_the_printed_fraction_of_ln_2() -> None:
    divergences = {f.layer: f.value for f in named("jsd")}
    assert max(divergences, key=divergences.__getitem__) == 4
    assert f"{math.log(2):.3f}" == printed("corpus.ln_2")
    assert f"{100 * divergences[4] / math.log(2):.1f}%" == printed("corpus.largest_jsd_fraction")
    assert all(0 <= v <= math.log(2) for v in divergences.values())


def test_the_largest_difference_of_the_weightings_is_below_every_cv() -> None:
    figure = published().by_id["corpus.weighting.largest_cv_difference"]
    assert (figure.printed, figure.layer, figure.domain) == ("0.027", 1, "math")
    assert figure.value < min(f.value for f in named("cv", "corpus"))


def test_layer_4_of_the_trace_can_share_its_top_experts_out_to_the_prompts() -> None:
    counts = [f for f in named("expert_count") if f.expert == value("trace.layer-4.top_expert")]
    top = value("trace.layer-4.top_count")
    own = value("trace.layer-4.zh_explanation.top_count")
    others = top - sum(f.value for f in counts)
    # the Chinese prompt has no expert above its top one; 27 tokens of mathematics are the rest
    assert 0 <= others <= own + 27
    assert own <= 26
    assert own < top


# --- contradictions that stand in the file with a note ---


def noted() -> set[str]:
    return {f.id for f in published().figures if f.note is not None}


def test_the_printed_gib_of_the_checkpoint_is_not_its_printed_bytes_and_the_note_says_so() -> None:
    gib = value("trace.artifact.checkpoint.tensor_bytes") / 2**30
    assert (f"{gib:.3f}", printed("trace.artifact.checkpoint.gib")) == ("29.256", "29.261")
    assert "trace.artifact.checkpoint.gib" in noted()
    shard = value("trace.artifact.shard-1.bytes") / 2**30
    assert f"{shard:.3f}" == printed("trace.artifact.shard-1.gib")
    # what lies between is more than thirty times the first shard's header, which
    # the official file gives: 8,594,887,408 bytes of file, 8,594,722,816 of tensors
    between = 29.261 * 2**30 - value("trace.artifact.checkpoint.tensor_bytes")
    assert between > 30 * (value("trace.artifact.shard-1.bytes") - 8_594_722_816)


def sums_of_squares(selections: int, cv: str, divisor: int) -> list[int]:
    """Sums of squared counts of 64 experts that print as this CV, with variance over `divisor`.

    The counts add up to `selections`, so their squares sum to a number of the same parity.
    """
    mean = selections / EXPERTS
    found = []
    for squares in range(selections, selections * selections // 6 + 1):
        variance = (squares - EXPERTS * mean**2) / divisor
        same_parity = squares % 2 == selections % 2
        if same_parity and variance >= 0 and f"{math.sqrt(variance) / mean:.3f}" == cv:
            found.append(squares)
    return found


def test_whole_counts_have_the_printed_prompt_cvs_with_the_sample_deviation_only() -> None:
    tokens = {f.prompt: f.value for f in named("prompt_tokens")}
    per_prompt = [f for f in named("cv_sample") if f.prompt is not None]
    assert len(per_prompt) == 7
    for figure in per_prompt:
        selections = 6 * tokens[figure.prompt]
        assert sums_of_squares(selections, figure.printed, EXPERTS) == [], figure.id
        (squares,) = sums_of_squares(selections, figure.printed, EXPERTS - 1)
        assert figure.note is not None
        assert str(squares) in figure.note.en and str(squares) in figure.note.zh
        population = math.sqrt(EXPERTS * squares / selections**2 - 1)
        assert f"{population:.3f}" in figure.note.en and f"{population:.3f}" in figure.note.zh
    assert {f.id for f in named("cv_sample")} <= noted()


def test_the_corpus_notes_say_where_two_measures_rank_two_domains_in_opposite_orders() -> None:
    at = "corpus.layer-{}.{}.prompt_balanced.{}".format
    found = set()
    for layer, (a, b) in itertools.product(LAYERS, itertools.combinations(DOMAINS, 2)):
        cvs = value(at(layer, a, "cv")) - value(at(layer, b, "cv"))
        effective = [value(at(layer, d, "effective_experts")) for d in (a, b)]
        if cvs * (effective[0] - effective[1]) > 0:
            found.add((layer, a, b))
    assert found == {(1, "code", "math")}
    assert at(1, "math", "cv") in noted()


def test_the_notes_are_those_of_known_contradictions_and_no_others() -> None:
    cvs = {f.id for f in named("cv_sample")}
    cvs |= {"trace.range.cv.lowest", "trace.range.cv.highest"}
    assert noted() - cvs == {
        "trace.artifact.checkpoint.gib",
        "trace.layers.moe_count",
        "trace.config.parameters_active",
        "corpus.captured_at",
        "corpus.layers.missing",
        "corpus.layer-1.math.prompt_balanced.cv",
        "corpus.layer-1.math.prompt_balanced.effective_experts",
    }
    assert [d.note is not None for d in published().documents] == [True, True]


# --- what the contract refuses ---


def refused(change: Callable[[dict[str, Any]], object], identity: str) -> str:
    content = json.loads(FILE.read_text(encoding="utf-8"))
    figure = next(f for f in content["figures"] if f["id"] == identity)
    change(figure)
    with pytest.raises(ContractError) as caught:
        parse(canonical_json(content), "a.json")
    return str(caught.value)


CV = "corpus.layer-4.zh_news.prompt_balanced.cv"


@pytest.mark.parametrize(
    ("identity", "change", "message"),
    [
        (CV, {"value": 0.911}, "expected the value as printed in '0.910'"),
        (CV, {"printed": "0.91"}, "expected the value as printed"),
        (CV, {"decimals": 2}, "expected the value as printed"),
        (CV, {"decimals": None}, "expected a value and decimals"),
        (CV, {"kind": "integer"}, "expected a value and decimals"),
        (CV, {"id": "Layer 4"}, "pattern"),
        (CV, {"section": "seven"}, "pattern"),
        (CV, {"also_in": ["7", "7"]}, "no entry twice"),
        (CV, {"quantity": "other"}, "expected those of the figures"),
        ("trace.layer-1.top_expert", {"layer": None}, "expected an expert id with its layer"),
        ("trace.layer-1.top_count", {"layer": None}, "expected an expert id with its layer"),
        ("trace.mla.key_shape", {"value": [4, 16, 27, 191]}, "expected the numbers of"),
        ("trace.layers.moe", {"value": [1, 2, 3]}, "expected the numbers of"),
        ("trace.config.scoring_func", {"value": "sigmoid"}, "expected the text as printed"),
        ("trace.config.norm_topk_prob", {"value": 0}, "expected true or false"),
        ("trace.tokens", {"id": "trace.prompts"}, "expected no entry twice"),
    ],
)
def test_a_figure_that_contradicts_its_own_print_is_refused(
    identity: str, change: dict[str, Any], message: str
) -> None:
    assert message in refused(lambda figure: figure.update(change), identity)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ({"low": 0.911, "printed_low": "0.911"}, "holds its point"),
        ({"low": 0.856}, "expected '0.857' as printed"),
        ({"printed_high": "0.99"}, "expected '0.99' as printed"),
    ],
)
def test_an_interval_without_its_point_or_its_print_is_refused(
    ends: dict[str, Any], message: str
) -> None:
    assert message in refused(lambda figure: figure["interval"].update(ends), CV)


def test_evidence_other_than_published_is_refused() -> None:
    content = json.loads(FILE.read_text(encoding="utf-8")) | {"evidence": "captured"}
    with pytest.raises(ContractError, match="expected published, found captured"):
        parse(canonical_json(content), "a.json")


@given(st.integers(0, 10**6), st.integers(0, 6))
def test_a_figure_writes_any_value_with_as_many_decimals_as_it_was_printed_with(
    whole: int, decimals: int
) -> None:
    figure = published().by_id[CV].model_copy(update={"decimals": decimals})
    text = figure.text(whole / 10**decimals)
    assert text == f"{whole / 10**decimals:.{decimals}f}"
    assert len(text.partition(".")[2]) == decimals
