"""The site's build: how it grows, and MkDocs Material on the same notes.

    python benchmarks/build.py            # writes benchmarks/results/build.{json,md}
    python benchmarks/build.py --quick    # small sizes, for CI; prints, writes nothing

Growth: a made-up corpus of 160 experts and 8 domains with 3, 9 and 27 MoE layers is built whole,
guard and writing to disk included, sizes taking turns. A build that is linear in its pages takes
the same time per page at every size.

MkDocs: the committed notes, zh and en, and then many copies of them. Each build is a process of
its own, from its start to the last file, the two builders taking turns; medians are shown. Ours
reads the datasets, resolves every bound number, draws the figures, turns formulas into MathML
and looks at every page with the guard. MkDocs gets the same text with the numbers filled in and
the figures left out, the theme's own settings with search, and no fonts from elsewhere. It stands
in an environment of its own (`make bench` installs it); without one this half is left out, which
the output says. Two more processes show what ours cannot do without: one only turns the notes
into HTML with Python-Markdown, which MkDocs uses too, the other only reads the datasets.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from gzip import compress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from host import host, load_average, load_text  # noqa: E402

from atlas import guard  # noqa: E402
from atlas.canonical import canonical_json, write_atomically  # noqa: E402
from atlas.effects import MARKER, Disk  # noqa: E402
from atlas.pages.frame import Writer  # noqa: E402
from atlas.pages.notes import note_pages  # noqa: E402
from atlas.references import MARK  # noqa: E402
from atlas.render import environment, render  # noqa: E402
from atlas.site import Options, build, read_notes, read_shelf  # noqa: E402
from atlas.strings import LANGS, parse_strings  # noqa: E402

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DATA, NOTES, TEMPLATES = ROOT / "src/data", ROOT / "research", ROOT / "templates"
EXPERTS, DOMAINS, TOP_K, PROMPTS = 160, tuple(f"domain-{i}" for i in range(8)), 6, 3
MKDOCS = Path(os.environ.get("ATLAS_MKDOCS", ROOT / ".venv-mkdocs/bin/mkdocs"))
CONFIGURATION = """\
site_name: notes
theme:
  name: material
  font: false
use_directory_urls: false
validation:
  links:
    anchors: ignore
    unrecognized_links: ignore
markdown_extensions:
  - tables
  - footnotes
  - toc
  - pymdownx.superfences
  - pymdownx.highlight:
      use_pygments: false
  - pymdownx.arithmatex:
      generic: true
"""

MARKDOWN_ALONE = """
import sys
from pathlib import Path
import markdown
converter = markdown.Markdown(
    extensions=["tables", "footnotes", "toc", "pymdownx.superfences", "pymdownx.highlight",
                "pymdownx.arithmatex"],
    extension_configs={"pymdownx.highlight": {"use_pygments": False},
                       "pymdownx.arithmatex": {"generic": True}},
)
output = Path(sys.argv[2])
output.mkdir(parents=True)
for number, path in enumerate(sorted(Path(sys.argv[1]).glob("*/*.md"))):
    converter.reset()
    html = converter.convert(path.read_text("utf-8"))
    (output / f"{number}.html").write_text(html, "utf-8")
"""
"""Nothing but Python-Markdown: no template, no number, no link is looked at."""
DATA_ALONE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from atlas.shelf import shelve
shelve({path.name: path.read_bytes() for path in sorted(Path(sys.argv[2]).glob("*.json"))})
"""
"""Nothing but the datasets that the notes are bound to, read and checked."""

# how the build grows


def made_corpus(layers: int, folder: Path) -> None:
    """A data folder with one corpus of so many MoE layers."""
    # here, so that builds of notes alone do not wait for it
    from tests.atlas.site import samples

    numbers = tuple(range(1, layers + 1))
    counts = samples.random_counts(numbers, DOMAINS, EXPERTS, TOP_K, prompts=PROMPTS)
    folder.mkdir(parents=True)
    corpus = samples.canonical_json(samples.corpus(counts, TOP_K))
    (folder / "made-up-routing-corpus.json").write_bytes(corpus)


