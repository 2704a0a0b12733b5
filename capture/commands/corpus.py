"""Four text domains through every complete layer: expert loads with prompt-level intervals.

Writes one llm-atlas/routing-corpus@1 file. The selection depends on nothing but the pinned
corpora and the tokenizer; `--select-only` prints and writes it without weights.

  python -m capture corpus --artifact-dir DIR --human-eval HumanEval.jsonl.gz \\
    --gsm8k test.jsonl --tnews test.json --tnews-archive tnews_public.zip \\
    --wikitext validation.parquet --output routing-corpus.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from atlas.contract.base import Estimate
from atlas.contract.corpus import RoutingCorpus
from atlas.contract.selection import CorpusSelection
from atlas.resample import REPLICATES, SEED, Resampling
from capture import output
from capture.commands.common import add_run_arguments, session_of
from capture.corpus import sources
from capture.corpus.plan import Plan
from capture.corpus.selection import (
    BATCH_SIZE,
    DOMAINS,
    MAXIMUM_TOKENS,
    PER_DOMAIN,
    SALT,
    Encode,
    select,
    selection_record,
    selection_table,
)
from capture.errors import Refusal
from capture.tables import table
from capture.tokenizer import open_tokenizer_alone


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    corpora = parser.add_argument_group("corpora (any of them; one domain each)")
    corpora.add_argument("--human-eval", type=Path, metavar="FILE", help="HumanEval.jsonl.gz")
    corpora.add_argument("--gsm8k", type=Path, metavar="FILE", help="GSM8K test.jsonl")
    corpora.add_argument("--tnews", type=Path, metavar="FILE", help="CLUE TNEWS test.json")
    corpora.add_argument(
        "--tnews-archive", type=Path, metavar="FILE", help="tnews_public.zip, to check test.json"
    )
    corpora.add_argument(
        "--wikitext", type=Path, metavar="FILE", help="WikiText-2 raw validation parquet"
    )
    corpora.add_argument(
        "--probes", action="store_true", help="the embedded probe corpus instead of the four"
    )
    corpora.add_argument(
        "--allow-unpinned-corpus",
        action="store_true",
        help="read a corpus file whose hash is not the pin; the file then says so",
    )
    parser.add_argument("--per-domain", type=_positive, default=PER_DOMAIN, metavar="N")
    parser.add_argument("--max-tokens", type=_positive, default=MAXIMUM_TOKENS, metavar="N")
    parser.add_argument("--batch-size", type=_positive, default=BATCH_SIZE, metavar="N")
    parser.add_argument("--bootstrap", type=_positive, default=REPLICATES, metavar="N")
    parser.add_argument("--seed", type=_natural, default=SEED, metavar="N")
    parser.add_argument(
        "--engine",
        choices=("plain", "ray"),
        default="plain",
        help="ray: spread the batches over Ray workers, with the same bytes as a result",
    )
    parser.add_argument("--workers", type=_positive, metavar="N", help="Ray workers (default: 2)")
    parser.add_argument(
        "--select-only", action="store_true", help="selection table only; needs no weights"
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, found {text[:40]!r}")
    return int(text)


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, found {text[:40]!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    output.require_writable(args.output)
    captured_at = output.captured_at(args.captured_at)
    readings = _readings(args)
    if args.select_only:
        return _select_only(args, readings)
    # torch is imported only where layers run
    from capture.corpus.run import run_corpus
    from capture.engine import engine_of

    session = session_of(args)
    plan = _plan(args, readings, session.tokenizer.encode)
    print(selection_table(plan.picks))
    with engine_of(args.engine, args.workers, session) as engine:
        result = run_corpus(
            session,
            plan,
            Resampling(args.bootstrap, args.seed),
            captured_at=captured_at,
            work_dir=args.work_dir,
            resume=args.resume,
            engine=engine,
        )
    digest = output.write(args.output, result)
    print("\n" + load_table(result))
    print(f"{args.output.name}  SHA-256 {digest}")
    return 0


def _readings(args: argparse.Namespace) -> list[sources.Reading]:
    loose = args.allow_unpinned_corpus
    if args.probes:
        named = [n for n in ("human_eval", "gsm8k", "tnews", "wikitext") if getattr(args, n)]
        if named:
            raise Refusal(
                where="--probes", what="corpora", expected="no other corpus", found=named[0]
            )
        return [sources.probes(rule.domain) for rule in DOMAINS]
    readings = []
    if args.wikitext:
        readings.append(sources.wikitext(args.wikitext, allow_unpinned=loose))
    if args.tnews:
        readings.append(sources.tnews(args.tnews, args.tnews_archive, allow_unpinned=loose))
    if args.human_eval:
        readings.append(sources.human_eval(args.human_eval, allow_unpinned=loose))
    if args.gsm8k:
        readings.append(sources.gsm8k(args.gsm8k, allow_unpinned=loose))
    if not readings:
        raise Refusal(
            where="corpus",
            what="no corpus given",
            expected="--human-eval, --gsm8k, --tnews, --wikitext or --probes",
        )
    for reading in readings:
        for note in reading.notes:
            print(note)
    return readings


def _plan(args: argparse.Namespace, readings: list[sources.Reading], encode: Encode) -> Plan:
    picks = select(
        readings, encode, salt=SALT, per_domain=args.per_domain, maximum_tokens=args.max_tokens
    )
    rules = selection_record(
        salt=SALT,
        per_domain=args.per_domain,
        maximum_tokens=args.max_tokens,
        batch_size=args.batch_size,
    )
    return Plan(picks, rules)


def _select_only(args: argparse.Namespace, readings: list[sources.Reading]) -> int:
    model, files, tokenizer = open_tokenizer_alone(args.artifact_dir, args.model)
    plan = _plan(args, readings, tokenizer.encode)
    content = CorpusSelection(
        schema_="llm-atlas/selection@1",
        evidence="demo" if model.evidence == "demo" else "official",
        model=model.identity,
        artifacts=files,
        selection=plan.selection,
        domains=tuple(pick.record for pick in plan.picks),
        prompts=tuple(prompt.record for prompt in plan.prompts),
    )
    digest = output.write(args.output, content)
    print(selection_table(plan.picks))
    print(f"{args.output.name}  SHA-256 {digest}")
    return 0


def load_table(result: RoutingCorpus) -> str:
    """Prompt-balanced CV and effective experts with 95 % intervals, per layer and domain."""
    rows = []
    for layer in result.layers:
        for domain in layer.domains:
            cv, effective = domain.prompt_balanced.cv, domain.prompt_balanced.effective_experts
            rows.append((layer.layer, domain.domain, _show(cv, 3), _show(effective, 1)))
    return table(("layer", "domain", "CV (prompt-balanced)", "effective experts"), rows)


def _show(estimate: Estimate, digits: int) -> str:
    low, high = estimate.percentile.low, estimate.percentile.high
    return f"{estimate.point:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
