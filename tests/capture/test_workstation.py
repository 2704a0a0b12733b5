"""The workstation guide: README, page and capture agree, and the commands run as written."""

from __future__ import annotations

import filecmp
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from atlas.contract import Verification, read
from atlas.pages.workstation import FAILURES, PINS, STEPS, wrapped
from capture import runtime
from capture.__main__ import main
from capture.corpus import sources
from capture.demo.layout import SHARDS
from capture.demo.seal import CHECKPOINT
from capture.pins import model_called
from tests.capture.published_files import OFFICIAL, PUBLISHED, official

ROOT = Path(__file__).parents[2]
SMALL = ("--per-domain", "6", "--bootstrap", "20", "--allow-unpinned-corpus")
"""Of 32 prompts a domain and 2,000 replicates this test has no need; its corpora have no pin."""
COMPARES = {"verify": 1}
"""Exit codes other than 0: the embedded checkpoint does not give the published figures back."""


def section() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition("## On a workstation")[2].partition("\n## ")[0]


def commands() -> list[str]:
    """The commands of the README's section, one line each."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", section(), flags=re.MULTILINE | re.DOTALL)
    lines = block.replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip() and line[0] != "#"]


# --- README, page and pins say the same ---


def test_the_readme_and_the_page_have_the_same_commands_in_the_same_order() -> None:
    assert commands() == [command for step in STEPS for command in step.commands]


def test_a_command_on_several_lines_is_the_same_command() -> None:
    for command in commands():
        assert shlex.split(wrapped(command).replace("\\\n", "")) == shlex.split(command)


def test_the_files_of_the_guide_are_the_pins_of_the_capture() -> None:
    pinned = [(f.name, f.bytes, f.sha256) for f in model_called("deepseek-v2-lite").files]
    assert [(p.name, p.bytes, p.sha256) for p in PINS] == pinned
    for pin in PINS:
        assert f"| `{pin.name}` | {pin.bytes:,} | `{pin.sha256}` |" in section()


def test_the_sizes_of_the_readme_are_those_of_the_official_shapes() -> None:
    layers = official().layers
    two = max(a.bytes + b.bytes for a, b in pairwise(layers))
    assert f"{official().tensor_bytes:,} bytes on disk" in " ".join(section().split())
    assert f"{two:,} bytes by their shapes" in " ".join(section().split())


def test_the_readme_has_a_row_for_every_failure_of_the_page() -> None:
    rows = re.findall(r"^\| `(.+?)` \| ([012]) \| ", section(), flags=re.MULTILINE)
    assert rows == [(failure.says, str(failure.code)) for failure in FAILURES]


# --- the commands ---


def corpora(folder: Path) -> None:
    """The four corpora under the names of the README, made from the embedded probes."""
    pyarrow = pytest.importorskip("pyarrow", reason="install pyarrow to run this")
    from pyarrow import parquet

    texts = {
        domain: [text.text for text in sources.probes(domain).texts()]
        for domain in ("en_encyclopedia", "zh_news", "code", "math")
    }

    def lines(rows: list[dict[str, object]]) -> bytes:
        return "".join(json.dumps(row) + "\n" for row in rows).encode()

    code = [{"task_id": f"HumanEval/{i}", "prompt": t} for i, t in enumerate(texts["code"])]
    (folder / "HumanEval.jsonl.gz").write_bytes(gzip.compress(lines(code), mtime=0))
    (folder / "test.jsonl").write_bytes(lines([{"question": t} for t in texts["math"]]))
    news = [{"id": i, "sentence": t} for i, t in enumerate(texts["zh_news"])]
    (folder / "test.json").write_bytes(lines(news))
    with zipfile.ZipFile(folder / "tnews_public.zip", "w") as archive:
        archive.write(folder / "test.json", "test.json")
    parquet.write_table(
        pyarrow.table({"text": texts["en_encyclopedia"]}), folder / "validation.parquet"
    )


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a clone's root: src/data with what is committed about the model."""
    (tmp_path / "src/data").mkdir(parents=True)
    for file in (PUBLISHED, OFFICIAL):
        shutil.copyfile(file, tmp_path / "src/data" / file.name)
    corpora(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: str, artifact: Path, workplace: Path) -> int:
    """Run one command of the README, with the embedded checkpoint for DIR, on the CPU."""
    words = shlex.split(command)
    if words[0] == "cmp":
        return int(not filecmp.cmp(words[1], words[2], shallow=False))
    assert words[0] == ".venv/bin/python", command
    if words[1:] == ["build.py", "build"]:
        options = ("--data-dir", str(workplace / "src/data"), "--output", str(workplace / "site"))
        done = subprocess.run(
            [sys.executable, str(ROOT / "build.py"), "build", *options],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return 0
    assert words[1:3] == ["-m", "capture"], command
    argv = [str(artifact) if word == "DIR" else word for word in words[3:]]
    argv = ["cpu" if word == "cuda" else word for word in argv]
    return main([*argv, *(SMALL if words[3] == "corpus" else ())])


def test_the_commands_of_the_readme_run_in_order_on_the_embedded_checkpoint(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *rest = commands()
    assert first == "make install-capture"  # made already: it is what runs this test
    for command in rest:
        words = shlex.split(command)
        expected = COMPARES.get(words[3], 0) if len(words) > 3 else 0
        assert run(command, CHECKPOINT, workplace) == expected, command
    shown = capsys.readouterr().out
    exact = re.search(r"^(\d+) / (\d+) exact$", shown, flags=re.MULTILINE)
    assert exact is not None and exact[1] == exact[2]
    for name in ("trace", "corpus"):
        report = read(workplace / f"src/data/deepseek-v2-lite-{name}-verification.json")
        assert isinstance(report, Verification) and report.counts.differs > 0
    made = {p.name for p in (workplace / "src/data").iterdir()}
    assert made == {PUBLISHED.name, OFFICIAL.name} | {
        f"deepseek-v2-lite-{name}.json"
        for name in (
            *("trace", "trace-comparison", "routing-corpus"),
            *("trace-verification", "corpus-verification"),
        )
    }
    site = workplace / "site/en"
    assert (site / "models/demo/trace/layer-01.html").is_file()
    # a run of another model says nothing about the printed figures of this one
    assert "Verified against published" not in (
        site / "models/deepseek-v2-lite/index.html"
    ).read_text(encoding="utf-8")


# --- every failure of the table is what a command says ---


def says(name: str) -> str:
    return next(failure.says for failure in FAILURES if failure.name == name)


def test_a_missing_file_says_so(linked_checkpoint, refused) -> None:
    folder = linked_checkpoint(without=("tokenizer.json",))
    assert says("missing") in refused("trace", "--artifact-dir", folder, "--quiet")


def test_another_hash_says_so(linked_checkpoint, refused) -> None:
    folder = linked_checkpoint(own=("tokenizer.json",))
    data = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(data[:-2] + b" \n")
    assert says("hash") in refused("trace", "--artifact-dir", folder, "--quiet")


def test_an_unknown_config_says_so(linked_checkpoint, refused) -> None:
    folder = linked_checkpoint(own=("config.json",))
    (folder / "config.json").write_text("{}", encoding="utf-8")
    assert says("unpinned") in refused("trace", "--artifact-dir", folder, "--quiet")


def test_the_stop_line_is_no_failure(first_shard_only, capsys) -> None:
    argv = ["--artifact-dir", str(first_shard_only), "--skip-shard-hashes", "--quiet"]
    assert main(["inspect", *argv]) == 0
    assert says("stop") in capsys.readouterr().out


def test_a_missing_first_shard_says_that_no_layer_can_run(linked_checkpoint, refused) -> None:
    folder = linked_checkpoint(without=(SHARDS[0],))
    assert says("nothing") in refused("trace", "--artifact-dir", folder, "--quiet")


def test_a_truncated_shard_says_so(linked_checkpoint, refused) -> None:
    folder = linked_checkpoint(own=(SHARDS[0],))
    os.truncate(folder / SHARDS[0], (folder / SHARDS[0]).stat().st_size - 1000)
    assert says("truncated") in refused("trace", "--artifact-dir", folder, "--quiet")


def test_another_transformers_says_so(first_shard_only, refused, monkeypatch) -> None:
    monkeypatch.setattr(runtime, "version", lambda name: "5.5.0")
    argv = ("--artifact-dir", first_shard_only, "--quiet", "--skip-shard-hashes")
    line = refused("trace", *argv)
    assert line == f"{says('transformers')}, found 5.5.0"


def test_a_missing_gpu_says_so(first_shard_only, refused, monkeypatch) -> None:
    monkeypatch.setattr(runtime.torch.cuda, "is_available", lambda: False)
    argv = ("--artifact-dir", first_shard_only, "--quiet", "--skip-shard-hashes")
    assert refused("trace", *argv, "--device", "cuda") == says("cuda")


def test_another_edition_of_a_corpus_says_so(first_shard_only, refused, tmp_path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text('{"question": "How many?"}\n', encoding="utf-8")
    line = refused("corpus", "--artifact-dir", first_shard_only, "--gsm8k", path, "--quiet")
    assert says("corpus") in line


def test_two_traces_that_differ_and_a_figure_that_differs_say_so(
    first_shard_only, tmp_path, capsys
) -> None:
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    argv = ["--artifact-dir", str(first_shard_only), "--layers", "2", "--quiet"]
    assert main(["trace", *argv, "--output", str(paths[0])]) == 0
    content = json.loads(paths[0].read_text(encoding="utf-8"))
    content["final_hidden_sha256"] = "0" * 64
    paths[1].write_text(json.dumps(content), encoding="utf-8")
    capsys.readouterr()
    files = ("--first", str(paths[0]), "--second", str(paths[1]))
    assert main(["compare", *files, "--output", str(tmp_path / "c.json")]) == 1
    assert says("compare") in capsys.readouterr().out
    assert main(["verify", "--data", str(paths[0]), "--against", str(PUBLISHED)]) == 1
    assert says("verify") in capsys.readouterr().out
