"""Export of all ordered routes: one archive and its manifest, for people who study expert caches.

`routes.npz` (a zip of .npy, `numpy.load` opens it):

    expert_ids_NLK    uint16  [tokens, layers, k]  ordered by gate weight, largest first, then id
    sequence_starts   int64   [prompts + 1]        prompt p is rows starts[p] to starts[p + 1]
    layer_numbers     int64   [layers]             the model's own layer numbers
    weights_NLK       float32 [tokens, layers, k]  gate weights in the same order (only if asked)

`manifest.json` (`llm-atlas/route-export@1`) names the prompts, the evidence and every hash. The
same routes give the same bytes: entries are stored uncompressed with a fixed time.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from atlas.canonical import canonical_json
from atlas.contract.base import Bilingual, Evidence
from atlas.contract.corpus import Docs, ImportedRecord
from atlas.contract.identity import ArtifactFile, ModelIdentity, Routing
from atlas.contract.routes import ExportedArray, ExportedFile, ExportedPrompt, RouteExport
from atlas.contract.trace import Trace
from capture.errors import Refusal

ARCHIVE = "routes.npz"
MANIFEST = "manifest.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_AXES = {
    "expert_ids_NLK": "[tokens, layers, k]",
    "sequence_starts": "[prompts + 1]",
    "layer_numbers": "[layers]",
    "weights_NLK": "[tokens, layers, k]",
}
_DTYPES = {
    "expert_ids_NLK": "<u2",
    "sequence_starts": "<i8",
    "layer_numbers": "<i8",
    "weights_NLK": "<f4",
}


@dataclass(frozen=True)
class Sequence:
    """One prompt of an export."""

    prompt_id: str
    domain: str | None
    tokens: int
    route_sha256: str


@dataclass(frozen=True)
class RoutedSequences:
    """Every route of a dataset. expert_ids_NLK: uint16 [N, L, K]; weights_NLK: float32 alike."""

    evidence: Evidence
    model: ModelIdentity
    artifacts: tuple[ArtifactFile, ...]
    record: ImportedRecord | None
    routing: Routing
    layers: tuple[int, ...]
    weight_decimals: int | None
    docs: Docs
    prompts: tuple[Sequence, ...]
    expert_ids_NLK: NDArray[np.uint16]
    weights_NLK: NDArray[np.float32]


def from_trace(trace: Trace) -> RoutedSequences:
    """Every route of a trace, prompts in its order, MoE layers only."""
    moe = [(layer.layer, layer.moe) for layer in trace.layers if layer.moe is not None]
    if not moe:
        raise Refusal(
            where="trace", what="nothing to export", expected="an MoE layer", found="none"
        )
    ids, weights, prompts = [], [], []
    for row, prompt in enumerate(trace.prompts):
        ids_LTK = np.array([x.routes[row].expert_ids_TK for _, x in moe], dtype=np.uint16)
        ids.append(ids_LTK.transpose(1, 0, 2))
        weights_LTK = np.array([x.routes[row].weights_TK for _, x in moe], dtype=np.float32)
        weights.append(weights_LTK.transpose(1, 0, 2))
        prompts.append(
            Sequence(
                prompt_id=prompt.prompt_id,
                domain=None,
                tokens=len(prompt.token_ids_T),
                route_sha256=sha256(ids_LTK.astype("<u2").tobytes()).hexdigest(),
            )
        )
    return RoutedSequences(
        evidence=trace.evidence,
        model=trace.model,
        artifacts=trace.artifacts,
        record=None,
        routing=trace.architecture.routing,
        layers=tuple(number for number, _ in moe),
        weight_decimals=None,
        docs=TRACE_DOCS,
        prompts=tuple(prompts),
        expert_ids_NLK=np.concatenate(ids),
        weights_NLK=np.concatenate(weights),
    )


TRACE_DOCS = Docs(
    answers=(
        Bilingual(
            en="Which experts each token of these few prompts selected, in order, in every "
            "MoE layer that ran.",
            zh="这几条提示词的每个 token 在每个已执行的 MoE 层依次选中了哪些专家。",
        ),
    ),
    does_not_answer=(
        Bilingual(
            en="Nothing about other text: a handful of prompts is no sample of a workload.",
            zh="不能说明其他文本：寥寥几条提示词不是某种负载的样本。",
        ),
    ),
)


def export(sequences: RoutedSequences, folder: Path, with_weights: bool) -> RouteExport:
    """Write the archive and then its manifest into `folder`, which is made if it is missing.

    Both are complete before either gets its name. Raises Refusal if the folder cannot be
    written; then neither file is there, or both are as they were.
    """
    archive, manifest = render(sequences, with_weights)
    _write_together(folder, {ARCHIVE: archive, MANIFEST: canonical_json(manifest)})
    return manifest


def render(sequences: RoutedSequences, with_weights: bool) -> tuple[bytes, RouteExport]:
    """Bytes of the archive, and its manifest."""
    starts = np.concatenate([[0], np.cumsum([p.tokens for p in sequences.prompts])])
    arrays: dict[str, NDArray[Any]] = {
        "expert_ids_NLK": sequences.expert_ids_NLK,
        "sequence_starts": starts,
        "layer_numbers": np.array(sequences.layers),
    }
    if with_weights:
        arrays["weights_NLK"] = sequences.weights_NLK
    arrays = {
        name: np.ascontiguousarray(array, dtype=_DTYPES[name]) for name, array in arrays.items()
    }
    archive = _npz(arrays)
    manifest = RouteExport(
        schema_="llm-atlas/route-export@1",
        evidence=sequences.evidence,
        model=sequences.model,
        artifacts=sequences.artifacts,
        record=sequences.record,
        routing=sequences.routing,
        layers=sequences.layers,
        weight_decimals=sequences.weight_decimals if with_weights else None,
        archive=ExportedFile(name=ARCHIVE, bytes=len(archive), sha256=sha256(archive).hexdigest()),
        arrays=tuple(
            ExportedArray(
                name=name,
                axes=_AXES[name],
                dtype=cast(Literal["uint16", "int64", "float32"], array.dtype.name),
                shape=array.shape,
                sha256=sha256(array.data).hexdigest(),
            )
            for name, array in arrays.items()
        ),
        prompts=tuple(
            ExportedPrompt(
                prompt_id=prompt.prompt_id,
                domain=prompt.domain,
                start=start,
                tokens=prompt.tokens,
                route_sha256=prompt.route_sha256,
            )
            for prompt, start in zip(sequences.prompts, starts.tolist(), strict=False)
        ),
        docs=sequences.docs,
    )
    return archive, manifest


def read_export(folder: Path) -> tuple[dict[str, NDArray[Any]], RouteExport]:
    """The arrays and the manifest of an export. Raises Refusal where hashes do not agree."""
    try:
        manifest = RouteExport.model_validate_json((folder / MANIFEST).read_bytes())
        data = (folder / manifest.archive.name).read_bytes()
    except OSError as error:
        raise Refusal(
            where=folder.name, what="export cannot be read", found=error.strerror
        ) from error
    except ValidationError as error:
        raise Refusal(
            where=MANIFEST, what="not a manifest", found=error.errors(include_url=False)[0]["msg"]
        ) from error
    digest = sha256(data).hexdigest()
    if digest != manifest.archive.sha256:
        raise Refusal(
            where=manifest.archive.name,
            what="SHA-256",
            expected=manifest.archive.sha256,
            found=digest,
        )
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {array.name: archive[array.name] for array in manifest.arrays}, manifest


def _npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    # numpy.savez stamps the time of day into the zip
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=_EPOCH)
            entry.create_system = 3  # the same header on every system
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w") as file:
                np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _write_together(folder: Path, files: Mapping[str, bytes]) -> None:
    made: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            handle, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.", suffix=".part")
            made.append(Path(path))
            with os.fdopen(handle, "wb") as file:
                file.write(data)
        for name, part in zip(files, made, strict=True):
            part.chmod(0o644)
            part.replace(folder / name)
    except OSError as error:
        raise Refusal(
            where=folder.name or str(folder),
            what="export cannot be written",
            expected="a writable folder",
            found=error.strerror,
        ) from error
    finally:
        for part in made:
            part.unlink(missing_ok=True)
