from __future__ import annotations

import sys
import types

import pytest

from atlas import vendor
from atlas.vendor import bundle


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stand-in for vl-convert that notes each bundle it is asked for."""
    asked: list[str] = []

    def javascript_bundle(snippet: str, vl_version: str) -> str:
        asked.append(vl_version)
        return f"/* Vega */ {snippet}"

    module = types.ModuleType("vl_convert")
    module.javascript_bundle = javascript_bundle  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vl_convert", module)
    monkeypatch.setattr(vendor, "version", lambda name: "9.9")
    return asked


def test_without_vl_convert_there_is_no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert bundle() is None
    assert bundle(b"what an earlier build left") is None


def test_a_bundle_names_its_origin_and_is_for_the_vega_lite_that_altair_writes(
    made: list[str],
) -> None:
    import altair

    script = bundle()
    assert script is not None
    head, _, rest = script.partition(b"\n")
    assert head.startswith(b"/* Vega, BSD-3-Clause, by vl-convert 9.9, Vega-Lite ")
    assert rest == b"/* Vega */ window.vegaEmbed = vegaEmbed;"
    assert [altair.VEGALITE_VERSION.startswith(f"{v}.") for v in made] == [True]


def test_an_earlier_bundle_is_kept_if_it_is_whole(made: list[str]) -> None:
    first = bundle()
    assert bundle(first) == first
    assert len(made) == 1


@pytest.mark.parametrize("damage", [b"", b"x", b"\n/* Vega */ window.vegaEmbed = vegaEmbed;"])
def test_a_damaged_or_foreign_bundle_is_made_again(made: list[str], damage: bytes) -> None:
    first = bundle()
    assert first is not None
    assert bundle(first + damage if damage == b"x" else damage) == first
    assert len(made) == 2


def test_a_bundle_of_another_version_is_made_again(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = bundle()
    monkeypatch.setattr(vendor, "version", lambda name: "10.0")
    second = bundle(first)
    assert second is not None and b"vl-convert 10.0" in second
    assert len(made) == 2


def test_the_real_bundle_is_the_same_bytes_twice_and_a_classic_script() -> None:
    pytest.importorskip("vl_convert", reason="installing vl-convert-python un-skips this")
    script = bundle()
    assert script is not None
    assert bundle() == script
    # a module could not be loaded from file://
    assert b"export{" not in script and b"import.meta" not in script
    assert script.rstrip().endswith(b";")