def grow(sizes: Sequence[int], rounds: int, work: Path) -> list[dict[str, Any]]:
    """A row per number of layers: pages, median seconds, the largest page."""
    taken: dict[int, list[float]] = {layers: [] for layers in sizes}
    rows = {}
    for layers in sizes:
        made_corpus(layers, work / f"data-{layers}")
    for _ in range(rounds):
        for layers in sizes:
            output = work / f"site-{layers}"
            options = Options(work / f"data-{layers}", TEMPLATES, output)
            start = time.perf_counter()
            files = build(options, Disk())
            taken[layers].append(time.perf_counter() - start)
            pages = {n: b for n, b in files.items() if n.endswith(".html")}
            largest = max(pages, key=lambda n: len(pages[n]))
            rows[layers] = {
                "layers": layers,
                "files": len(files),
                "pages": len(pages),
                "largest_page_gzipped_bytes": len(compress(pages[largest], mtime=0)),
            }
            shutil.rmtree(output)
    for layers, row in rows.items():
        row["seconds"] = round(statistics.median(taken[layers]), 2)
        row["milliseconds_per_page"] = round(1e3 * row["seconds"] / row["pages"], 1)
    return list(rows.values())


# ours and MkDocs on the same notes


def build_notes(notes: Path, output: Path) -> None:
    """Our pages of the notes in a folder, and nothing else, written to `output`."""
    effects = Disk()
    shelf = read_shelf(DATA, effects)
    names = effects.names(TEMPLATES)
    templates = {n: effects.read(TEMPLATES, n) for n in names}
    strings = parse_strings(templates["strings.toml"])
    sources = {n: b.decode("utf-8") for n, b in templates.items() if n.endswith(".j2")}
    texts = read_notes(notes, effects)
    files = {"assets/style.css": templates["style.css"], MARKER: b"{}"}
    for lang in LANGS:
        env = environment(sources, lang, strings)
        for page in note_pages(Writer(lang, strings, shelf, True), texts[lang]):
            files[page.path] = render(env, page.template, page.context)
    guard.require_clean(files)
    effects.replace(output, files)


def copied_notes(copies: int, folder: Path) -> int:
    """The committed notes and so many copies of each. Returns the number of notes."""
    count = 0
    for path in sorted(NOTES.glob("*/*.md")):
        lang = folder / path.parent.name
        lang.mkdir(parents=True, exist_ok=True)
        for copy in range(copies):
            name = path.stem if copy == 0 else f"{path.stem}-{copy}"
            shutil.copyfile(path, lang / f"{name}.md")
            count += 1
    return count


def for_mkdocs(notes: Path, folder: Path) -> None:
    """The same notes in the Markdown that MkDocs knows: numbers filled in, our lines and links
    to our pages out."""
    numbers = iter(range(10**9))
    for path in sorted(notes.glob("*/*.md")):
        text = MARK.sub(lambda _: f"{next(numbers) % 997 / 10:.1f}", path.read_text("utf-8"))
        text = re.sub(r"^::.*$", "", text, flags=re.M)
        text = re.sub(r"\[([^\]]*)\]\(page:[^)]*\)", r"\1", text)
        target = folder / "docs" / path.relative_to(notes)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    (folder / "docs/index.md").write_text("# Notes\n", encoding="utf-8")
    (folder / "mkdocs.yml").write_text(CONFIGURATION, encoding="utf-8")


def seconds(command: list[str], pages: Path, expected: int) -> float:
    """Wall seconds of a process that has to leave that many pages, at least."""
    shutil.rmtree(pages, ignore_errors=True)
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - start
    made = len(list(pages.rglob("*.html")))
    if done.returncode or made < expected:
        sys.exit(f"{command[0]}: expected {expected} pages, found {made}\n{done.stderr[-2000:]}")
    return taken


