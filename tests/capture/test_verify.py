"""capture verify: every printed figure is found, compared at its own decimals, and reported."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from atlas.canonical import canonical_json
from atlas.contract import Published, Trace, Verification, parse
from atlas.contract.published import PublishedFigure
from atlas.contract.verification import VerifiedFigure
from capture.__main__ import main
from capture.demo.seal import CHECKPOINT
from capture.regenerated import Absent, common, corpus, official, regenerated, trace
from capture.regenerated.base import NOWHERE
from capture.regenerated.trace import sample_cv
from capture.verify import same, verify
from tests.capture import published_files
from tests.capture.published_files import PUBLISHED, corpus_with, trace_with


@pytest.fixture(scope="module")
def published() -> Published:
    return published_files.published()


@pytest.fixture(scope="module")
def carrying(published: Published, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files that carry the published values, by the document that they belong to."""
    folder = tmp_path_factory.mktemp("carrying")
    files = {"trace": trace_with(published), "corpus": corpus_with(published)}
    for name, dataset in files.items():
        (folder / f"{name}.json").write_bytes(canonical_json(dataset))
    return {name: folder / f"{name}.json" for name in files}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both experiments on the embedded checkpoint, small."""
    folder = tmp_path_factory.mktemp("demo")
    argv = ["--artifact-dir", str(CHECKPOINT), "--quiet", "--layers", "7", "--skip-shard-hashes"]
    small = ["--probes", "--per-domain", "3", "--bootstrap", "20"]
    assert main(["trace", *argv, "--output", str(folder / "trace.json")]) == 0
    assert main(["corpus", *argv, *small, "--output", str(folder / "corpus.json")]) == 0
    return {name: folder / f"{name}.json" for name in ("trace", "corpus")}


def run(data: Path, *more: str, against: Path = PUBLISHED) -> int:
    return main(["verify", "--data", str(data), "--against", str(against), *more])


def report(data: Path, output: Path, against: Path = PUBLISHED) -> Verification:
    run(data, "--output", str(output), against=against)
    found = parse(output.read_bytes(), output.name)
    assert isinstance(found, Verification)
    return found


def rows(found: Verification) -> dict[tuple[str, str], VerifiedFigure]:
    return {(figure.id, figure.part): figure for figure in found.figures}


# --- a file that carries the published values ---


@pytest.mark.parametrize("name", ["trace", "corpus"])
def test_a_file_that_carries_the_published_values_is_equal_in_all_of_them(
    carrying: dict[str, Path], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(carrying[name], "--output", str(tmp_path / "report.json")) == 0
    found = parse((tmp_path / "report.json").read_bytes(), "report.json")
    assert isinstance(found, Verification)
    assert found.counts.differs == 0
    assert found.counts.equal == {"trace": 156, "corpus": 196}[name]
    assert f"{found.counts.equal} of {found.counts.equal} compared" in capsys.readouterr().out


def test_every_figure_is_compared_in_some_file_or_the_report_says_why_none_can_hold_it(
    published: Published,
) -> None:
    files = (trace_with(published), corpus_with(published), published_files.official())
    for figure in published.figures:
        found = [regenerated(figure, file) for file in files]
        absent_everywhere = all(isinstance(value, Absent) for value in found)
        assert absent_everywhere == (figure.quantity in NOWHERE), figure.id


def test_every_quantity_has_a_place_to_be_read_from_and_every_place_a_quantity(
    published: Published,
) -> None:
    tables = (common.READ, trace.READ, corpus.READ, official.READ, official.OF_TRACE)
    known = set(NOWHERE).union(*tables)
    assert {quantity.quantity for quantity in published.quantities} == known


def test_one_unit_in_the_last_printed_digit_of_any_number_is_found(
    published: Published, carrying: dict[str, Path], tmp_path: Path
) -> None:
    content = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    for figure in content["figures"]:
        if figure["kind"] in ("integer", "number"):
            decimals = figure["decimals"] or 0
            value = round(figure["value"] + 10.0**-decimals, decimals)
            figure["value"] = value if figure["decimals"] else int(value)
            figure["printed"] = f"{value:.{decimals}f}"
            if figure["interval"]:
                figure["interval"]["high"] = 1000.0
                figure["interval"]["printed_high"] = f"{1000:.{decimals}f}"
    moved = tmp_path / "moved.json"
    moved.write_bytes(canonical_json(content))
    numbers = {f.id for f in published.figures if f.kind in ("integer", "number")}
    for name, path in carrying.items():
        before = rows(report(path, tmp_path / f"{name}.json"))
        after = rows(report(path, tmp_path / f"{name}-moved.json", against=moved))
        changed = {key for key in before if before[key].outcome != after[key].outcome}
        compared = {key for key, row in before.items() if row.outcome == "equal"}
        assert changed == {(i, part) for i, part in compared if i in numbers and part != "low"}


def test_a_difference_is_told_by_how_much_at_the_printed_decimals(
    published: Published, tmp_path: Path
) -> None:
    dataset = trace_with(published).model_dump(mode="json", by_alias=True)
    dataset["layers"][1]["moe"]["summary"]["gini"] = 0.4229
    dataset["layers"][1]["moe"]["mean_topk_weight_sum"] = 0.39494
    path = tmp_path / "trace.json"
    path.write_bytes(canonical_json(dataset))
    found = report(path, tmp_path / "report.json")
    row = rows(found)[("trace.layer-1.gini", "value")]
    assert (row.outcome, row.printed, row.regenerated, row.difference) == (
        "differs",
        "0.420",
        "0.423",
        0.003,
    )
    assert row.unpublished_inputs == ("prompt_texts",)
    # 0.39494 rounds to the printed 0.3949
    assert rows(found)[("trace.layer-1.mean_weight_sum", "value")].outcome == "equal"
    # the range over the layers moved with it
    assert found.counts.differs == 2


def test_the_documents_sample_cv_is_made_from_the_stored_population_cv() -> None:
    summary = trace_with(published_files.published()).layers[1].moe
    assert summary is not None
    # counts 1 and 3 of two experts: mean 2, population std 1, sample std sqrt 2
    two = summary.summary.model_copy(update={"used": 2, "zero": 0, "cv": 0.5})
    assert sample_cv(two) == pytest.approx(math.sqrt(2) / 2, abs=1e-15)


# --- the embedded checkpoint ---


@pytest.mark.parametrize("name", ["trace", "corpus"])
def test_a_run_of_the_embedded_checkpoint_differs_from_the_published_figures(
    demo: dict[str, Path], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(demo[name], "--output", str(tmp_path / "report.json"), "--differing") == 1
    shown = capsys.readouterr().out
    found = parse((tmp_path / "report.json").read_bytes(), "report.json")
    assert isinstance(found, Verification)
    assert found.evidence == "demo"
    by = rows(found)
    assert by[("trace.artifact.config.sha256", "value")].outcome == "differs"
    assert by[("trace.layers.executed", "value")].outcome == (
        "equal" if name == "trace" else "absent"
    )
    assert ("trace.artifact.config.sha256" in shown) and ("trace.top_k " not in shown)
    c = found.counts
    assert c.differs_otherwise > 0
    assert c.equal + c.differs + c.absent == c.total == len(found.figures)
    if name == "corpus":
        end = by[("corpus.layer-4.zh_news.prompt_balanced.cv", "low")]
        assert end.unpublished_inputs == ("source_ids", "random_stream")


def test_a_run_whose_shards_were_not_hashed_says_that_there_is_no_hash_to_compare(
    demo: dict[str, Path], tmp_path: Path
) -> None:
    row = rows(report(demo["trace"], tmp_path / "report.json"))
    shard = row[("trace.artifact.shard-1.sha256", "value")]
    assert (shard.outcome, shard.regenerated) == ("absent", None)
    assert shard.reason is not None and "no hash" in shard.reason.en


def test_the_same_files_give_the_same_report(demo: dict[str, Path], tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        report(demo["corpus"], tmp_path / name)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


# --- the official file, which needs no weights ---


def test_the_official_file_differs_in_four_figures_whose_notes_or_inputs_explain_it(
    published: Published, tmp_path: Path
) -> None:
    found = report(published_files.OFFICIAL, tmp_path / "report.json")
    differing = {f.id: f.regenerated for f in found.figures if f.outcome == "differs"}
    assert differing == {
        "trace.artifact.checkpoint.gib": "29.256",
        "trace.config.parameters_active": "2.5",
        "corpus.code.tokens": "2987",
        "corpus.math.tokens": "1971",
    }
    for identity in differing:
        figure = published.by_id[identity]
        assert figure.note is not None or "source_ids" in figure.unpublished_inputs


# --- comparison by value ---


@pytest.mark.parametrize(
    ("printed", "found", "equal"),
    [
        ("b08601e…685c3", "b08601e04326c79dfdd32d625aee71d232d685c3", True),
        ("b08601e…685c3", "b08601e…685c3", True),
        ("b08601e…685c3", "b08601e04326c79dfdd32d625aee71d232d685c4", False),
        ("b08601e…685c3", "c08601e04326c79dfdd32d625aee71d232d685c3", False),
        ("abc…bcd", "abcd", False),
        ((4, 27), (4, 27), True),
        ((4, 27), (4, 26), False),
        (False, False, True),
        (False, 0, False),
    ],
)
def test_values_are_equal_or_fit_both_ends_of_an_abbreviation(
    printed: object, found: object, equal: bool
) -> None:
    assert same(printed, found) is equal  # type: ignore[arg-type]


def test_an_expert_that_the_model_does_not_have_is_absent_and_no_crash(
    published: Published,
) -> None:
    figure = published.by_id["trace.layer-4.code.expert-48.count"]
    beyond = PublishedFigure.model_validate(figure.model_dump() | {"expert": 64})
    found = regenerated(beyond, trace_with(published))
    assert isinstance(found, Absent) and "expert" in found.en


def test_a_layer_that_was_not_run_is_absent(published: Published) -> None:
    dataset = trace_with(published)
    short = Trace.model_construct(**{**dict(dataset), "layers": dataset.layers[:4]})
    found = verify(short, b"", "a.json", published, b"", "b.json")
    by = rows(found)
    assert by[("trace.layer-3.cv", "value")].outcome == "equal"
    assert by[("trace.layer-4.cv", "value")].outcome == "absent"
    assert by[("trace.layer-4.cv", "value")].regenerated is None


# --- refusals ---


def test_files_of_the_wrong_kind_are_refused_in_one_line(refused, carrying, tmp_path) -> None:
    line = refused("verify", "--data", carrying["trace"], "--against", carrying["corpus"])
    assert line == (
        "corpus.json: schema: expected llm-atlas/published@1, found llm-atlas/routing-corpus@1"
    )
    line = refused("verify", "--data", PUBLISHED, "--against", PUBLISHED)
    assert line.startswith("deepseek-v2-lite-published.json: schema: expected llm-atlas/trace@1")
    line = refused("verify", "--data", tmp_path / "none.json", "--against", PUBLISHED)
    assert line == "none.json: file missing: expected a file"


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_compared(
    carrying: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "missing" / "report.json"
    assert run(carrying["trace"], "--output", str(target)) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("report.json: output folder missing") and not shown.out
