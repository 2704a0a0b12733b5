"""A session over an artifact whose weights are random and so have no pin.

The command line runs pinned artifacts only, and this does not change it: a benchmark opens its
folder here, through the Python API. What is executed is pinned all the same: the folder's code
must be the embedded checkpoint's, hash for hash.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from capture import runtime
from capture.artifacts import (
    INDEX,
    Artifact,
    check_shards,
    describe_pinned,
    read_architecture,
    read_config,
    read_index,
    read_small,
)
from capture.official import CONFIGURATION, MODELING, load_official_code
from capture.pins import KnownModel, model_called
from capture.session import Session
from capture.tensors import checkpoint_shapes
from capture.tokenizer import TOKENIZER, open_tokenizer


def random_model(config: bytes) -> KnownModel:
    """A model made for a benchmark: pins for the code that runs, none for the weights."""
    demo = model_called("demo")
    return demo.model_copy(
        update={
            "slug": "random-weights",
            "title": "Random weights at real shapes",
            "repository": "llm-atlas, benchmarks/make_checkpoint.py",
            "revision": sha256(config).hexdigest()[:40],
            "files": tuple(f for f in demo.files if f.name in (CONFIGURATION, MODELING)),
        }
    )


def open_unpinned(folder: Path, *, layers: int | None = None, device: str = "cpu") -> Session:
    """As capture.session.open_session, but for weights without a pin. Raises Refusal."""
    data, config = read_config(folder)
    architecture = read_architecture(config)
    shard_of = read_index(read_small(folder / INDEX), checkpoint_shapes(architecture))
    present = tuple(s for s in sorted(set(shard_of.values())) if (folder / s).is_file())
    model = random_model(data)
    artifact = Artifact(folder, model, architecture, config, shard_of, present)
    stop_line = artifact.stop_line(layers)
    shards = check_shards(artifact, stop_line.executed_layers)
    names = ("config.json", CONFIGURATION, MODELING, TOKENIZER, INDEX, *shards)
    files = describe_pinned(folder, model, names, hash_shards=False)
    run_on = runtime.prepare(device)
    return Session(
        artifact=artifact,
        stop_line=stop_line,
        files=files,
        code=load_official_code(folder, model.hashes),
        tokenizer=open_tokenizer(artifact),
        device=run_on,
        environment=runtime.describe(run_on),
        quiet=True,
    )
