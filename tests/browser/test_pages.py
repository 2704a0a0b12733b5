# ruff: noqa: E501 (scripts for the browser read best on one line)
"""What only a real browser can tell: sizes, toggles, colours, requests, accessibility."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from atlas.urls import VEGA
from tests.browser.conftest import SITE, Browser, axe_source, kinds

pytestmark = pytest.mark.browser

KINDS = kinds()
LAYER = next((n for n in KINDS if "/load/" in n and "layer-" in n), "")
VISIBLE = "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).map(e => e.className.baseVal ?? e.className)"


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [390, 1440, 3840])
def test_no_page_is_wider_than_its_window(
    browser: Browser, name: str, lang: str, width: int
) -> None:
    browser.open(name.replace("en/", f"{lang}/", 1), width)
    assert browser.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", KINDS)
def test_a_page_shows_one_weighting_at_a_time(browser: Browser, name: str) -> None:
    for lang, width in (("en", 1440), ("zh", 390)):
        browser.open(name.replace("en/", f"{lang}/", 1), width)
        if not browser.run("return document.querySelector('#w-token_weighted') !== null"):
            assert browser.run(VISIBLE, ".when-token_weighted") == []
            continue
        for chosen, other in (
            ("prompt_balanced", "token_weighted"),
            ("token_weighted", "prompt_balanced"),
        ):
            browser.run("document.getElementById(arguments[0]).click()", f"w-{chosen}")
            assert browser.run(VISIBLE, f".when-{other}") == []
            there = browser.run(
                "return document.querySelectorAll(arguments[0]).length", f".when-{chosen}"
            )
            assert bool(browser.run(VISIBLE, f".when-{chosen}")) == bool(there)


@pytest.mark.parametrize("name", KINDS)
def test_text_in_drawings_is_at_least_eleven_pixels_on_a_phone(browser: Browser, name: str) -> None:
    browser.open(name, 390)
    sizes: list[float] = browser.run(
        """return [...document.querySelectorAll('svg text')].filter(e => e.checkVisibility()).map(e => {
          const m = e.getScreenCTM(); return parseFloat(getComputedStyle(e).fontSize) * Math.min(m.a, m.d)
        })"""
    )
    assert all(size >= 11 for size in sizes)


@pytest.mark.parametrize("name", [*KINDS, "en/notes/corpus.html", "en/notes/trace.html"])
def test_what_scrolls_sideways_can_be_reached_by_keyboard(browser: Browser, name: str) -> None:
    browser.open(name, 390)
    hidden: list[str] = browser.run(
        """return [...document.querySelectorAll('main *')].filter(e => e.checkVisibility())
        .filter(e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth)
        .filter(e => e.tabIndex < 0 && !e.querySelector('a[href], input, select, [tabindex="0"]'))
        .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert hidden == []


def test_a_wide_formula_scrolls_on_a_phone(browser: Browser) -> None:
    browser.open("en/notes/trace.html", 390)
    widths: list[list[float]] = browser.run(
        "return [...document.querySelectorAll('.formula')].map(e => [e.scrollWidth, e.clientWidth])"
    )
    browser.open("en/notes/corpus.html", 390)
    widths += browser.run(
        "return [...document.querySelectorAll('.formula')].map(e => [e.scrollWidth, e.clientWidth])"
    )
    assert any(inner > outer for inner, outer in widths)


@pytest.mark.parametrize("width", [390, 1440])
def test_labels_on_the_axis_do_not_overlap(browser: Browser, width: int) -> None:
    browser.open(LAYER, width)
    boxes: list[list[float]] = browser.run(
        """return [...document.querySelectorAll('.axis.under text')].filter(e => e.checkVisibility())
        .map(e => e.getBoundingClientRect()).map(r => [r.left, r.right])"""
    )
    assert len(boxes) >= 3
    assert all(a[1] < b[0] for a, b in pairwise(boxes))


