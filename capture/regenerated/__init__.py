"""Where each published quantity stands in a trace, a routing corpus, or an official file.

One room per kind of file; each has a table from quantity to the function that reads it, in
the figure's unit and unrounded. What no file records is in base.NOWHERE with its reason.
"""

from __future__ import annotations

from atlas.contract import Official, RoutingCorpus, Trace
from atlas.contract.published import PublishedFigure
from capture.regenerated import common, corpus, official, trace
from capture.regenerated.base import (
    CORPUS_ONLY,
    NO_FIELD,
    NOWHERE,
    OFFICIAL_ONLY,
    TRACE_ONLY,
    Absent,
    Found,
    Missing,
    Value,
)

File = Trace | RoutingCorpus | Official
Regenerated = Found | Absent

__all__ = ["Absent", "File", "Found", "Regenerated", "Value", "regenerated"]

# what a run decides is compared with the document that tells of that run
_OF_A_RUN = frozenset(
    {
        *("executed_layers", "executed_layer_count", "dense_layers", "moe_layers"),
        *("moe_layer_count", "first_missing_layer", "missing_layers"),
        *("gpu", "python", "torch", "cuda", "transformers", "safetensors", "tf32"),
    }
)


def regenerated(figure: PublishedFigure, file: File) -> Regenerated:
    """The value of the figure's quantity at its place in `file`, or why there is none."""
    quantity = figure.quantity
    if quantity in NOWHERE:
        return NOWHERE[quantity]
    about_trace = figure.document == "trace" or quantity.startswith("trace_")
    try:
        if isinstance(file, Official):
            if quantity in official.READ or (about_trace and quantity in official.OF_TRACE):
                return official.official(file, figure)
            if quantity in common.READ:
                return common.common(_common(file), figure)
        else:
            own = isinstance(file, Trace) == about_trace
            if quantity in common.READ and (own or quantity not in _OF_A_RUN):
                return common.common(_common(file), figure)
            if isinstance(file, Trace) and own and quantity in trace.READ:
                return trace.trace(file, figure)
            if isinstance(file, RoutingCorpus) and own and quantity in corpus.READ:
                return corpus.corpus(file, figure)
    except Missing as missing:
        return missing.absent
    if quantity in (trace.READ if about_trace else corpus.READ) or quantity in _OF_A_RUN:
        return TRACE_ONLY if about_trace else CORPUS_ONLY
    return OFFICIAL_ONLY if quantity in official.READ else NO_FIELD


def _common(file: File) -> common.Common:
    if isinstance(file, Official):
        stop, environment = official.first_shard_stop(file), None
    else:
        stop, environment = file.stop_line, file.environment
    return common.Common(file.model, file.artifacts, file.architecture, stop, environment)
