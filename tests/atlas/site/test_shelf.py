from __future__ import annotations

import json

import pytest

from atlas.contract import ContractError
from atlas.errors import SiteError
from atlas.shelf import shelve
from tests.atlas.site import samples


def test_real_evidence_stands_before_the_demo_and_every_dataset_at_its_model() -> None:
    real, demo = shelve(samples.folder()).models
    assert (real.slug, real.evidence, demo.slug) == ("sample-model", "imported", "sample-demo")
    assert real.corpus is not None
    assert real.routes is not None
    assert real.trace is None
    assert demo.trace is not None
    assert demo.comparison is not None


def test_equal_bytes_under_two_names_are_a_rerun() -> None:
    files = samples.folder()
    files["sample-corpus-repro.json"] = files["sample-corpus.json"]
    shelf = shelve(files)
    reruns = {f.name: f.rerun_of for f in shelf.files if f.rerun_of}
    assert reruns == {"sample-corpus-repro.json": "sample-corpus.json"}


def test_two_different_corpora_of_one_model_are_refused() -> None:
    files = samples.folder()
    raw = json.loads(files["sample-corpus.json"])
    raw["statistics"]["seed"] = 1
    files["sample-other.json"] = json.dumps(raw).encode()
    with pytest.raises(SiteError, match=r"expected one corpus per model, found another in sample-"):
        shelve(files)


def test_a_comparison_of_a_trace_that_is_not_here_is_refused() -> None:
    files = samples.folder()
    del files["demo-trace.json"]
    with pytest.raises(SiteError, match=r"first.sha256: expected the SHA-256 of a trace"):
        shelve(files)


def test_one_slug_with_two_identities_is_refused() -> None:
    files = samples.folder()
    raw = json.loads(files["sample-routes.json"])
    raw["model"]["title"] = "Another"
    files["sample-routes.json"] = json.dumps(raw).encode()
    with pytest.raises(SiteError, match="expected the identity of the other files"):
        shelve(files)


def test_a_file_that_breaks_the_contract_is_named() -> None:
    with pytest.raises(ContractError, match=r"bad.json: schema: expected one of"):
        shelve({"bad.json": b"{}"})
