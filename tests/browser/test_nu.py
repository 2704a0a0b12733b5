"""The Nu HTML checker on every page."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.browser.conftest import NODE_MODULES, SITE

pytestmark = pytest.mark.browser

JAR = NODE_MODULES / "vnu-jar/build/dist/vnu.jar"


def problems(*arguments: str) -> list[dict[str, object]]:
    """Messages of the checker about the files named."""
    if not JAR.is_file():
        pytest.skip("vnu-jar is not at hand; npm ci in tests/browser un-skips this")
    if shutil.which("java") is None:
        pytest.skip("java is not on the path; Debian's default-jre-headless un-skips this")
    done = subprocess.run(
        ["java", "-Xss4m", "-jar", str(JAR), "--format", "json", *arguments],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return list(json.loads(done.stderr)["messages"])


def errors(messages: list[dict[str, object]]) -> list[tuple[str, object, object]]:
    """Errors alone. Among the warnings is one that holds for file:// only: the checker takes the
    stylesheet beside a page for a stranger's under `style-src 'self'`; the browser does not."""
    return [
        (str(m.get("url", "")).rpartition("site/")[2], m.get("lastLine"), m["message"])
        for m in messages
        if m["type"] != "info"
    ]


def test_the_checker_finds_no_error_on_any_page() -> None:
    assert len(list(SITE.rglob("*.html"))) > 20
    assert errors(problems("--skip-non-html", str(SITE))) == []


def test_the_checker_finds_no_error_in_any_drawing_offered_as_a_file() -> None:
    assert errors(problems("--skip-non-svg", str(SITE))) == []


def test_the_checker_finds_an_error_that_is_there(tmp_path_factory: pytest.TempPathFactory) -> None:
    page = tmp_path_factory.mktemp("wrong") / "page.html"
    page.write_text('<!doctype html><html lang="en"><title>x</title><p id="a"><p id="a">')
    assert [m for _, _, m in errors(problems(str(page)))] == ["Duplicate ID “a”."]
