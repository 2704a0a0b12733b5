"""How to regenerate the data of DeepSeek-V2-Lite on a machine that holds its weights.

The commands are those of the README; a test holds the two together and runs them. The pinned
files are those of the capture, which this package does not import; a test compares them too.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from atlas.numbers import COUNT
from atlas.pages.frame import Frame, Page, Writer
from atlas.shelf import HeldOfficial, Model
from atlas.urls import URLS

SLUG = "deepseek-v2-lite"

PYTHON = ".venv/bin/python"
_DATA = f"src/data/{SLUG}"
_PUBLISHED = f"{_DATA}-published.json"
_CORPORA = (
    "--human-eval HumanEval.jsonl.gz --gsm8k test.jsonl "
    "--tnews test.json --tnews-archive tnews_public.zip --wikitext validation.parquet"
)


@dataclass(frozen=True)
class Step:
    """One step: its name in the string table, and its commands."""

    name: str
    commands: tuple[str, ...]


def _run(name: str, what: str, output: str) -> str:
    more = f" {what}" if what else ""
    return f"{PYTHON} -m capture {name} --artifact-dir DIR --device cuda{more} --output {output}"


def _verify(data: str, report: str) -> str:
    return (
        f"{PYTHON} -m capture verify --data {_DATA}-{data}.json --against {_PUBLISHED} "
        f"--output {_DATA}-{report}.json"
    )


STEPS = (
    Step("install", ("make install-capture",)),
    Step("inspect", (f"{PYTHON} -m capture inspect --artifact-dir DIR",)),
    Step(
        "trace",
        (
            _run("trace", "", f"{_DATA}-trace.json"),
            _run("trace", "", "trace-again.json"),
        ),
    ),
    Step(
        "compare",
        (
            f"{PYTHON} -m capture compare --first {_DATA}-trace.json "
            f"--second trace-again.json --output {_DATA}-trace-comparison.json",
        ),
    ),
    Step(
        "corpus",
        (
            _run("corpus", _CORPORA, f"{_DATA}-routing-corpus.json"),
            _run("corpus", _CORPORA, "corpus-again.json"),
            f"cmp {_DATA}-routing-corpus.json corpus-again.json",
        ),
    ),
    Step(
        "verify",
        (
            _verify("trace", "trace-verification"),
            _verify("routing-corpus", "corpus-verification"),
        ),
    ),
    Step("build", (f"{PYTHON} build.py build",)),
)
"""Every command in order. DIR is the artifact folder."""


@dataclass(frozen=True)
class Pin:
    """A file that the capture compares with its pin before it is used."""

    name: str
    bytes: int
    sha256: str


PINS = (
    Pin(
        "config.json",
        1522,
        "f346286b0f1c8b044252fd54cb4fa78b9fab6472a6e8bebb9edfe03d414ea03d",
    ),
    Pin(
        "configuration_deepseek.py",
        10338,
        "6de5e7445ab490a16482027b131d5bd6a003da9b58a182a11432115fac84ce59",
    ),
    Pin(
        "modeling_deepseek.py",
        78672,
        "7d8e5221095286eea991137760893fd7ba52727c0b4ebf48ec09e8bc56b45b9c",
    ),
    Pin(
        "tokenizer.json",
        4607451,
        "41f3bf64213da8c012d8bd0871a58a1fdf70463e8f08f110ddbb1082f529f669",
    ),
    Pin(
        "model.safetensors.index.json",
        479924,
        "d2cdb2f325f6682cf3ad1ad2526a9f979d857390b579380c0331d975136e0acf",
    ),
    Pin(
        "model-00001-of-000004.safetensors",
        8594887408,
        "0d7e9f39bde40111a4c0f390b87497dce4565cf578d916395e6b2c7851f1e8da",
    ),
)


@dataclass(frozen=True)
class Failure:
    """Something that a command says, and its name in the string table. `says` is the part of
    the line that is always the same; `code` is the exit code."""

    name: str
    says: str
    code: int


FAILURES = (
    Failure("missing", "file missing: expected", 2),
    Failure("hash", "SHA-256 differs from the pin: expected", 2),
    Failure("unpinned", "SHA-256 is of no known model: expected", 2),
    Failure("stop", "lacks tensors in", 0),
    Failure("nothing", "file missing, no layer can run", 2),
    Failure("truncated", "shard size: expected", 2),
    Failure("transformers", "transformers: version: expected 4.41.2", 2),
    Failure("cuda", "--device: no such device: expected a CUDA GPU, found none", 2),
    Failure("corpus", "not the pinned corpus file", 2),
    Failure("compare", "differs: ", 1),
    Failure("verify", "differing: ", 1),
)


@dataclass(frozen=True)
class DownloadRow:
    """A file to download. `size` is of the file where it is pinned, else of its tensors."""

    name: str
    size: str
    sha256: str
    note: str


@dataclass(frozen=True)
class StepRow:
    """A step as the page shows it."""

    title: str
    note: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class FailureRow:
    """A line that a command prints, what it means, and what to do."""

    says: str
    code: int
    meaning: str


@dataclass(frozen=True)
class WorkstationContext:
    """Context of workstation.html.j2."""

    frame: Frame
    headline: str
    lead: str
    repository: str
    revision: str
    files: tuple[DownloadRow, ...]
    files_note: str
    needs: tuple[str, ...]
    steps: tuple[StepRow, ...]
    failures: tuple[FailureRow, ...]


def has_guide(model: Model) -> bool:
    """Whether the guide is of this model, and the official sizes that it names are at hand."""
    return model.slug == SLUG and model.official is not None


def command_lines(name: str) -> tuple[str, ...]:
    """Commands of a step, those that compare left out."""
    step = next(step for step in STEPS if step.name == name)
    return tuple(wrapped(c) for c in step.commands if "-again.json" not in c)


def workstation_pages(writer: Writer, model: Model, held: HeldOfficial) -> Iterator[Page]:
    """The guide; nothing for other models."""
    if not has_guide(model):
        return
    t, official = writer.t, held.official
    path = URLS.workstation(writer.lang, model.slug)
    title = t("workstation.headline", model=model.identity.title)
    # on a GPU the next layer is copied while one runs
    held_at_once = max(a.bytes + b.bytes for a, b in pairwise(official.layers))
    needs = (
        t(
            "workstation.disk",
            bytes=COUNT.text(official.tensor_bytes),
            shards=len(official.shards),
        ),
        t("workstation.memory", bytes=COUNT.text(held_at_once)),
        t("workstation.time"),
    )
    context = WorkstationContext(
        frame=writer.frame(
            path,
            f"{t('nav.workstation')} · {model.identity.title}",
            title,
            crumbs=[*writer.model_crumbs(model), (None, t("nav.workstation"))],
            model=model,
            sources=[held.file],
        ),
        headline=title,
        lead=t("workstation.lead"),
        repository=model.identity.repository,
        revision=model.identity.revision,
        files=tuple(_files(writer, held)),
        files_note=t("workstation.files_note"),
        needs=needs,
        steps=tuple(
            StepRow(
                t(f"workstation.step_{step.name}"),
                t(f"workstation.step_{step.name}_note"),
                tuple(wrapped(c) for c in step.commands),
            )
            for step in STEPS
        ),
        failures=tuple(
            FailureRow(f.says, f.code, t(f"workstation.failure_{f.name}")) for f in FAILURES
        ),
    )
    yield Page(path, "workstation.html.j2", writer.lang, context)


def _files(writer: Writer, held: HeldOfficial) -> Iterator[DownloadRow]:
    for pin in PINS:
        yield DownloadRow(
            pin.name, COUNT.text(pin.bytes), pin.sha256, writer.t("workstation.pinned")
        )
    named = {pin.name for pin in PINS}
    for shard in held.official.shards:
        if shard.shard not in named:
            yield DownloadRow(
                shard.shard, COUNT.text(shard.bytes), "", writer.t("workstation.unpinned")
            )


def wrapped(command: str) -> str:
    """A command with a line per option, as a shell takes it."""
    words = shlex.split(command)
    lines, start = [], 0
    for place, word in enumerate(words):
        if word.startswith("--") and place > start:
            lines.append(" ".join(words[start:place]))
            start = place
    lines.append(" ".join(words[start:]))
    return " \\\n    ".join(lines) if len(command) > 80 else command
