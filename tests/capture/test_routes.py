"""`python -m capture export routes`: every route there and back, the same bytes each time."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from atlas.contract import read
from atlas.contract.trace import Trace
from capture.__main__ import main
from capture.errors import Refusal
from capture.routes import from_trace, read_export, render
from tests.capture.imported.made import MadeRecord, make_record

DEMO_TRACE = Path(__file__).parents[2] / "src" / "data" / "demo-trace.json"


@pytest.fixture
def made(tmp_path: Path) -> MadeRecord:
    return make_record(tmp_path / "results")


def export_made(made: MadeRecord, folder: Path, *more: str) -> None:
    arguments = ("--scores-dir", str(made.scores_dir), "--output-dir", str(folder))
    assert main(["export", "routes", *arguments, *more]) == 0


def test_every_route_comes_back_from_the_archive(made: MadeRecord, tmp_path: Path) -> None:
    export_made(made, tmp_path / "export", "--with-weights")
    arrays, manifest = read_export(tmp_path / "export")
    ids, starts = arrays["expert_ids_NLK"], arrays["sequence_starts"]
    assert ids.dtype == np.uint16
    assert ids.shape == arrays["weights_NLK"].shape == (23, 3, 6)
    assert starts.tolist() == [0, 4, 6, 9, 14, 20, 21, 23]
    assert arrays["layer_numbers"].tolist() == [1, 2, 3]
    assert [p.start for p in manifest.prompts] == starts.tolist()[:-1]
    row = 0
    for task, by_layer in made.routes.items():
        for prompt in range(len(by_layer[1])):
            assert manifest.prompts[row].prompt_id == f"{task}-{prompt + 1:03d}"
            for layer, prompts in by_layer.items():
                for position, token in enumerate(prompts[prompt]):
                    ordered = sorted(token, key=lambda pair: (-pair[1], pair[0]))
                    place = starts[row] + position, layer - 1
                    assert ids[place].tolist() == [expert for expert, _ in ordered]
                    assert arrays["weights_NLK"][place].tolist() == pytest.approx(
                        [units / 10_000 for _, units in ordered], abs=1e-7
                    )
            row += 1


def test_the_manifest_hashes_the_archive_each_array_and_each_route(
    made: MadeRecord, tmp_path: Path
) -> None:
    export_made(made, tmp_path / "export")
    arrays, manifest = read_export(tmp_path / "export")
    data = (tmp_path / "export" / "routes.npz").read_bytes()
    assert (manifest.archive.bytes, manifest.archive.sha256) == (
        len(data),
        sha256(data).hexdigest(),
    )
    assert [a.name for a in manifest.arrays] == [
        "expert_ids_NLK",
        "sequence_starts",
        "layer_numbers",
    ]
    for array in manifest.arrays:
        assert array.sha256 == sha256(arrays[array.name].tobytes()).hexdigest()
    last = manifest.prompts[-1]
    ids_LTK = arrays["expert_ids_NLK"][last.start : last.start + last.tokens].transpose(1, 0, 2)
    assert last.route_sha256 == sha256(np.ascontiguousarray(ids_LTK).tobytes()).hexdigest()


def test_two_exports_are_the_same_bytes(made: MadeRecord, tmp_path: Path) -> None:
    for name in ("a", "b"):
        export_made(made, tmp_path / name, "--with-weights")
    for file in ("routes.npz", "manifest.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "manifest.json",
        "routes.npz",
    ]


def test_a_damaged_archive_is_not_read(made: MadeRecord, tmp_path: Path) -> None:
    export_made(made, tmp_path / "export")
    path = tmp_path / "export" / "routes.npz"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Refusal, match=r"^routes\.npz: SHA-256: expected"):
        read_export(tmp_path / "export")


def test_a_trace_exports_its_moe_layers_in_its_own_order(
    tmp_path: Path,
) -> None:
    if not DEMO_TRACE.is_file():
        pytest.skip("needs src/data/demo-trace.json (`python -m capture trace` writes it)")
    trace = read(DEMO_TRACE)
    assert isinstance(trace, Trace)
    folder = tmp_path / "export"
    assert main(["export", "routes", "--trace", str(DEMO_TRACE), "--output-dir", str(folder)]) == 0
    arrays, manifest = read_export(folder)
    assert manifest.evidence == trace.evidence
    assert manifest.layers == tuple(layer.layer for layer in trace.moe_layers)
    assert manifest.record is None
    for row, prompt in enumerate(manifest.prompts):
        rows = slice(prompt.start, prompt.start + prompt.tokens)
        for index, layer in enumerate(trace.moe_layers):
            assert layer.moe is not None
            routes = layer.moe.routes[row]
            assert prompt.prompt_id == routes.prompt_id
            assert arrays["expert_ids_NLK"][rows, index].tolist() == [
                list(ids) for ids in routes.expert_ids_TK
            ]
    assert render(from_trace(trace), False)[0] == (folder / "routes.npz").read_bytes()


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["export", "routes", *arguments]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    (line,) = captured.err.splitlines()
    return line


def test_one_source_is_needed_and_no_more(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--output-dir", str(tmp_path / "export")]
    both = ["--scores-dir", str(made.scores_dir), "--trace", "x.json"]
    expected = "export routes: source: expected either --scores-dir or --trace, found"
    assert refused(output, capsys) == f"{expected} neither"
    assert refused([*both, *output], capsys) == f"{expected} both"


def test_an_output_that_is_a_file_or_under_one_is_refused(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("kept")
    source = ["--scores-dir", str(made.scores_dir), "--output-dir"]
    assert refused([*source, str(tmp_path / "file")], capsys) == (
        "file: output: expected a folder, found a file"
    )
    assert refused([*source, str(tmp_path / "file" / "below")], capsys).startswith(
        "below: export cannot be written: expected a writable folder, found "
    )
    assert (tmp_path / "file").read_text() == "kept"


def test_a_bad_record_exports_nothing(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made.edit_line("law", 2, 1, lambda line: line.replace(b"\t\t", b"\t"))
    folder = tmp_path / "export"
    told = refused(["--scores-dir", str(made.scores_dir), "--output-dir", str(folder)], capsys)
    assert told.startswith("law/expert_weights_2.txt: line 1: layout: expected one empty column")
    assert not folder.exists()


def test_a_file_that_is_no_trace_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--output-dir", str(tmp_path / "export")]
    told = refused(["--trace", str(tmp_path / "no.json"), *output], capsys)
    assert told == "no.json: file cannot be read: expected a trace, found No such file or directory"
    (tmp_path / "odd.json").write_text('{"schema": "other"}')
    assert refused(["--trace", str(tmp_path / "odd.json"), *output], capsys).startswith(
        "odd.json: schema: expected one of"
    )
