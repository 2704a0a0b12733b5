"""The whole site: datasets to pages to files, and the check that the committed site is it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from atlas import guard
from atlas.canonical import canonical_json
from atlas.charts.card import layer_card
from atlas.contract import SCHEMAS, ContractError, json_schema
from atlas.croissant import croissant
from atlas.downloads import corpus_files, trace_files
from atlas.effects import MARKER, Effects, checked_name
from atlas.errors import SiteError
from atlas.pages.compare import compare_pages
from atlas.pages.data import data_page, schema_kind
from atlas.pages.datacard import data_card_page, data_card_text
from atlas.pages.drawing import drawing_page
from atlas.pages.explore import explore_files, explore_page
from atlas.pages.frame import Page, Writer
from atlas.pages.home import home_page, root_page
from atlas.pages.layer import layer_pages
from atlas.pages.limits import limits_page
from atlas.pages.model import model_pages
from atlas.pages.notes import note_pages, require_twins
from atlas.pages.official import official_pages
from atlas.pages.published import published_pages
from atlas.pages.routes import routes_pages
from atlas.pages.trace import trace_pages
from atlas.pages.workstation import workstation_pages
from atlas.render import environment, render
from atlas.shelf import Shelf, shelve
from atlas.strings import LANGS, Lang, Strings, parse_strings
from atlas.urls import EXPLORE, ICON, STYLE, URLS

STRINGS = "strings.toml"
ASSETS = {"style.css": STYLE, "icon.svg": ICON, "explore.js": EXPLORE}
"""Files of templates/ that are copied as they are."""

VENDOR = "assets/vendor/"
"""Third-party scripts that a build writes and git ignores: no part of the comparison."""

SITE_SCHEMA = "llm-atlas/site@1"


@dataclass(frozen=True)
class Options:
    """Where a build reads and writes; without `notes` the site has none. `vendor` holds
    third-party scripts, name to bytes, which are laid beside the site."""

    data: Path
    templates: Path
    output: Path
    notes: Path | None = None
    vendor: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """A file in which the committed site and a rebuild differ."""

    kind: str
    name: str


def build(options: Options, effects: Effects) -> dict[str, bytes]:
    """Build the site, check it and put it in place. Returns its files.

    Raises SiteError or ContractError; the output folder is then as it was.
    """
    files = rendered(options, effects)
    for name, data in options.vendor.items():
        if not name.startswith(VENDOR):
            raise SiteError(f"{name}: expected a third-party script under {VENDOR}")
        files[name] = data
    effects.replace(options.output, files)
    return files


def check(options: Options, effects: Effects) -> tuple[Difference, ...]:
    """Differences between the output folder and what a build gives now."""
    files = rendered(options, effects)
    there = {n for n in effects.names(options.output) if not n.startswith(VENDOR)}
    found = []
    for name in sorted(there | set(files)):
        if name not in there:
            found.append(Difference("missing", name))
        elif name not in files:
            found.append(Difference("unexpected", name))
        elif effects.read(options.output, name) != files[name]:
            found.append(Difference("differs", name))
    return tuple(found)


def rendered(options: Options, effects: Effects) -> dict[str, bytes]:
    """Every file of the site, name to bytes, guarded. Nothing is written."""
    shelf = read_shelf(options.data, effects)
    templates = {
        name: effects.read(options.templates, name) for name in effects.names(options.templates)
    }
    if STRINGS not in templates:
        raise SiteError(f"{options.templates.name}: expected {STRINGS}, found nothing")
    strings = parse_strings(templates[STRINGS])
    files = Files()
    for name, target in ASSETS.items():
        if name not in templates:
            raise SiteError(f"{options.templates.name}: expected {name}, found nothing")
        files.add(target, templates[name], f"templates/{name}")
    sources = {n: b.decode("utf-8") for n, b in templates.items() if n.endswith(".j2")}
    _add_pages(files, shelf, strings, sources, read_notes(options.notes, effects))
    _add_downloads(files, shelf)
    files.add(URLS.croissant, croissant(shelf, files.files), "croissant")
    files.add(MARKER, _manifest(files.files), "manifest")
    guard.require_clean(files.files)
    return files.files


def read_notes(folder: Path | None, effects: Effects) -> dict[Lang, dict[str, str]]:
    """Markdown of every note by language and name: LANG/NAME.md."""
    texts: dict[Lang, dict[str, str]] = {lang: {} for lang in LANGS}
    if folder is None:
        return texts
    for name in effects.names(folder):
        for lang in LANGS:
            if name.startswith(f"{lang}/") and name.endswith(".md") and name.count("/") == 1:
                note = name.removeprefix(f"{lang}/").removesuffix(".md")
                try:
                    texts[lang][note] = effects.read(folder, name).decode("utf-8")
                except UnicodeDecodeError as error:
                    raise SiteError(
                        f"{name}: expected UTF-8, found another byte at offset {error.start}"
                    ) from error
    require_twins(texts)
    return texts


def read_shelf(data: Path, effects: Effects) -> Shelf:
    """Shelf of the data folder: its .json files, none in folders below it."""
    names = [n for n in effects.names(data) if n.endswith(".json") and "/" not in n]
    if not names:
        raise SiteError(f"{data.name}: expected datasets (*.json), found none")
    try:
        return shelve({name: effects.read(data, name) for name in names})
    except ContractError as error:
        raise SiteError(str(error)) from error


class Files:
    """Files by name; a second source for a name, or a name outside the site, is an error."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._sources: dict[str, str] = {}

    def add(self, name: str, data: bytes, source: str) -> None:
        checked_name(name)
        # folded: some file systems would silently keep one of two names that differ by case
        key = name.casefold()
        if key in self._sources:
            raise SiteError(
                f"{name}: expected one source, found two: {self._sources[key]} and {source}"
            )
        self._sources[key] = source
        self.files[name] = data


