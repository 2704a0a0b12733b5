"""What every fuzz test shares: small seed files, and a watch over time and over what is written."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from benchmarks.make_checkpoint import make_checkpoint
from capture.demo.seal import CHECKPOINT

SECONDS_PER_FILE = 20.0
MUTATIONS = {
    "config": 1500,
    "index": 1500,
    "header": 1200,
    "tokenizer": 600,
    "corpora": 1500,
    "work": 700,
    "datasets": 3000,
}
"""How many damaged files each test makes: 10,000 in all."""

TINY = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "kv_lora_rank": 8,
    "moe_intermediate_size": 8,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 3,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "vocab_size": 320,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}


def bounded(kind: str) -> settings:
    """The same files in every run, as many as the table says."""
    return settings(
        max_examples=MUTATIONS[kind],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


class Watch:
    """An audit hook that, while open, records writes outside one folder."""

    def __init__(self) -> None:
        self.inside: Path | None = None
        self.outside: list[str] = []
        sys.addaudithook(self._event)

    def _event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.inside is None:
            return
        changes = event in CHANGES or (event == "open" and bool((arguments[2] or 0) & WRITES))
        if changes and isinstance(arguments[0], str | bytes | os.PathLike):
            path = Path(os.fsdecode(arguments[0])).absolute()
            if path != Path(os.devnull) and not path.is_relative_to(self.inside):
                self.outside.append(f"{event} {path}")


WATCH = Watch()


@pytest.fixture
def guarded(tmp_path: Path) -> Callable[[Callable[[], Any]], Any]:
    """Run something that must end soon and must write nothing outside the test's own folder."""

    def too_long(_signal: int, _frame: Any) -> None:
        raise AssertionError(f"still running after {SECONDS_PER_FILE} s")

    def run(work: Callable[[], Any]) -> Any:
        previous = signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_FILE)
        WATCH.inside, WATCH.outside = tmp_path, []
        try:
            return work()
        finally:
            WATCH.inside = None
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
            assert WATCH.outside == []

    return run


@pytest.fixture
def command(guarded: Callable[[Callable[[], Any]], Any]) -> Callable[..., int]:
    """Run a command line; its end must be 0, or 2 with one line. Gives the exit code."""
    from capture.__main__ import main

    def run(*argv: str | Path) -> int:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code: int = guarded(lambda: main([str(a) for a in argv]))
        assert code in (0, 2), err.getvalue()
        if code == 2:
            assert len(err.getvalue().splitlines()) == 1, err.getvalue()
        return code

    return run


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of some 60 kB in two shards, with a tokenizer of 320 ids."""
    folder = tmp_path_factory.mktemp("tiny")
    config = json.loads((CHECKPOINT / "config.json").read_text("utf-8")) | TINY
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<b>", "<e>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the router picks experts for a token"] * 3, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    made = folder / "made"
    make_checkpoint(
        made, folder / "config.json", tokenizer=folder / "tokenizer.json", shard_bytes=30_000
    )
    return made


@pytest.fixture
def artifact(tiny: Path, tmp_path: Path) -> Path:
    """Links to the tiny checkpoint; a test replaces one of them by a damaged file."""
    folder = tmp_path / "artifact"
    folder.mkdir()
    for file in tiny.iterdir():
        (folder / file.name).symlink_to(file)
    return folder


def replace(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


@pytest.fixture(scope="session", autouse=True)
def few_threads() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
