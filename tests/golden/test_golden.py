from __future__ import annotations

from pathlib import Path

import pytest

from atlas.effects import Disk
from atlas.site import Options, check

HERE = Path(__file__).parent
CASES = sorted(p.name for p in HERE.iterdir() if (p / "data").is_dir())


def test_there_is_a_golden_case() -> None:
    assert CASES


@pytest.mark.parametrize("case", CASES)
def test_a_golden_site_is_what_a_build_gives_byte_for_byte(case: str) -> None:
    options = Options(HERE / case / "data", HERE.parents[1] / "templates", HERE / case / "site")
    where = f"tests/golden/{case}"
    refresh = f"python build.py build --data-dir {where}/data --output {where}/site"
    assert check(options, Disk()) == (), f"if the change is meant: {refresh}"