def _add_pages(
    files: Files,
    shelf: Shelf,
    strings: Strings,
    sources: Mapping[str, str],
    texts: Mapping[Lang, Mapping[str, str]],
) -> None:
    writers = tuple(Writer(lang, strings, shelf, bool(texts[lang])) for lang in LANGS)
    environments = {lang: environment(sources, lang, strings) for lang in LANGS}
    pages: list[Page] = [root_page(writers)]
    for writer in writers:
        pages += site_pages(writer)
        pages += note_pages(writer, texts[writer.lang])
    for page in pages:
        data = render(environments[page.lang], page.template, page.context)
        files.add(page.path, data, f"{page.template} for {page.path}")
    for writer in writers:
        files.add(URLS.data_card_text(writer.lang), data_card_text(writer), "dataset card")
        for model in shelf.models:
            if model.corpus is not None:
                for name, data in explore_files(writer, model, model.corpus):
                    files.add(name, data, f"spec {name}")


def site_pages(writer: Writer) -> Iterator[Page]:
    """Every page and drawing of one language."""
    yield home_page(writer)
    yield data_page(writer)
    yield data_card_page(writer)
    yield limits_page(writer)
    for model in writer.shelf.models:
        yield from model_pages(writer, model)
        if model.corpus is not None:
            yield from layer_pages(writer, model, model.corpus)
            yield from compare_pages(writer, model, model.corpus)
            yield explore_page(writer, model, model.corpus)
            for domain in model.corpus.corpus.domains:
                for layer in model.corpus.corpus.layers:
                    made = layer_card(layer, domain.domain)
                    yield drawing_page(writer, model, model.corpus, domain, made)
        if model.routes is not None:
            yield from routes_pages(writer, model, model.routes)
        if model.trace is not None:
            yield from trace_pages(writer, model, model.trace)
        if model.official is not None:
            yield from official_pages(writer, model, model.official)
            yield from workstation_pages(writer, model, model.official)
        if model.published is not None:
            yield from published_pages(writer, model, model.published)


def _add_downloads(files: Files, shelf: Shelf) -> None:
    for file in shelf.files:
        files.add(URLS.dataset(file.name), shelf.contents[file.name], f"data file {file.name}")
    for schema, model in sorted(SCHEMAS.items()):
        name = URLS.schema(schema_kind(schema))
        files.add(name, canonical_json(json_schema(model)), f"schema {schema}")
    for held in shelf.models:
        made: list[Iterable[tuple[str, bytes]]] = []
        if held.corpus is not None:
            made.append(corpus_files(held, held.corpus))
        if held.trace is not None:
            made.append(trace_files(held, held.trace))
        for downloads in made:
            for name, data in downloads:
                files.add(name, data, f"download {name}")


def _manifest(files: Mapping[str, bytes]) -> bytes:
    """Every file with its SHA-256, so that a copy of the site can be checked; it also marks
    the folder as one that a build may replace."""
    hashes = {name: sha256(files[name]).hexdigest() for name in sorted(files)}
    return canonical_json({"schema": SITE_SCHEMA, "files": hashes})
