"""The made-up record, and the real one where it is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capture.__main__ import main
from tests.capture.imported.made import MadeRecord, make_record

SHARED_RECORD = Path(__file__).parents[4] / "shared" / "data" / "esft" / "results"


@pytest.fixture
def made(tmp_path: Path) -> MadeRecord:
    return make_record(tmp_path / "results")


@pytest.fixture(scope="session")
def published_scores() -> Path:
    """The folder of the real record's scores."""
    folder = SHARED_RECORD / "expert_scores"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data/esft (the ESFT record, 49 MB, not committed)")
    return folder


@pytest.fixture
def refused_import(
    made: MadeRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[], str]:
    """Import the made-up record, which must be refused; gives the one line."""

    def run() -> str:
        outputs = tmp_path / "out"
        outputs.mkdir()
        capsys.readouterr()
        code = main(
            [
                *("import", "esft", "--scores-dir", str(made.scores_dir)),
                *("--output", str(outputs / "corpus.json")),
                *("--routes-output", str(outputs / "routes.json")),
            ]
        )
        captured = capsys.readouterr()
        assert code == 2, captured
        assert not captured.out
        assert list(outputs.iterdir()) == []
        lines = captured.err.splitlines()
        assert len(lines) == 1, lines
        return lines[0]

    return run
