"""A real Chromium on the committed site, opened from file://, with every request recorded."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NODE_MODULES = Path(__file__).resolve().parent / "node_modules"
SITE = Path(os.environ.get("ATLAS_SITE", ROOT / "site")).resolve()
"""ATLAS_SITE names another built site to look at."""


def _needed(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not on the path; installing Debian's {name} un-skips this")
    return path


class Browser:
    """A window: opens pages of the site, sets its size and scheme, reads its logs."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, name: str, width: int = 1440, *, scheme: str = "light", media: str = "") -> None:
        cdp = self.driver.execute_cdp_cmd
        cdp("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": width < 600,
        })  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        cdp("Emulation.setEmulatedMedia", {"media": media, "features": features})
        self.driver.get((SITE / name).as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def requests(self) -> list[str]:
        """URLs requested since the last call."""
        urls = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls

    def complaints(self) -> list[str]:
        """Errors and policy violations on the console since the last call."""
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] != "INFO"]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One window for all tests."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium comes with the dev extra"
    )
    if not (SITE / "index.html").is_file():
        pytest.skip("site/ is not built; python build.py build un-skips this")
    options = webdriver.ChromeOptions()
    options.binary_location = _needed("chromium")
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-dev-shm-usage", "--lang=en", f"--user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    service = webdriver.ChromeService(executable_path=_needed("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()


def kinds() -> list[str]:
    """One page of each kind in English, the first of its kind in the committed site."""
    found: dict[str, str] = {}
    for path in sorted(SITE.rglob("*.html")):
        name = path.relative_to(SITE).as_posix()
        if name.startswith("en/") or name == "index.html":
            parts = name.split("/")
            kind = "/".join(
                "layer" if p.startswith("layer-") else "*" if i in (2, 4) else p
                for i, p in enumerate(parts)
            )
            found.setdefault(kind, name)
    return sorted(found.values())


def axe_source() -> str:
    """axe-core's script, if a copy is at hand."""
    places = [os.environ.get("ATLAS_AXE", ""), str(NODE_MODULES / "axe-core/axe.min.js")]
    for place in places:
        if place and Path(place).is_file():
            return Path(place).read_text(encoding="utf-8")
    pytest.skip(
        "axe-core is not at hand; npm ci in tests/browser, or ATLAS_AXE=axe.min.js, un-skips this"
    )
