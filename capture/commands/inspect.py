"""What is in an artifact folder: files against their pins, layer -> shards, the stop line.

Works with config.json and the index alone and needs no torch. Exit 2 if a file differs from
its pin; a file that is absent is only listed.

With --output it also writes what these files settle without weights, an llm-atlas/official@1
file: parameters, layer -> shards and bytes, stop lines, MLA ledgers and, with a tokenizer, the
trace prompts' tokens and the selection of the corpora given.

  python -m capture inspect --artifact-dir DIR --tokenizer tokenizer.json \\
    --human-eval HumanEval.jsonl.gz --gsm8k test.jsonl --output official.json
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from tqdm import tqdm

from atlas.contract.identity import ArtifactFile
from capture import output
from capture.artifacts import INDEX, Artifact, describe_pinned, hash_file, open_artifact
from capture.commands.common import add_artifact_arguments
from capture.corpus import sources
from capture.errors import Refusal
from capture.official_figures import official
from capture.tables import table
from capture.tensors import checkpoint_shapes
from capture.tokenizer import TOKENIZER, Tokenizer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_artifact_arguments(parser)
    parser.add_argument("--skip-shard-hashes", action="store_true", help="do not hash the shards")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write what needs no weights as JSON"
    )
    parser.add_argument(
        "--tokenizer",
        type=Path,
        metavar="FILE",
        help="the pinned tokenizer.json, for --output (default: the one in DIR, if any)",
    )
    parser.add_argument("--human-eval", type=Path, metavar="FILE", help="HumanEval.jsonl.gz")
    parser.add_argument("--gsm8k", type=Path, metavar="FILE", help="GSM8K test.jsonl")


def run(args: argparse.Namespace) -> int:
    if args.output is not None:
        output.require_writable(args.output)
    for name in ("tokenizer", "human_eval", "gsm8k"):
        if getattr(args, name) is not None and args.output is None:
            flag = f"--{name.replace('_', '-')}"
            raise Refusal(where=flag, what="nothing to write to", expected="--output FILE")
    artifact = open_artifact(args.artifact_dir, args.model)
    model, expected = artifact.model, len(checkpoint_shapes(artifact.architecture))
    print(f"{model.title}  {model.repository} @ {model.revision}")
    print(f"index: {len(artifact.shard_of):,} of {expected:,} tensors\n")
    rows, differing = _file_rows(artifact, not args.skip_shard_hashes, args.quiet)
    print(table(("file", "state", "SHA-256"), rows) + "\n")
    print(table(("layer", "kind", "shards", "at hand"), _layer_rows(artifact)) + "\n")
    print(
        table(("with the shards up to", "layers that run", "first that does not"), _reach(artifact))
    )
    print("\n" + _stop_sentence(artifact))
    if differing:
        raise differing[0]
    if args.output is not None:
        _write_official(artifact, args)
    return 0


def _write_official(artifact: Artifact, args: argparse.Namespace) -> None:
    """The official file from config, index and whichever of the other files are given."""
    folder, files = artifact.folder, [*_checked(artifact, artifact.folder, "config.json", INDEX)]
    path = args.tokenizer or folder / TOKENIZER
    tokenizer = None
    if args.tokenizer is not None or path.is_file():
        if path.name != TOKENIZER:
            raise Refusal(
                where="--tokenizer", what="file name", expected=TOKENIZER, found=path.name
            )
        files += _checked(artifact, path.parent, TOKENIZER)
        vocabulary = artifact.architecture.vocab_size
        tokenizer = Tokenizer(path, int(artifact.config["bos_token_id"]), vocabulary)
    readings = []
    if args.human_eval is not None:
        readings.append(sources.human_eval(args.human_eval))
    if args.gsm8k is not None:
        readings.append(sources.gsm8k(args.gsm8k))
    digest = output.write(args.output, official(artifact, tuple(files), tokenizer, readings))
    print(f"{args.output.name}  SHA-256 {digest}")


def _checked(artifact: Artifact, folder: Path, *names: str) -> tuple[ArtifactFile, ...]:
    return describe_pinned(folder, artifact.model, names, hash_shards=True)


def _file_rows(
    artifact: Artifact, hash_shards: bool, quiet: bool
) -> tuple[list[tuple[str, str, str]], list[Refusal]]:
    pinned = [f.name for f in artifact.model.files]
    names = [*pinned, *(s for s in artifact.shards if s not in pinned)]
    rows, differing = [], []
    for name in names:
        path, pin = artifact.folder / name, artifact.model.pin(name)
        if not path.is_file():
            rows.append((name, "absent", f"pin {pin.sha256}" if pin else "no pin"))
            continue
        if name in artifact.shards and not hash_shards:
            rows.append((name, "present, not hashed", ""))
            continue
        size = path.stat().st_size
        with tqdm(
            total=size, desc=name, unit="B", unit_scale=True, file=sys.stderr,
            disable=quiet or size < 1 << 24, leave=False,
        ) as bar:  # fmt: skip
            digest = hash_file(path, bar.update)
        state = "no pin" if pin is None else "pinned" if digest == pin.sha256 else "DIFFERS"
        rows.append((name, state, digest))
        if pin is not None and digest != pin.sha256:
            differing.append(
                Refusal(
                    where=name,
                    what="SHA-256 differs from the pin",
                    expected=pin.sha256,
                    found=digest,
                )
            )
    return rows, differing


def _layer_rows(artifact: Artifact) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for layer in range(artifact.architecture.num_hidden_layers):
        shards = artifact.shards_of_layer(layer)
        kind = "MoE" if layer in artifact.architecture.moe_layers else "dense"
        at_hand = all(s in artifact.present for s in shards)
        rows.append((layer, kind, " + ".join(shards), "yes" if at_hand else "no"))
    return rows


def _reach(artifact: Artifact) -> list[tuple[object, ...]]:
    """How far the layers run with the first n shards, whatever is at hand."""
    rows: list[tuple[object, ...]] = []
    for count, shard in enumerate(artifact.shards, start=1):
        some = dataclasses.replace(artifact, present=artifact.shards[:count])
        try:
            stop = some.stop_line()
        except Refusal:
            rows.append((shard, "none", 0))
            continue
        missing = stop.first_missing_layer
        why = "–" if missing is None else f"{missing}, also in {', '.join(stop.missing_files)}"
        rows.append((shard, f"0–{stop.executed_layers[-1]}", why))
    return rows


def _stop_sentence(artifact: Artifact) -> str:
    try:
        stop = artifact.stop_line()
    except Refusal as refusal:
        return f"stop line: none, no layer can run ({refusal})"
    last = stop.executed_layers[-1]
    if stop.first_missing_layer is None:
        return f"stop line: none, layers 0–{last} are all complete"
    return (
        f"stop line: layer {last}; layer {stop.first_missing_layer} "
        f"lacks tensors in {', '.join(stop.missing_files)}"
    )