def test_a_page_asks_for_nothing_but_its_own_files_and_breaks_no_policy(browser: Browser) -> None:
    browser.requests(), browser.complaints()
    for name in KINDS:
        browser.open(name)
    urls = [u for u in browser.requests() if not u.startswith("data:")]
    assert len(urls) > len(KINDS)
    assert [u for u in urls if not u.startswith(SITE.as_uri() + "/")] == []
    # a clone lacks the bundle until a build writes it
    missing = not (SITE / VEGA).is_file()
    assert [c for c in browser.complaints() if not (missing and VEGA in c)] == []


def test_toggles_choose_one_drawing_by_mouse(browser: Browser) -> None:
    browser.open(LAYER)
    shown = [browser.run(VISIBLE, ".plot")]
    for control in ("w-token_weighted", "o-id", "w-prompt_balanced"):
        browser.driver.find_element("id", control).click()
        shown.append(browser.run(VISIBLE, ".plot"))
    assert shown == [
        ["plot v-prompt_balanced o-share"],
        ["plot v-token_weighted o-share"],
        ["plot v-token_weighted o-id"],
        ["plot v-prompt_balanced o-id"],
    ]


def test_toggles_change_the_tables_with_the_drawing(browser: Browser) -> None:
    browser.open(LAYER)
    browser.driver.find_element("id", "w-token_weighted").click()
    classes = browser.run(VISIBLE, "[class*=when-]")
    assert classes
    assert all("when-token_weighted" in c for c in classes)


def test_toggles_work_by_keyboard_alone(browser: Browser) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.open(LAYER)
    for _ in range(80):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        if browser.run("return document.activeElement.id") == "w-prompt_balanced":
            break
    else:
        pytest.fail("the toggle cannot be reached with Tab")
    outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    ActionChains(browser.driver).send_keys(Keys.ARROW_DOWN).perform()
    assert browser.run(VISIBLE, ".plot") == ["plot v-token_weighted o-share"]
    ActionChains(browser.driver).send_keys(Keys.TAB, Keys.ARROW_DOWN).perform()
    assert browser.run(VISIBLE, ".plot") == ["plot v-token_weighted o-id"]


def test_the_first_tab_stop_skips_to_the_content(browser: Browser) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.open(LAYER)
    ActionChains(browser.driver).send_keys(Keys.TAB).perform()
    assert browser.run("return document.activeElement.getAttribute('href')") == "#main"
    assert browser.run("return document.activeElement.getBoundingClientRect().left") >= 0


def test_with_scripts_off_the_page_and_its_toggles_are_the_same(browser: Browser) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(LAYER)
        browser.driver.find_element("id", "w-token_weighted").click()
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert browser.run(VISIBLE, ".plot") == ["plot v-token_weighted o-share"]


def test_both_schemes_are_there(browser: Browser) -> None:
    colours = []
    for scheme in ("light", "dark"):
        browser.open(LAYER, scheme=scheme)
        colours.append(browser.run("return getComputedStyle(document.body).backgroundColor"))
    light, dark = ([int(n) for n in re.findall(r"\d+", c)] for c in colours)
    assert min(light) > 200
    assert max(dark) < 60


def test_print_shows_the_drawing_and_the_closed_table_without_navigation(browser: Browser) -> None:
    browser.open(LAYER, media="print")
    assert browser.run(VISIBLE, "header nav, .controls, .tabs, .rail") == []
    assert browser.run(VISIBLE, ".plot") == ["plot v-prompt_balanced o-share"]
    height = "return document.querySelector('table.values').getBoundingClientRect().height"
    assert browser.run(height) > 300


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(browser: Browser, name: str, scheme: str) -> None:
    source = axe_source()
    browser.open(name, scheme=scheme)
    browser.run(source + "; for (const d of document.querySelectorAll('details')) d.open = true;")
    result: dict[str, Any] = browser.driver.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done)"
    )
    found = [
        (v["id"], node["html"][:160], node.get("failureSummary", "")[:200])
        for v in result["violations"]
        for node in v["nodes"][:3]
    ]
    assert found == []
