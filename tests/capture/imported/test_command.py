"""`python -m capture import esft`: what it writes and prints, and what it refuses."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from atlas.contract import read
from atlas.contract.corpus import RoutingCorpus
from atlas.contract.routes import Routes
from capture.__main__ import main
from tests.capture.imported.made import MadeRecord, write_record

ROOT = Path(__file__).parents[3]
CORPUS = "esft-vanilla-lite-routing-corpus.json"
ROUTES = "esft-vanilla-lite-routes.json"


def import_made(made: MadeRecord, corpus: Path, routes: Path) -> int:
    return main(
        [
            *("import", "esft", "--scores-dir", str(made.scores_dir)),
            *("--output", str(corpus), "--routes-output", str(routes)),
        ]
    )


@pytest.fixture
def files(made: MadeRecord, tmp_path: Path) -> tuple[RoutingCorpus, Routes]:
    corpus, routes = tmp_path / "corpus.json", tmp_path / "routes.json"
    assert import_made(made, corpus, routes) == 0
    read_corpus, read_routes = read(corpus), read(routes)
    assert isinstance(read_corpus, RoutingCorpus) and isinstance(read_routes, Routes)
    return read_corpus, read_routes


def test_the_corpus_holds_what_the_record_holds_and_null_for_the_rest(
    made: MadeRecord, files: tuple[RoutingCorpus, Routes]
) -> None:
    corpus, _ = files
    assert corpus.evidence == "imported"
    assert corpus.routing.moe_layers == (1, 2, 3)
    assert (corpus.architecture, corpus.stop_line, corpus.environment) == (None, None, None)
    assert (corpus.selection, corpus.captured_at, corpus.artifacts) == (None, None, ())
    assert [(d.domain, d.prompts, d.tokens) for d in corpus.domains] == [
        ("intent", 4, 14),
        ("law", 3, 9),
    ]
    assert [p.prompt_id for p in corpus.prompts][3:5] == ["intent-004", "law-001"]
    assert {p.text_sha256 for p in corpus.prompts} == {None}
    law_first = corpus.layers[1].counts_PE[4]
    wanted = [0] * 64
    for token in made.routes["law"][2][0]:
        for expert, _ in token:
            wanted[expert] += 1
    assert list(law_first) == wanted


def test_gate_mass_is_the_mean_weight_per_token_and_stands_apart_from_load(
    made: MadeRecord, files: tuple[RoutingCorpus, Routes]
) -> None:
    law = files[0].layers[2].domains[1]
    mass = [0] * 64
    for prompt in made.routes["law"][3]:
        for token in prompt:
            for expert, units in token:
                mass[expert] += units
    assert law.gate_mass_E == pytest.approx([m / 10_000 / 9 for m in mass], abs=1e-8)
    assert sum(law.token_weighted.shares.point_E) == pytest.approx(1, abs=1e-6)
    assert sum(law.gate_mass_E) != pytest.approx(1, abs=0.01)


def test_the_route_hash_is_over_sorted_ids_by_layer_token_and_rank(
    made: MadeRecord, files: tuple[RoutingCorpus, Routes]
) -> None:
    data = b""
    for layer in (1, 2, 3):
        for token in made.routes["law"][layer][2]:
            for expert, _ in sorted(token, key=lambda pair: (-pair[1], pair[0])):
                data += expert.to_bytes(2, "little")
    corpus, routes = files
    assert corpus.prompts[6].prompt_id == "law-003"
    assert corpus.prompts[6].route_sha256 == sha256(data).hexdigest()
    assert routes.prompts[5].route_sha256 == sha256(data).hexdigest()


def test_every_estimate_has_bias_bca_and_the_token_as_the_wrong_unit(
    files: tuple[RoutingCorpus, Routes],
) -> None:
    for layer in files[0].layers:
        for domain in layer.domains:
            estimate = domain.token_weighted.effective_experts
            assert estimate.bca is not None and estimate.token_unit is not None
            # few prompts resampled: the replicates are more dispersed than the point
            assert estimate.bias < 0
            assert domain.prompt_balanced.effective_experts.bca is not None


def test_routes_show_the_shortest_prompts_with_weights_and_their_sum(
    made: MadeRecord, files: tuple[RoutingCorpus, Routes]
) -> None:
    routes = files[1]
    # of 4, 2, 3 and 5 tokens, and of 6, 1 and 2: the three shortest, in the record's order
    assert [(p.prompt_id, p.tokens, p.positions) for p in routes.prompts] == [
        ("intent-001", 4, 4),
        ("intent-002", 2, 2),
        ("intent-003", 3, 3),
        ("law-001", 6, 6),
        ("law-002", 1, 1),
        ("law-003", 2, 2),
    ]
    token = sorted(made.routes["law"][2][1][0], key=lambda pair: (-pair[1], pair[0]))
    shown = routes.layers[1].prompts[4]
    assert shown.expert_ids_TK == (tuple(expert for expert, _ in token),)
    assert shown.weights_TK == (tuple(units / 10_000 for _, units in token),)
    assert shown.weight_sum_T == (sum(units for _, units in token) / 10_000,)


def test_bytes_that_are_not_the_publishers_are_not_given_their_commit(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.json"
    assert import_made(made, corpus, tmp_path / "routes.json") == 0
    content = read(corpus)
    assert isinstance(content, RoutingCorpus) and content.record is not None
    assert content.record.commit == "unverified"
    assert not any(file.pinned for file in content.record.files)
    assert "differ" in content.model.title
    captured = capsys.readouterr()
    assert "files of commit 579a7711e4b3: 0 / 10" in captured.out
    assert captured.err == (
        "record: these are not the publisher's bytes; the file says so and names no commit\n"
    )


def test_the_command_prints_how_many_figures_agree(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, routes = tmp_path / "corpus.json", tmp_path / "routes.json"
    import_made(made, corpus, routes)
    assert capsys.readouterr().out.splitlines() == [
        "7 prompts, 23 tokens, 3 layers, 414 selections",
        "scores of summary.json: 768 / 768",
        "lists of expert_configs: 6 / 6",
        "files of commit 579a7711e4b3: 0 / 10",
        f"{sha256(corpus.read_bytes()).hexdigest()}  corpus.json",
        f"{sha256(routes.read_bytes()).hexdigest()}  routes.json",
    ]


def test_a_figure_that_disagrees_is_named_stored_and_exits_with_1(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made.scores_dir / "intent" / "summary.json"
    summary = json.loads(path.read_text())
    summary["gate_scores"]["1"]["7"] = 0.9
    path.write_text(json.dumps(summary))
    corpus = tmp_path / "corpus.json"
    assert import_made(made, corpus, tmp_path / "routes.json") == 1
    captured = capsys.readouterr()
    assert "scores of summary.json: 767 / 768" in captured.out
    assert captured.err.startswith(
        "intent/summary.json: gate_scores, layer 1, expert 7: recomputed 0.0"
    )
    content = read(corpus)
    assert isinstance(content, RoutingCorpus) and content.record is not None
    assert [c.agreeing for c in content.record.checks] == [384, 383, 6]


def test_without_the_folder_of_lists_they_are_left_out_and_it_says_so(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in made.configs_dir.iterdir():
        path.unlink()
    made.configs_dir.rmdir()
    assert import_made(made, tmp_path / "corpus.json", tmp_path / "routes.json") == 0
    assert "lists of expert_configs: not checked" in capsys.readouterr().out


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_sees_a_bar_of_files_unless_it_wants_quiet(
    made: MadeRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    arguments = ["--scores-dir", str(made.scores_dir), "--output", str(tmp_path / "c.json")]
    main(["import", "esft", *arguments, *(["--quiet"] if quiet else [])])
    assert ("layer files" in terminal.getvalue()) is not quiet


def test_two_runs_in_other_environments_give_the_same_bytes(
    made: MadeRecord, tmp_path: Path
) -> None:
    written = []
    for number, variables in enumerate(
        ({"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo"}, {"PYTHONHASHSEED": "2", "LC_ALL": "C"})
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        subprocess.run(
            [
                *(sys.executable, "-m", "capture", "import", "esft"),
                *("--scores-dir", str(made.scores_dir), "--output", str(folder / "c.json")),
                *("--routes-output", str(folder / "r.json")),
            ],
            cwd=ROOT,
            env={**os.environ, **variables, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
            check=True,
            capture_output=True,
        )
        written.append([(folder / name).read_bytes() for name in ("c.json", "r.json")])
    assert written[0] == written[1]


def _line(edit: Callable[[bytes], bytes], layer: int = 2, line: int = 2):
    return lambda made: made.edit_line("law", layer, line, edit)


def _without_layer(made: MadeRecord) -> None:
    made.weights_file("law", 2).unlink()


def _without_last_layer_of_one_task(made: MadeRecord) -> None:
    made.weights_file("law", 3).unlink()
    path = made.scores_dir / "law" / "summary.json"
    summary = json.loads(path.read_text())
    for table in summary.values():
        del table["3"]
    path.write_text(json.dumps(summary))


def _longer_prompt(made: MadeRecord) -> None:
    made.routes["law"][3][1] *= 2
    write_record(made)


def _one_prompt_less(made: MadeRecord) -> None:
    made.routes["law"][3].pop()
    write_record(made)


def _summary(edit: Callable[[Path], object]):
    return lambda made: edit(made.scores_dir / "law" / "summary.json")


def _score(value: object):
    def edit(path: Path) -> None:
        summary = json.loads(path.read_text())
        summary["token_scores"]["2"]["5"] = value
        path.write_text(json.dumps(summary))

    return _summary(edit)


def _no_layer_in_gate_scores(path: Path) -> None:
    summary = json.loads(path.read_text())
    del summary["gate_scores"]["2"]
    path.write_text(json.dumps(summary))


def _one_expert_less(path: Path) -> None:
    summary = json.loads(path.read_text())
    del summary["gate_scores"]["2"]["63"]
    path.write_text(json.dumps(summary))


def _list(value: object):
    def damage(made: MadeRecord) -> None:
        path = made.configs_dir / "law.json"
        config = json.loads(path.read_text())
        config["experts"]["2"] = value
        path.write_text(json.dumps(config))

    return damage


def _append(data: bytes):
    def damage(made: MadeRecord) -> None:
        with made.weights_file("law", 2).open("ab") as file:
            file.write(data)

    return damage


def _crlf(made: MadeRecord) -> None:
    path = made.weights_file("law", 2)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def _fields(line: bytes) -> list[bytes]:
    return line.split(b"\t")


LAW_2 = "law/expert_weights_2.txt"
DAMAGES: list[tuple[str, Callable[[MadeRecord], object], str]] = [
    (
        "a weight too few",
        _line(lambda line: line.rsplit(b"\t", 1)[0]),
        f"{LAW_2}: line 2: ids and weights differ in number: expected 6 weights for 6 ids, found 5",
    ),
    (
        "an id outside",
        _line(lambda line: b"\t".join([b"64", *_fields(line)[1:]])),
        f"{LAW_2}: line 2: expert id at position 0: expected 0 to 63, found 64",
    ),
    (
        "a duplicate expert",
        _line(lambda line: b"\t".join([_fields(line)[1], *_fields(line)[1:]])),
        f"{LAW_2}: line 2: duplicate expert at position 0: expected 6 different experts, found",
    ),
    (
        "a count not divisible by six",
        _line(lambda line: b"\t".join([*_fields(line)[1:-1]])),
        f"{LAW_2}: line 2: number of ids: expected a multiple of 6, found 5",
    ),
    (
        "a weight above 1",
        _line(lambda line: b"\t".join([*_fields(line)[:-1], b"1.0001"])),
        f"{LAW_2}: line 2: gate weight at position 0: expected 0 to 1, found 1.0001",
    ),
    (
        "CRLF",
        _crlf,
        f"{LAW_2}: line 1: line end: expected LF, found CR (a CRLF copy of the file?)",
    ),
    (
        "a trailing empty line",
        _append(b"\n"),
        f"{LAW_2}: line 4: empty line: expected ids, an empty column, weights, found nothing",
    ),
    (
        "a missing layer",
        _without_layer,
        f"{LAW_2}: missing layer: expected a file for each of the layers 1 to 3, "
        "found no such file",
    ),
    (
        "a layer that only the other tasks have",
        _without_last_layer_of_one_task,
        "law/expert_weights_3.txt: missing layer: expected a file for each of the layers 1 to 3, "
        "found no such file",
    ),
    (
        "a prompt of another length",
        _longer_prompt,
        "law/expert_weights_3.txt: line 2: prompt length: expected 1 tokens, as in layer 1, "
        "found 2",
    ),
    (
        "a prompt less",
        _one_prompt_less,
        "law/expert_weights_3.txt: line 3: number of prompts: expected 3, as in layer 1, found 2",
    ),
    (
        "no summary.json",
        _summary(Path.unlink),
        "law/summary.json: file cannot be read: expected token_scores and gate_scores, "
        "found No such file or directory",
    ),
    (
        "a summary.json cut short",
        _summary(lambda path: path.write_bytes(path.read_bytes()[:-20])),
        "law/summary.json: not JSON: expected token_scores and gate_scores, found ",
    ),
    (
        "a summary.json that is a list",
        _summary(lambda path: path.write_text("[]")),
        "law/summary.json: content: expected token_scores and gate_scores, found list",
    ),
    (
        "a summary.json of other keys",
        _summary(lambda path: path.write_text('{"token_scores": {}}')),
        "law/summary.json: keys: expected token_scores and gate_scores, found ['token_scores']",
    ),
    (
        "a summary.json without a layer",
        _summary(_no_layer_in_gate_scores),
        "law/summary.json: gate_scores, layer 2: expected scores for each of the layers 1 to 3, "
        "found none",
    ),
    (
        "a summary.json without an expert",
        _summary(_one_expert_less),
        "law/summary.json: gate_scores, layer 2: experts: expected the keys 0 to 63, found 63 keys",
    ),
    *(
        (
            f"a score of {value!r}",
            _score(value),
            "law/summary.json: token_scores, layer 2, expert 5: score: expected 0 to 1 with at "
            f"most four decimals, found {value!r}",
        )
        for value in ("0.1", 0.00001, 1.5, -0.1, None, True)
    ),
    (
        "a list of an expert that is not there",
        _list([64]),
        "expert_configs/law.json: layer 2: expected a list of expert ids from 0 to 63, found [64]",
    ),
    (
        "no list of a task",
        lambda made: (made.configs_dir / "law.json").unlink(),
        "expert_configs/law.json: file cannot be read: expected lists of experts by layer, "
        "found No such file or directory",
    ),
    (
        "a task folder with an odd name",
        lambda made: (made.scores_dir / "a b").mkdir(),
        "expert_scores: task folder: expected a name of lower-case letters, digits and hyphens, "
        "found 'a b'",
    ),
]


@pytest.mark.parametrize(("damage", "told"), [d[1:] for d in DAMAGES], ids=[d[0] for d in DAMAGES])
def test_bad_input_gets_one_line_exit_2_and_no_file(
    made: MadeRecord,
    refused_import: Callable[[], str],
    damage: Callable[[MadeRecord], object],
    told: str,
) -> None:
    damage(made)
    assert refused_import().startswith(told)


def run_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["import", "esft", *arguments]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    (line,) = captured.err.splitlines()
    return line


def test_a_scores_folder_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "c.json"
    told = run_refused(["--scores-dir", str(tmp_path / "no"), "--output", str(output)], capsys)
    assert told == (
        "no: scores folder cannot be read: expected a folder with one folder per task, "
        "found No such file or directory"
    )
    assert not output.exists()


def test_a_configs_folder_that_was_asked_for_must_be_there(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run_refused(
        [
            *("--scores-dir", str(made.scores_dir), "--configs-dir", str(tmp_path / "no")),
            *("--output", str(tmp_path / "c.json")),
        ],
        capsys,
    )
    assert told == "no: configs folder: expected a folder, found none"


@pytest.mark.parametrize("which", ["--output", "--routes-output"])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    outputs = {"--output": tmp_path / "c.json", "--routes-output": tmp_path / "r.json"}
    outputs[which] = tmp_path / "no" / "x.json"
    arguments = [text for name, path in outputs.items() for text in (name, str(path))]
    told = run_refused(["--scores-dir", str(made.scores_dir), *arguments], capsys)
    assert told.startswith("x.json: output folder missing")
    assert [path for path in outputs.values() if path.exists()] == []


def test_one_file_for_both_outputs_is_refused(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "c.json")
    told = run_refused(
        [
            *("--scores-dir", str(made.scores_dir)),
            *("--output", output, "--routes-output", output),
        ],
        capsys,
    )
    assert told == "c.json: outputs: expected two files, found one"


MEASURED = """
import sys
from pathlib import Path
from capture.__main__ import main
code = main(sys.argv[2:])
# of this program alone: getrusage would count what the parent held before exec
status = Path("/proc/self/status")
peak = [x.split()[1] for x in status.read_text().splitlines() if x.startswith("VmHWM:")] \\
    if status.exists() else []
