"""The one place that makes URLs.

A page or file has one path inside the site; a link is that path relative to the page that
holds it, so the site works under any path and from file://. Paths end in a file name, never
in a folder, for the same reason.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from atlas.effects import checked_name
from atlas.strings import LANGS, Lang

STYLE = "assets/style.css"
ICON = "assets/icon.svg"
EXPLORE = "assets/explore.js"
VEGA = "assets/vendor/vega.js"
ROOT = "index.html"


@dataclass(frozen=True)
class Urls:
    """Paths of every page and file of the site."""

    croissant = "data/croissant.json"
    schema_folder = "data/schema"

    def home(self, lang: Lang) -> str:
        return f"{lang}/index.html"

    def data(self, lang: Lang) -> str:
        return f"{lang}/data.html"

    def data_card(self, lang: Lang) -> str:
        return f"{lang}/data-card.html"

    def data_card_text(self, lang: Lang) -> str:
        """The data card in Markdown; README.md so that a code host shows it beside the data."""
        return f"data/README{'' if lang == 'en' else f'.{lang}'}.md"

    def limits(self, lang: Lang) -> str:
        return f"{lang}/limits.html"

    def model(self, lang: Lang, slug: str) -> str:
        return f"{lang}/models/{slug}/index.html"

    def compare(self, lang: Lang, slug: str) -> str:
        return f"{lang}/models/{slug}/compare.html"

    def explore(self, lang: Lang, slug: str) -> str:
        return f"{lang}/models/{slug}/explore.html"

    def explore_layer(self, lang: Lang, slug: str, layer: int) -> str:
        return f"{lang}/models/{slug}/explore/layer-{layer:02d}.vl.js"

    def domain(self, lang: Lang, slug: str, domain: str) -> str:
        return f"{lang}/models/{slug}/load/{domain}/index.html"

    def layer(self, lang: Lang, slug: str, domain: str, layer: int) -> str:
        return f"{lang}/models/{slug}/load/{domain}/layer-{layer:02d}.html"

    def layer_svg(self, lang: Lang, slug: str, domain: str, layer: int) -> str:
        return f"{lang}/models/{slug}/load/{domain}/layer-{layer:02d}.svg"

    def layer_csv(self, slug: str, domain: str, layer: int) -> str:
        return f"data/{slug}/load/{domain}/layer-{layer:02d}.csv"

    def layer_json(self, slug: str, domain: str, layer: int) -> str:
        return f"data/{slug}/load/{domain}/layer-{layer:02d}.json"

    def layer_vega(self, slug: str, domain: str, layer: int) -> str:
        return f"data/{slug}/load/{domain}/layer-{layer:02d}.vl.json"

    def metrics_csv(self, slug: str) -> str:
        return f"data/{slug}/metrics.csv"

    def divergences_csv(self, slug: str) -> str:
        return f"data/{slug}/divergences.csv"

    def trace(self, lang: Lang, slug: str) -> str:
        return f"{lang}/models/{slug}/trace/index.html"

    def trace_layer(self, lang: Lang, slug: str, layer: int) -> str:
        return f"{lang}/models/{slug}/trace/layer-{layer:02d}.html"

    def trace_csv(self, slug: str, layer: int) -> str:
        return f"data/{slug}/trace/layer-{layer:02d}-routes.csv"

    def mla(self, lang: Lang, slug: str) -> str:
        return f"{lang}/models/{slug}/trace/mla.html"

    def official(self, lang: Lang, slug: str) -> str:
        return f"{lang}/models/{slug}/official.html"

    def workstation(self, lang: Lang, slug: str) -> str:
        return f"{lang}/models/{slug}/workstation.html"

    def published(self, lang: Lang, slug: str) -> str:
        return f"{lang}/models/{slug}/published.html"

    def routes(self, lang: Lang, slug: str) -> str:
        return f"{lang}/models/{slug}/routes/index.html"

    def routes_of(self, lang: Lang, slug: str, layer: int, place: int) -> str:
        """Page of the layer at `place` of a routes file; the first is where links lead."""
        return self.routes(lang, slug) if place == 0 else self.routes_layer(lang, slug, layer)

    def notes(self, lang: Lang) -> str:
        return f"{lang}/notes/index.html"

    def note(self, lang: Lang, name: str) -> str:
        return f"{lang}/notes/{name}.html"

    def routes_layer(self, lang: Lang, slug: str, layer: int) -> str:
        return f"{lang}/models/{slug}/routes/layer-{layer:02d}.html"

    def dataset(self, name: str) -> str:
        return f"data/files/{name}"

    def schema(self, kind: str) -> str:
        return f"{self.schema_folder}/{kind}.schema.json"

    def other_language(self, path: str) -> str:
        """The same page in the other language. Raises ValueError for a page without one."""
        lang, _, rest = path.partition("/")
        if lang not in LANGS or not rest:
            raise ValueError(f"expected a path under one of {LANGS}, found {path!r}")
        other = next(x for x in LANGS if x != lang)
        return f"{other}/{rest}"

    def link(self, source: str, target: str, fragment: str = "") -> str:
        """Relative URL of `target` as written on the page `source`."""
        return _relative(source, target) + (f"#{quote(fragment)}" if fragment else "")


# a page asks for the same few targets again and again, a note once per bound number
@lru_cache(maxsize=65_536)
def _relative(source: str, target: str) -> str:
    checked_name(source)
    checked_name(target)
    return quote(posixpath.relpath(target, posixpath.dirname(source) or "."))


URLS = Urls()
