"""Training and held-out text of the embedded checkpoint: four domains of real text.

Each domain is a list of documents; one in twenty, by its SHA-256, is held out. The
files are read from a data folder that is not part of the project (see the model card
for their hashes), the code from CPython's own standard library.
"""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

HELD_OUT_ONE_IN = 20
MAX_CHARACTERS = 6000  # a long module must not be a whole epoch of its domain
_CALCULATOR = re.compile(r"<<[^>]*>>")


@dataclass(frozen=True)
class Domain:
    """Documents of one domain, and the hash of all bytes they were read from."""

    name: str
    source: str
    source_sha256: str
    train: list[str]
    held_out: list[str]


def load_domains(data_dir: Path) -> list[Domain]:
    """The four domains in fixed order; FileNotFoundError names what is missing."""
    english = [data_dir / "wikitext-2/test.txt", data_dir / "text-en/c4.txt"]
    mathematics = [data_dir / "gsm8k/train.jsonl"]
    chinese = [data_dir / "tnews/train.json"]
    library = Path(sysconfig.get_path("stdlib"))
    code = sorted(
        p
        for p in library.rglob("*.py")
        if not {"test", "tests", "idle_test", "site-packages", "lib2to3"} & set(p.parts)
    )
    return [
        _domain("en_encyclopedia", "WikiText-2 test, C4 samples", english, _english(english)),
        _domain("zh_news", "CLUE TNEWS train, sentence", chinese, _field(chinese[0], "sentence")),
        _domain("code", "CPython standard library", code, (_read(p) for p in code)),
        _domain("math", "GSM8K train", mathematics, _mathematics(mathematics[0])),
    ]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="ignore")


def _field(path: Path, name: str) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)[name]


def _english(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        for line in _read(path).split("\n"):
            if line.strip() and not line.strip().startswith("= "):
                yield line.strip()


def _mathematics(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["question"] + "\n" + _CALCULATOR.sub("", row["answer"])


def _domain(name: str, source: str, files: list[Path], documents: Iterator[str]) -> Domain:
    digest = sha256()
    for file in files:
        digest.update(file.read_bytes())
    train: list[str] = []
    held_out: list[str] = []
    for document in documents:
        for start in range(0, len(document), MAX_CHARACTERS):
            piece = document[start : start + MAX_CHARACTERS]
            slot = int.from_bytes(sha256(piece.encode()).digest()[:8], "big") % HELD_OUT_ONE_IN
            (held_out if slot == 0 else train).append(piece)
    return Domain(name, source, digest.hexdigest(), train, held_out)