Path(sys.argv[1]).write_text("".join(peak))
sys.exit(code)
"""


@dataclass(frozen=True)
class Reimport:
    """One import of the real record: its folder, standard output, and peak memory in KiB."""

    folder: Path
    output: str
    peak: str


@pytest.fixture(scope="module")
def reimported(published_scores: Path, tmp_path_factory: pytest.TempPathFactory) -> Reimport:
    folder = tmp_path_factory.mktemp("reimported")
    done = subprocess.run(
        [
            *(sys.executable, "-c", MEASURED, str(folder / "peak")),
            *("import", "esft", "--scores-dir", str(published_scores)),
            *("--output", str(folder / CORPUS), "--routes-output", str(folder / ROUTES)),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        check=True,
        capture_output=True,
        text=True,
    )
    # no bar where standard error is no terminal
    assert done.stderr == ""
    return Reimport(folder, done.stdout, (folder / "peak").read_text())


@pytest.mark.parametrize("name", [CORPUS, ROUTES])
def test_the_committed_file_is_what_the_command_writes(reimported: Reimport, name: str) -> None:
    committed = ROOT / "src" / "data" / name
    assert (reimported.folder / name).read_bytes() == committed.read_bytes()


def test_the_published_figures_agree_to_the_last_one(reimported: Reimport) -> None:
    lines = reimported.output.splitlines()
    assert lines[:4] == [
        "213 prompts, 33,279 tokens, 26 layers, 5,191,524 selections",
        "scores of summary.json: 13,312 / 13,312",
        "lists of expert_configs: 104 / 104",
        "files of commit 579a7711e4b3: 112 / 112",
    ]


def test_the_import_stays_under_500_megabytes(reimported: Reimport) -> None:
    if not reimported.peak:
        pytest.skip("needs /proc/self/status (Linux), which tells the peak of one process")
    assert int(reimported.peak) * 1024 < 500_000_000


def test_the_committed_files_name_the_publisher_and_every_hash() -> None:
    for name in (CORPUS, ROUTES):
        content = read(ROOT / "src" / "data" / name)
        assert isinstance(content, RoutingCorpus | Routes)
        record = content.record
        assert record is not None
        assert record.commit == "579a7711e4b332b4c57b47e378a0cf240d85caa6"
        assert (record.licence, record.paper) == ("MIT", "arXiv 2407.01906")
        assert len([f for f in record.files if f.name.startswith("expert_scores/")]) == 108
        assert all(f.pinned and f.sha256 is not None for f in record.files)
        assert sum(c.total for c in record.checks) == 13_312 + 104
        assert all(c.agreeing == c.total for c in record.checks)
        assert (ROOT / "src" / "data" / name).stat().st_size < 4_000_000
