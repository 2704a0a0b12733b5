"""Four fixed prompts through every complete layer: routes, load, MLA cache, hidden hashes.

Writes one llm-atlas/trace@1 file. Run it twice and use `compare` to see that the machine
repeats itself to the bit.
"""

from __future__ import annotations

import argparse

from atlas.contract.trace import Trace
from capture import output
from capture.commands.common import add_run_arguments, session_of
from capture.tables import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from capture.trace import trace

    output.require_writable(args.output)
    captured_at = output.captured_at(args.captured_at)
    result = trace(
        session_of(args), captured_at=captured_at, work_dir=args.work_dir, resume=args.resume
    )
    digest = output.write(args.output, result)
    print(load_table(result))
    print(summary_line(result))
    print(f"{args.output.name}  SHA-256 {digest}")
    return 0


def load_table(result: Trace) -> str:
    """Load of each MoE layer over all valid tokens; expert ids with their layer."""
    rows = []
    for layer in result.moe_layers:
        assert layer.moe is not None
        s = layer.moe.summary
        rows.append(
            (
                layer.layer,
                s.selections,
                f"{s.used}/{s.used + s.zero}",
                s.zero,
                f"{s.cv:.3f}",
                f"{s.gini:.3f}",
                f"{s.effective_experts:.2f}",
                f"L{layer.layer}·E{s.top_expert} · {s.top_count}",
                f"{layer.moe.mean_topk_weight_sum:.4f}",
            )
        )
    header = ("layer", "selections", "used", "zero", "CV", "Gini", "effective", "top", "weight sum")
    return table(header, rows)


def summary_line(result: Trace) -> str:
    stop, ledger = result.stop_line, result.cache_ledger
    why = {
        "complete": "all layers ran",
        "limit_asked_for": f"stopped before layer {stop.first_missing_layer} as asked",
        "tensors_missing": (
            f"layer {stop.first_missing_layer} needs {', '.join(stop.missing_files)}"
        ),
    }[stop.reason]
    return (
        f"layers 0–{stop.executed_layers[-1]} ({why}); {result.valid_tokens} valid tokens; "
        f"MLA cache {ledger.eager_bytes:,} bytes per token and layer eager, "
        f"{ledger.latent_bytes:,} latent ({ledger.ratio:.4f}×)"
    )
