"""The datasets of src/data on a shelf, one place per model.

What pages there are follows from what stands here: a model may have a trace, a comparison
of that trace with a rerun, a corpus, and ordered routes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from atlas.contract import (
    Comparison,
    Dataset,
    Evidence,
    Official,
    Published,
    Routes,
    RoutingCorpus,
    Trace,
    Verification,
    parse,
)
from atlas.contract.identity import ModelIdentity
from atlas.errors import SiteError

EVIDENCE_ORDER: tuple[Evidence, ...] = ("captured", "imported", "official", "published", "demo")
"""Real evidence first; the embedded checkpoint last."""


@dataclass(frozen=True)
class SourceFile:
    """One committed dataset: name inside src/data, bytes, hash and content."""

    name: str
    bytes: int
    sha256: str
    dataset: Dataset
    rerun_of: str | None = None


@dataclass(frozen=True)
class Held:
    """A dataset of one kind with the file it came from."""

    file: SourceFile


@dataclass(frozen=True)
class HeldTrace(Held):
    trace: Trace


@dataclass(frozen=True)
class HeldCorpus(Held):
    corpus: RoutingCorpus


@dataclass(frozen=True)
class HeldRoutes(Held):
    routes: Routes


@dataclass(frozen=True)
class HeldOfficial(Held):
    official: Official


@dataclass(frozen=True)
class HeldPublished(Held):
    published: Published


@dataclass(frozen=True)
class HeldComparison(Held):
    comparison: Comparison


@dataclass(frozen=True)
class HeldVerification(Held):
    verification: Verification


@dataclass(frozen=True)
class Model:
    """Everything on the shelf about one model; `evidence` is the best class among its files."""

    identity: ModelIdentity
    evidence: Evidence
    trace: HeldTrace | None = None
    comparison: HeldComparison | None = None
    corpus: HeldCorpus | None = None
    routes: HeldRoutes | None = None
    official: HeldOfficial | None = None
    published: HeldPublished | None = None
    verifications: tuple[HeldVerification, ...] = ()

    @property
    def datasets(self) -> tuple[Held, ...]:
        """What is held, run here first."""
        every = (self.corpus, self.routes, self.trace, self.comparison)
        rest = (self.published, self.official)
        return tuple(held for held in (*every, *rest, *self.verifications) if held is not None)

    @property
    def kinds(self) -> tuple[Evidence, ...]:
        """Every class of evidence among its files, real evidence first."""
        found = {held.file.dataset.evidence for held in self.datasets}
        return tuple(evidence for evidence in EVIDENCE_ORDER if evidence in found)

    @property
    def slug(self) -> str:
        return self.identity.slug

    @property
    def is_demo(self) -> bool:
        return self.evidence == "demo"


@dataclass(frozen=True)
class Shelf:
    """Models in the order of the atlas, and every file by name."""

    models: tuple[Model, ...]
    files: tuple[SourceFile, ...]
    contents: Mapping[str, bytes] = field(repr=False)


def shelve(contents: Mapping[str, bytes]) -> Shelf:
    """Shelf of the files `{name: bytes}`. Raises ContractError and SiteError.

    Two files of one kind about one model are an error unless their bytes are equal: then the
    second, by name, is shown as an independent rerun of the first. A verification stands with a
    model whose published figures are there, and must be of the files that are. Kinds that have
    no page of their own stand on the data page.
    """
    by_hash: dict[str, str] = {}
    files = []
    for name in sorted(contents, key=lambda n: (len(n), n)):
        digest = sha256(contents[name]).hexdigest()
        dataset = parse(contents[name], name)
        files.append(
            SourceFile(name, len(contents[name]), digest, dataset, by_hash.setdefault(digest, name))
        )
    files = [replace(f, rerun_of=None if f.rerun_of == f.name else f.rerun_of) for f in files]
    firsts = [file for file in files if file.rerun_of is None]
    models: dict[str, Model] = {}
    for file in firsts:
        if isinstance(file.dataset, Trace | RoutingCorpus | Routes | Official | Published):
            identity = file.dataset.model
            models[identity.slug] = _placed(models.get(identity.slug), identity, file.dataset, file)
    for file in firsts:
        if isinstance(file.dataset, Comparison):
            model = _compared_model(models, file, file.dataset)
            models[model.slug] = model
    for file in firsts:
        if isinstance(file.dataset, Verification):
            slug = file.dataset.model.slug
            if slug in models and models[slug].published is not None:
                models[slug] = _verified(models[slug], file, file.dataset)
    ordered = sorted(models.values(), key=lambda m: (EVIDENCE_ORDER.index(m.evidence), m.slug))
    return Shelf(tuple(ordered), tuple(sorted(files, key=lambda f: f.name)), dict(contents))


def _placed(
    model: Model | None,
    identity: ModelIdentity,
    dataset: Trace | RoutingCorpus | Routes | Official | Published,
    file: SourceFile,
) -> Model:
    evidence: Evidence = dataset.evidence
    if model is None:
        model = Model(identity=identity, evidence=evidence)
    elif model.identity != identity or (model.evidence == "demo") != (evidence == "demo"):
        raise SiteError(
            f"{file.name}: model {identity.slug}: expected the identity of the other files about "
            "it, and demo evidence in all of them or in none; found others"
        )
    else:
        model = replace(model, evidence=min(model.evidence, evidence, key=EVIDENCE_ORDER.index))
    if isinstance(dataset, Trace):
        _one_only(model.trace, file, "trace")
        return replace(model, trace=HeldTrace(file, dataset))
    if isinstance(dataset, RoutingCorpus):
        _one_only(model.corpus, file, "corpus")
        return replace(model, corpus=HeldCorpus(file, dataset))
    if isinstance(dataset, Routes):
        _one_only(model.routes, file, "routes")
        return replace(model, routes=HeldRoutes(file, dataset))
    if isinstance(dataset, Official):
        _one_only(model.official, file, "official")
        return replace(model, official=HeldOfficial(file, dataset))
    _one_only(model.published, file, "published")
    return replace(model, published=HeldPublished(file, dataset))


def _one_only(held: Held | None, file: SourceFile, kind: str) -> None:
    if held is not None:
        raise SiteError(
            f"{file.name}: expected one {kind} per model, found another in {held.file.name}"
        )


def _compared_model(models: Mapping[str, Model], file: SourceFile, comparison: Comparison) -> Model:
    """The model whose trace the comparison names, with the comparison put in its place."""
    hashes = {comparison.first.sha256, comparison.second.sha256}
    for model in models.values():
        if model.trace is not None and model.trace.file.sha256 in hashes:
            _one_only(model.comparison, file, "comparison")
            return replace(model, comparison=HeldComparison(file, comparison))
    raise SiteError(
        f"{file.name}: first.sha256: expected the SHA-256 of a trace in the data folder, "
        f"found {comparison.first.sha256}"
    )


def _verified(model: Model, file: SourceFile, verification: Verification) -> Model:
    """The model with a verification of one of its files against its published figures."""
    own = {
        held.file.sha256 for held in (model.trace, model.corpus, model.official) if held is not None
    }
    published = model.published.file.sha256 if model.published is not None else ""
    for field_, found, expected in (
        ("data", verification.data.sha256, own),
        ("against", verification.against.sha256, {published}),
    ):
        if found not in expected:
            raise SiteError(
                f"{file.name}: {field_}.sha256: expected the SHA-256 of a file about "
                f"{model.slug} in the data folder, found {found}"
            )
    for held in model.verifications:
        if held.verification.data.sha256 == verification.data.sha256:
            _one_only(held, file, f"verification of {verification.data.name}")
    return replace(
        model, verifications=(*model.verifications, HeldVerification(file, verification))
    )
