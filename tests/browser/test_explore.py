# ruff: noqa: E501 (scripts for the browser read best on one line)
"""The explore page in a real browser, opened from file://: with its scripts, without them, and
without the bundle."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from atlas.urls import VEGA
from atlas.vendor import bundle
from tests.browser import conftest
from tests.browser.conftest import SITE, Browser, axe_source

pytestmark = pytest.mark.browser

PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.glob("en/models/*/explore.html"))
PAGE = PAGES[0] if PAGES else ""
BARS = ".drawing .mark-rect.role-mark path"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the model's pages and of the assets, with the bundle."""
    if not PAGE:
        pytest.skip("site/ has no explore page; a routing corpus in src/data un-skips this")
    script = bundle()
    if script is None:
        pytest.skip("vl-convert-python of requirements/site.txt un-skips this")
    copy = tmp_path_factory.mktemp("explore") / "site"
    for lang in ("en", "zh"):
        folder = Path(PAGE.replace("en/", f"{lang}/", 1)).parent
        shutil.copytree(SITE / folder, copy / folder)
    shutil.copytree(SITE / "assets", copy / "assets", ignore=shutil.ignore_patterns("vendor"))
    (copy / VEGA).parent.mkdir()
    (copy / VEGA).write_bytes(script)
    return copy


