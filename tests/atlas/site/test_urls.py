from __future__ import annotations

import posixpath
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.effects import checked_name
from atlas.errors import SiteError
from atlas.urls import URLS

NAMES = st.lists(
    st.text("abcdefgh-_0123456789层 é", min_size=1, max_size=8), min_size=1, max_size=5
).map("/".join)


@given(NAMES, NAMES)
def test_a_link_leads_from_its_page_to_its_target(source: str, target: str) -> None:
    link = URLS.link(source, target)
    assert "://" not in link
    assert not link.startswith("/")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(source), unquote(link)))
    assert found == posixpath.normpath(target)


def test_a_page_and_its_twin_link_to_each_other() -> None:
    path = URLS.layer("en", "m", "law", 4)
    assert path == "en/models/m/load/law/layer-04.html"
    assert URLS.other_language(path) == URLS.layer("zh", "m", "law", 4)
    assert URLS.link(path, URLS.other_language(path)) == (
        "../../../../../zh/models/m/load/law/layer-04.html"
    )


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a//b", "a/../b", "a/./b", "", "a\\b", "c:x", "a\nb"]
)
def test_a_path_that_leaves_the_output_folder_is_refused(name: str) -> None:
    with pytest.raises(SiteError, match="inside the output folder"):
        checked_name(name)


def test_a_root_page_has_no_other_language() -> None:
    with pytest.raises(ValueError, match="expected a path under"):
        URLS.other_language("index.html")
