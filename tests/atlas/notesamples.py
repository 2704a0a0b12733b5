"""A resolver over small datasets for tests of notes: made here, measured by nobody.

Four experts, two of them per token. In layer 1 the domain `law` has counts 4, 2, 1, 1 from
one prompt and again from a second, so its shares are 1/2, 1/4, 1/8, 1/8 under both
weightings: CV 0.6124, Gini 0.3125, exp(entropy) 3.3636, top share 50 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atlas.bindings import Resolver
from atlas.bindings import Source as Source
from atlas.canonical import canonical_json as canonical_json
from atlas.contract import Evidence, Published, RoutingCorpus
from tests.atlas.site import samples

LABELS: dict[Evidence, str] = {
    "captured": "CAPTURED",
    "imported": "IMPORTED",
    "official": "OFFICIAL",
    "published": "PUBLISHED",
    "demo": "DEMO",
}
COUNTS = {
    1: {"law": [[4, 2, 1, 1], [4, 2, 1, 1]], "zh_news": [[2, 2, 2, 2], [2, 2, 2, 2]]},
    4: {"law": [[2, 2, 2, 2], [2, 2, 2, 2]], "zh_news": [[1, 4, 2, 1], [1, 4, 2, 1]]},
}


@dataclass(frozen=True)
class Places:
    """Links that show what they were asked for."""

    def source(self, file: str, key: str) -> str:
        return f"data.html#{file}:{key}"

    def note(self, name: str, anchor: str) -> str:
        return f"{name}.html" + (f"#{anchor}" if anchor else "")

    def page(self, name: str) -> str | None:
        return f"../{name}.html" if name in ("data", "limits") else None


def corpus(evidence: str = "imported", slug: str = "esft-vanilla-lite") -> RoutingCorpus:
    return samples.corpus(COUNTS, 2, evidence=evidence, model=samples.MODEL | {"slug": slug})


def _figure(identity: str, value: Any, printed: str, /, **more: Any) -> dict[str, Any]:
    kind = {int: "integer", float: "number", str: "text"}[type(value)]
    digits = printed.partition(".")[2].rstrip("%×B")
    return {
        "id": identity,
        "quantity": "sample",
        "kind": kind,
        "value": value,
        "printed": printed,
        "decimals": len(digits) if kind == "number" else None,
        "unit": None,
        "interval": None,
        "layer": None,
        "domain": None,
        "prompt": None,
        "pair": None,
        "expert": None,
        "weighting": None,
        "document": identity.partition(".")[0],
        "section": "1",
        "also_in": [],
        "depends_on": ["weights"],
        "note": None,
    } | more


def figures() -> list[dict[str, Any]]:
    """The entries of the sample document."""
    interval = {"low": 0.857, "high": 0.993, "printed_low": "0.857", "printed_high": "0.993"}
    front = "corpus.layer-4.zh_news.prompt_balanced"
    return [
        _figure("trace.tokens", 90, "90"),
        _figure("trace.selections", 3240, "3,240"),
        _figure("trace.layer-4.zh_news.cv", 1.1, "1.100"),
        _figure("trace.mla.ratio", 8.8889, "8.8889×", unit="times"),
        _figure("trace.model", "Sample <b>", "Sample <b>"),
        _figure("trace.shape", "", "[4, 27, 576]", kind="integers", value=[4, 27, 576]),
        _figure(f"{front}.cv", 0.91, "0.910", interval=interval),
        _figure(f"{front}.top_share", 9.06, "9.06%", unit="percent"),
        _figure(f"{front}.top_expert", 29, "E29", kind="expert", layer=4),
        _figure("corpus.layer-4.law.prompt_balanced.gini", 0.42, "0.420"),
    ]


def published(entries: list[dict[str, Any]] | None = None) -> Published:
    """The sample document, or one with other entries."""
    document = {
        "title": {"en": "Sample", "zh": "样例"},
        "date": "2026-07-29",
        "language": "zh",
        "sha256": samples.digest("sample"),
        "note": None,
    }
    content = {
        "schema": "llm-atlas/published@1",
        "contract": "1",
        "evidence": "published",
        "model": samples.MODEL | {"slug": "deepseek-v2-lite"},
        "documents": [
            document | {"document": "trace", "name": "TRACE.md"},
            document | {"document": "corpus", "name": "CORPUS.md"},
        ],
        "quantities": [{"quantity": "sample", "title": {"en": "Sample", "zh": "样例"}}],
        "figures": figures() if entries is None else entries,
    }
    return Published.model_validate_json(canonical_json(content))


def resolver(*, captured: bool = False, document: Published | None = None) -> Resolver:
    """The imported sample as `esft`, the document as `v2lite`, before it a captured corpus
    of the same model if asked for."""
    v2lite = [Source("published.json", "published", document or published())]
    if captured:
        capture = corpus("captured", "deepseek-v2-lite")
        v2lite.insert(0, Source("captured.json", "captured", capture))
    return Resolver(
        {"esft": (Source("esft.json", "imported", corpus()),), "v2lite": tuple(v2lite)},
        Places(),
        LABELS,
    )
