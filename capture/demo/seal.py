"""Pin the embedded checkpoint and write its model card: `python -m capture.demo.seal`.

Writes capture/pins/demo.json and the card from the files in capture/demo/checkpoint. Run after
training; tests hold them together.
"""

from __future__ import annotations

import argparse
from hashlib import sha256
from pathlib import Path

from atlas.canonical import canonical_json, write_atomically
from capture.artifacts import read_architecture, read_config
from capture.demo.card import CARD, RECORD, card_of
from capture.demo.layout import SHARDS
from capture.pins import FOLDER, KnownModel, PinnedFile, Role

CHECKPOINT = Path(__file__).parent / "checkpoint"
ROLES: dict[str, Role] = {
    "config.json": "config",
    "configuration_deepseek.py": "configuration",
    "modeling_deepseek.py": "modeling",
    "tokenizer.json": "tokenizer",
    "model.safetensors.index.json": "index",
    SHARDS[0]: "shard",
    SHARDS[1]: "shard",
}


def pins_of(folder: Path) -> KnownModel:
    """The pins that `folder`'s files would have. Its revision is a hash over all of them."""
    files = []
    for name, role in ROLES.items():
        data = (folder / name).read_bytes()
        files.append(
            PinnedFile(
                name=name,
                role=role,
                bytes=len(data),
                sha256=sha256(data).hexdigest(),
                source="this repository",
            )
        )
    joined = "".join(f.sha256 for f in files)
    return KnownModel(
        slug="demo",
        title="Embedded checkpoint",
        repository="llm-atlas, capture/demo/checkpoint",
        revision=sha256(joined.encode()).hexdigest()[:40],
        licence="MIT",
        evidence="demo",
        files=tuple(files),
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__, prog="python -m capture.demo.seal").parse_args()
    write_atomically(FOLDER / "demo.json", canonical_json(pins_of(CHECKPOINT)))
    architecture = read_architecture(read_config(CHECKPOINT)[1])
    card = card_of((CHECKPOINT / RECORD).read_bytes(), architecture)
    write_atomically(CHECKPOINT / CARD, card)
    print(f"pinned {CHECKPOINT.name}: {pins_of(CHECKPOINT).revision}")


if __name__ == "__main__":
    main()