@pytest.fixture
def page(browser: Browser, site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.setattr(conftest, "SITE", site)
    browser.open(PAGE)
    browser.requests(), browser.complaints()
    yield Page(browser)
    assert browser.complaints() == []
    urls = [u for u in browser.requests() if not u.startswith("data:")]
    assert [u for u in urls if not u.startswith(site.as_uri() + "/")] == []


class Page:
    """The explore page in a window."""

    def __init__(self, browser: Browser) -> None:
        self.browser, self.driver, self.run = browser, browser.driver, browser.run

    def open(self, fragment: str = "", lang: str = "en", **options: Any) -> None:
        self.driver.get("about:blank")
        self.browser.open(PAGE.replace("en/", f"{lang}/", 1), **options)
        if fragment:
            self.run("location.hash = arguments[0]", fragment)

    def shows(self, *wanted: str) -> list[str]:
        """Layer, domain, weighting and order as drawn, once they hold what is wanted."""
        for _ in range(100):
            shown: str = self.run("return document.getElementById('live').dataset.shown || ''")
            if shown and set(wanted) <= set(shown.split()):
                return shown.split()
            time.sleep(0.05)
        raise AssertionError(f"expected {wanted}, found {shown!r}")

    def keys(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def neighbour(self, layer: str) -> tuple[str, str]:
        """Another layer beside `layer`, and which of the two ways leads there."""
        layers: list[str] = self.run(
            "return [...document.querySelectorAll('#layer-pick option')].map(e => e.value)"
        )
        place = layers.index(layer)
        return (layers[place - 1], "before") if place else (layers[1], "after")

    def axis(self) -> list[str]:
        """Labels under the chart, from left to right."""
        labels: list[str] = self.run(
            "return [...document.querySelectorAll('.drawing .role-axis-label text')].filter(e => e.textContent.includes('·') && getComputedStyle(e).opacity !== '0').map(e => [e.getBoundingClientRect().left, e.textContent]).sort((a, b) => a[0] - b[0]).map(x => x[1])"
        )
        return labels

    def tip(self) -> list[str]:
        """Lines of the tooltip, none where it is hidden."""
        text: str = self.run(
            "const t = document.getElementById('tip'); return t.hidden ? '' : t.innerText"
        )
        return text.split("\n") if text else []

    def row(self, name: str) -> list[str]:
        """Share, interval and multiple of an expert in the static table, prompt-balanced."""
        cells: list[str] = self.run(
            "const r = [...document.querySelectorAll('table.values tbody tr')].find(r => r.cells[0].textContent === arguments[0]); return [1, 2, 3].map(i => r.cells[i].textContent.replace(/ [▲▽]$/, ''))",
            name,
        )
        return cells


def test_vega_draws_the_static_chart_again_in_its_place(page: Page) -> None:
    layer, _, weighting, order = page.shows()
    assert (weighting, order) == ("prompt_balanced", "share")
    visible = "return [...document.querySelectorAll('.plot, .drawing svg')].filter(e => e.checkVisibility()).length"
    assert page.run(visible) == 1
    first = page.run("return document.querySelector('.plot.o-share .hits title').textContent")
    assert page.axis()[0] == first.split()[0]
    assert page.axis()[0].startswith(f"L{layer}·E")
    experts = page.run("return document.querySelectorAll('table.values tbody tr').length")
    bars = page.run("return document.querySelectorAll('.drawing .mark-rect.role-mark path').length")
    # a bar and a whisker each
    assert bars == 2 * experts


@pytest.mark.parametrize("width", [390, 1440])
def test_the_right_axis_counts_multiples_of_the_uniform_share(page: Page, width: int) -> None:
    layer = page.shows()[0]
    middle = "const r = e.getBoundingClientRect(); return [e.textContent, (r.top + r.bottom) / 2]"
    for wanted in (layer, page.neighbour(layer)[0]):
        page.open(f"layer-{wanted}", width=width)
        page.shows(wanted)
        ticks: list[tuple[str, float]] = page.run(
            f"return [...document.querySelectorAll('.drawing .role-axis-label text')].filter(e => e.textContent.startsWith('×')).map(e => {{ {middle} }})"
        )
        rule: float = page.run(
            f"return [...document.querySelectorAll('.drawing .mark-rule.role-mark line')].map(e => {{ {middle} }})[0][1]"
        )
        numbers = [int(text.removeprefix("×")) for text, _ in ticks]
        assert 2 <= len(numbers) <= 7
        assert numbers == list(range(1, numbers[-1] + 1, numbers[1] - 1))
        # the first stands beside the line of the uniform share, the others in even steps above
        assert ticks[0][1] == pytest.approx(rule, abs=1.5)
        steps = [a - b for (_, a), (_, b) in pairwise(ticks)]
        assert min(steps) > 0
        assert max(steps) - min(steps) <= 1


def test_a_pointer_on_a_bar_shows_the_figures_of_the_table(page: Page) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    page.shows()
    assert page.tip() == []
    bar = page.driver.find_elements("css selector", BARS)[0]
    ActionChains(page.driver).move_to_element(bar).perform()
    expert, share, interval, multiple = (line.split(" ")[-1] for line in page.tip()[:4])
    name = page.tip()[0].removeprefix("Expert ")
    assert expert == name
    row = page.row(name)
    assert share == row[0]
    assert page.tip()[2].endswith(row[1]) and interval == row[1].split(" ")[-1]
    assert multiple == row[2]
    ActionChains(page.driver).move_to_element(page.driver.find_element("tag name", "h1")).perform()
    assert page.tip() == []


def test_choices_by_mouse_draw_another_layer_domain_weighting_and_order(page: Page) -> None:
    layer, domain, _, _ = page.shows()
    others: list[str] = page.run(
        "return [...document.querySelectorAll('input[name=domain]')].map(e => e.value)"
    )
    other = next(d for d in others if d != domain)
    page.click(f"input[name=domain][value='{other}']")
    assert page.shows(other)[0] == layer
    page.click("#w-token_weighted")
    page.shows("token_weighted")
    page.click("#o-id")
    page.shows("id")
    assert page.axis()[0] == f"L{layer}·E0"
    before, way = page.neighbour(layer)
    page.click(f"#layer-{way}")
    assert page.shows(before) == [before, other, "token_weighted", "id"]
    assert {label.split("·")[0] for label in page.axis()} == {f"L{before}"}
    title = page.run("return document.querySelector('#chart h2').textContent")
    assert f"layer {before}" in title
    link = page.run("return document.getElementById('page').getAttribute('href')")
    assert link == f"load/{other}/layer-{int(before):02d}.html"
    # the table and the files of the static chart are of another layer now
    assert not page.run("return document.querySelector('.take').checkVisibility()")


def test_no_label_is_cut_off_whatever_is_chosen(page: Page) -> None:
    outside = "const box = document.querySelector('.drawing svg').getBoundingClientRect(); return [...document.querySelectorAll('.drawing svg text')].filter(e => getComputedStyle(e).opacity !== '0').map(e => e.getBoundingClientRect()).filter(r => r.left < box.left - .5 || r.right > box.right + .5).length"
    page.shows()
    assert page.run(outside) == 0
    for radio in page.driver.find_elements("css selector", "input[name=domain]"):
        radio.click()
        page.shows(radio.get_attribute("value"))
        assert page.run(outside) == 0


def test_back_at_the_first_choice_table_and_files_are_there_again(page: Page) -> None:
    layer, *_ = page.shows()
    other, way = page.neighbour(layer)
    page.click(f"#layer-{way}")
    page.shows(other)
    page.click(f"#layer-{'after' if way == 'before' else 'before'}")
    page.shows(layer)
    assert page.run("return document.querySelector('.take').checkVisibility()")


def test_everything_works_by_keyboard_alone(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    layer, domain, _, _ = page.shows()

    def focus(wanted: str) -> None:
        for _ in range(60):
            page.keys(Keys.TAB)
            if page.run("return document.activeElement.matches(arguments[0])", wanted):
                assert (
                    page.run("return getComputedStyle(document.activeElement).outlineStyle")
                    != "none"
                )
                return
        raise AssertionError(f"{wanted} cannot be reached with Tab")

    focus("#layer-pick")
    before, way = page.neighbour(layer)
    page.keys(Keys.ARROW_UP if way == "before" else Keys.ARROW_DOWN)
    page.shows(before)
    focus("input[name=domain]")
    page.keys(Keys.ARROW_LEFT)
    assert page.shows(before)[1] != domain
    focus("#w-prompt_balanced")
    page.keys(Keys.ARROW_DOWN)
    page.shows("token_weighted")
    focus("#o-share")
    page.keys(Keys.ARROW_DOWN)
    page.shows("id")
    focus("#drawing")
    page.keys(Keys.ARROW_RIGHT)
    assert page.tip()[0] == f"Expert L{before}·E0"
    page.keys(Keys.ARROW_RIGHT)
    assert page.tip()[0] == f"Expert L{before}·E1"
    spoken = page.run("return document.getElementById('spoken').textContent")
    assert spoken.startswith(f"Expert L{before}·E1, Share ")
    page.keys(Keys.END)
    experts = page.run("return document.querySelectorAll('table.values tbody tr').length")
    assert page.tip()[0] == f"Expert L{before}·E{experts - 1}"
    page.keys(Keys.ESCAPE)
    assert page.tip() == []


def test_a_link_from_a_layer_page_opens_its_layer(page: Page) -> None:
    page.open("layer-2")
    page.shows("2")
    assert page.run("return document.getElementById('layer-pick').value") == "2"


def test_one_layer_is_in_the_drawing_at_any_time(page: Page) -> None:
    page.shows()
    for number in ("1", "2", "3"):
        page.run(
            "const s = document.getElementById('layer-pick'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))",
            number,
        )
    page.shows("3")
    assert {label.split("·")[0] for label in page.axis()} == {"L3"}
    assert page.run("return document.querySelectorAll('.drawing svg').length") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_drawing_fits_its_page_in_both_schemes(
    page: Page, lang: str, width: int, scheme: str
) -> None:
    page.open(lang=lang, width=width, scheme=scheme)
    page.shows()
    assert page.run("return document.documentElement.scrollWidth") <= width
    right = "return document.querySelector('.drawing svg').getBoundingClientRect().right"
    assert page.run(right) <= width
    sizes = "return [...document.querySelectorAll('.drawing svg text')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    assert min(page.run(sizes)) >= 11
    bar = "return [getComputedStyle(document.querySelector('.drawing .mark-rect.role-mark path')).fill, getComputedStyle(document.querySelector('.swatch .above')).fill]"
    drawn, wanted = page.run(bar)
    assert drawn == wanted


def test_a_change_of_scheme_changes_the_drawing(page: Page) -> None:
    page.shows()
    fill = (
        "return getComputedStyle(document.querySelector('.drawing .mark-rect.role-mark path')).fill"
    )
    light = page.run(fill)
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for _ in range(100):
        if page.driver.find_elements("css selector", BARS) and page.run(fill) != light:
            return
        time.sleep(0.05)
    raise AssertionError("expected other colours, found the same")


def test_with_scripts_off_the_static_chart_is_there_and_its_toggles_work(
    browser: Browser, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "SITE", site)
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(PAGE)
        browser.driver.find_element("id", "o-id").click()
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    require_static(browser)


def test_without_the_bundle_the_static_chart_is_there_and_its_toggles_work(
    browser: Browser, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "SITE", site)
    (site / VEGA).rename(site / "vega.js")
    try:
        browser.open(PAGE)
        browser.driver.find_element("id", "o-id").click()
        require_static(browser)
        # the missing file is the one complaint
        assert {VEGA in message for message in browser.complaints()} == {True}
    finally:
        (site / "vega.js").rename(site / VEGA)


def test_without_the_file_of_a_layer_the_static_chart_comes_back(
    browser: Browser, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "SITE", site)
    folder = (site / PAGE).parent / "explore"
    folder.rename(folder.with_name("gone"))
    try:
        browser.open(PAGE)
        time.sleep(0.3)
        browser.driver.find_element("id", "o-id").click()
        require_static(browser)
    finally:
        folder.with_name("gone").rename(folder)
        browser.complaints()


def require_static(browser: Browser) -> None:
    """The drawing by expert id, with links to layers and nothing that needs the script."""
    seen = "return [...document.querySelectorAll('.plot, #still, #picks, #live')].filter(e => e.checkVisibility()).map(e => e.id || e.className)"
    assert browser.run(seen) == ["still", "plot v-prompt_balanced o-id"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_in_the_drawing(page: Page, scheme: str) -> None:
    source = axe_source()
    page.open(scheme=scheme)
    page.shows()
    page.run(source)
    result: dict[str, Any] = page.driver.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done)"
    )
    # axe itself tries to fetch the stylesheet, which the policy refuses
    page.browser.complaints()
    assert [(v["id"], v["nodes"][0]["html"][:160]) for v in result["violations"]] == []