def against_mkdocs(copies: Sequence[int], rounds: int, work: Path) -> list[dict[str, Any]]:
    """A row per number of copies: medians of both, taking turns."""
    rows = []
    for copy in copies:
        here = work / f"notes-{copy}"
        count = copied_notes(copy, here / "research")
        for_mkdocs(here / "research", here / "mkdocs")
        ours = [sys.executable, __file__, "--notes", str(here / "research"), str(here / "ours")]
        theirs = [str(MKDOCS), "build", "--quiet", "--config-file", str(here / "mkdocs/mkdocs.yml")]
        docs, alone, nothing = here / "mkdocs/docs", here / "alone", here / "nothing"
        markdown_alone = [sys.executable, "-c", MARKDOWN_ALONE, str(docs), str(alone)]
        data_alone = [sys.executable, "-c", DATA_ALONE, str(ROOT / "src"), str(DATA)]
        ways = {
            "atlas": (ours, here / "ours", count),
            "mkdocs": (theirs, here / "mkdocs/site", count),
            "markdown_alone": (markdown_alone, alone, count),
            "data_alone": (data_alone, nothing, 0),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name, (command, pages, expected) in ways.items():
                value = seconds(command, pages, expected)
                # the first turn fills caches of bytecode and files
                if turn:
                    taken[name].append(value)
        medians = {name: statistics.median(times) for name, times in taken.items()}
        rows.append(
            {
                "notes": count,
                "rounds": rounds,
                "seconds": {name: round(value, 3) for name, value in medians.items()},
                "atlas_over_mkdocs": round(medians["atlas"] / medians["mkdocs"], 3),
            }
        )
    return rows


# the report


def mkdocs_versions() -> dict[str, str]:
    """Versions of MkDocs and its theme, as their environment has them."""
    program = (
        "from importlib.metadata import version as v; "
        "print(v('mkdocs'), v('mkdocs-material'), v('markdown'))"
    )
    done = subprocess.run(
        [str(MKDOCS.parent / "python"), "-c", program], capture_output=True, text=True, check=True
    )
    return dict(zip(("mkdocs", "mkdocs-material", "markdown"), done.stdout.split(), strict=True))


def markdown(report: dict[str, Any]) -> str:
    machine, mkdocs = report["machine"], report["mkdocs"]
    lines = [
        "# Build of the site",
        "",
        f"Made by `python benchmarks/build.py`. {machine['cores']} cores ({machine['cpu']}), "
        f"Python {machine['python']}. {load_text(**report['load_average'])}",
        "",
        f"Growth: {EXPERTS} experts, {len(DOMAINS)} domains, whole build with guard and writing.",
        "",
        "| MoE layers | pages | files | s | ms per page | largest page, gzipped, KB |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for row in report["growth"]:
        lines.append(
            f"| {row['layers']} | {row['pages']:,} | {row['files']:,} | {row['seconds']:.2f} "
            f"| {row['milliseconds_per_page']:.1f} "
            f"| {row['largest_page_gzipped_bytes'] / 1e3:.1f} |"
        )
    lines.append("")
    if mkdocs is None:
        lines.append("MkDocs is not at hand (`make bench` installs it): comparison left out.")
        return "\n".join(lines) + "\n"
    versions = ", ".join(f"{name} {version}" for name, version in mkdocs["versions"].items())
    lines += [
        f"The same notes by MkDocs Material ({versions}), a process per build, taking turns,",
        "medians. Ours has the bound numbers, figures and the guard to do; MkDocs has not.",
        "The last two columns are processes that only turn the notes into HTML with the same",
        "Python-Markdown, and only read the datasets that the notes are bound to.",
        "",
        "| notes | rounds | ours, s | MkDocs Material, s | ours / MkDocs "
        "| Python-Markdown alone, s | datasets alone, s |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in mkdocs["rows"]:
        taken = row["seconds"]
        lines.append(
            f"| {row['notes']} | {row['rounds']} | {taken['atlas']:.2f} | {taken['mkdocs']:.2f} "
            f"| {row['atlas_over_mkdocs']:.2f} | {taken['markdown_alone']:.2f} "
            f"| {taken['data_alone']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="build of the site, and MkDocs Material")
    parser.add_argument("--quick", action="store_true", help="small sizes; prints, writes nothing")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument(
        "--notes", type=Path, nargs=2, metavar=("NOTES", "DIR"), help="only build our note pages"
    )
    options = parser.parse_args(arguments)
    if options.notes:
        build_notes(*options.notes)
        return 0
    before = load_average()
    sizes, copies, rounds = ((1, 2), (1,), 1) if options.quick else ((3, 9, 27), (1, 10), 7)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        there = MKDOCS.is_file()
        rows = against_mkdocs(copies, rounds, work) if there else []
        growth = grow(sizes, 1 if options.quick else 3, work)
    report = {
        "machine": host(),
        "growth": growth,
        "mkdocs": {"versions": mkdocs_versions(), "rows": rows} if there else None,
        "load_average": {"before": before, "after": load_average()},
    }
    text = markdown(report)
    print(text, end="")
    if not options.quick:
        if not there:
            print("nothing written: a half report would replace a whole one", file=sys.stderr)
            return 0
        options.output.mkdir(parents=True, exist_ok=True)
        write_atomically(options.output / "build.json", canonical_json(report))
        write_atomically(options.output / "build.md", text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
