"""Fields of datasets by the path that a note writes: `layer(4).law.cv`.

A step is a field of the data contract by its own name, or one of these ways in:

- `layer(N)`, `domain(NAME)`, `prompt(ID)`: the entry with that number or name;
- `name(KEY)` of a list: the entry whose layer, domain, prompt or name is KEY, else the KEYth;
- a domain's name after a layer: its load; a measure after that is the prompt-balanced one,
  `token_weighted.` before it asks for the other;
- `jsd(A,B)` of a layer: the divergence of two domains, in either order;
- `shares(E)` of a load: the share of one expert, with its interval;
- `prompts`, `tokens` and `selections` of a corpus: how many there are; `selections` of a layer;
- `found.concentrated`, `found.even`, `found.far`, `found.consistent`: see `atlas.findings`;
- `token_unit.narrower`, `.wider`, `.of` of a corpus or domain: see `TokenUnit`;
- `weighting.largest_cv_difference`, `.layer`, `.domain` of a corpus: see `Gap`;
- `prompt_balanced.jsd` of a layer: its largest divergence; `prompt_balanced.cv.lowest` and
  `.highest`: the range over its domains;
- of a trace: `prompts`, `tokens`, `selections`, `selections_per_layer`, `config`, `mla`,
  `range.cv.lowest`, a prompt's id before `tokens`; in a layer `mean_weight_sum`, a prompt's id
  before a measure or before `expert(E).count`.

The names are those of printed figures, so that one path finds the printed and the captured one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from pydantic import BaseModel

from atlas.contract import RoutingCorpus, Trace
from atlas.contract.base import Estimate, Interval
from atlas.contract.corpus import CorpusLayer, Divergence, DomainLoad, Load, Shares
from atlas.contract.trace import LayerTrace, LoadSummary, MoeTrace, PromptLoad
from atlas.derived import (
    MEASURES_OF_LOAD,
    Counted,
    DomainOf,
    Expert,
    Range,
    TraceRange,
    Weighted,
    of_corpus,
    of_trace,
)
from atlas.findings import FarFinding, LoadFinding
from atlas.numbers import (
    COUNT,
    CV,
    JACCARD,
    JSD,
    MARGIN,
    MEASURES,
    PERCENT,
    RATIO,
    SHARE,
    WEIGHT,
    Measure,
    expert_name,
)
from atlas.references import Step

BY_NAME = {
    **MEASURES,
    "ratio": RATIO,
    "reduction": PERCENT,
    "mean_topk_weight_sum": WEIGHT,
    "smallest_margin": MARGIN,
    "jaccard": JACCARD,
    "share": SHARE,
    "largest_cv_difference": CV,
    "mean_weight_sum": WEIGHT,
}
"""How a field is written, by its name."""

_NAMES = ("layer", "domain", "prompt_id", "name", "file")


class FieldError(Exception):
    """A path that leads to no field: expected, found."""


@dataclass(frozen=True)
class Field:
    """What a path leads to: a number and how it is written (None: the writer has to say), or
    a text; intervals where there are."""

    value: float | int | str
    measure: Measure | None = None
    percentile: Interval | None = None
    bca: Interval | None = None
    token_unit: Interval | None = None
    bias: float | None = None


@dataclass(frozen=True)
class _Ends:
    lowest: Field
    highest: Field


@dataclass(frozen=True)
class _Layered:
    """A part of one layer, which knows its layer so that an expert keeps it."""

    layer: int
    node: Any


def field(dataset: BaseModel, steps: Sequence[Step]) -> Field:
    """The field of `dataset` at the end of `steps`. Raises FieldError."""
    node: Any = dataset
    last = ""
    for step in steps:
        node = _taken(node, step)
        last = step.name if step.name not in ("token_weighted", "prompt_balanced") else last
    return _leaf(node, last)


def _leaf(node: Any, name: str) -> Field:
    if isinstance(node, _Layered):
        node = node.node
    if isinstance(node, LoadFinding):
        node, name = node.estimate, "effective_experts"
    if isinstance(node, FarFinding):
        node, name = node.estimate, "jsd"
    if isinstance(node, Divergence):
        node, name = node.prompt_balanced, "jsd"
    if isinstance(node, Expert):
        return Field(expert_name(node.layer, node.expert))
    if isinstance(node, Field):
        return node
    if isinstance(node, Estimate):
        measure = BY_NAME.get(name, JSD)
        return Field(node.point, measure, node.percentile, node.bca, node.token_unit, node.bias)
    if isinstance(node, bool):
        return Field("true" if node else "false")
    if isinstance(node, int):
        return Field(node, COUNT)
    if isinstance(node, float):
        return Field(node, BY_NAME.get(name))
    if isinstance(node, str):
        return Field(node)
    raise FieldError(f"expected a number or a text at the end, found {_kind_of(node)}")


def _taken(node: Any, step: Step) -> Any:
    """One step from `node`, ways in first, then the contract's own names."""
    if isinstance(node, _Layered):
        inner = _special(node.node, step, node.layer)
        inner = _own(node.node, step) if inner is None else inner
        return _kept(inner, node.layer)
    found = _special(node, step, None)
    if found is None:
        found = _own(node, step)
    if isinstance(found, CorpusLayer | LayerTrace):
        return _Layered(found.layer, found)
    return found


def _kept(node: Any, layer: int) -> Any:
    return node if isinstance(node, Estimate | Expert | Field) else _Layered(layer, node)


def _special(node: Any, step: Step, layer: int | None) -> Any:
    name, arguments = step.name, step.arguments
    match node:
        case RoutingCorpus() | Trace() if name in ("layer", "domain", "prompt") and arguments:
            return _entry(getattr(node, f"{name}s", ()), step)
        case RoutingCorpus() if not arguments:
            return of_corpus(node, name)
        case Trace() if not arguments:
            return of_trace(node, name)
        case Weighted() if name == "jsd":
            return max(
                (getattr(d, node.weighting) for d in node.layer.divergences),
                key=attrgetter("point"),
            )
        case Weighted() if name in MEASURES_OF_LOAD:
            loads = [getattr(d, node.weighting) for d in node.layer.domains]
            found = sorted((getattr(load, name) for load in loads), key=attrgetter("point"))
            return Range(found[0], found[-1], name)
        case Range() if name in ("lowest", "highest"):
            estimate: Estimate = getattr(node, name)
            return _leaf(estimate, node.measure)
        case CorpusLayer() if name == "jsd" and len(arguments) == 2:
            pairs = [d for d in node.divergences if {d.first, d.second} == set(arguments)]
            return pairs[0] if pairs else None
        case CorpusLayer() if name == "selections":
            return sum(map(sum, node.counts_PE))
        case CorpusLayer() if name in ("prompt_balanced", "token_weighted"):
            return Weighted(node, name)
        case CorpusLayer() if not arguments:
            return next((d for d in node.domains if d.domain == name), None)
        case DomainLoad() if name in Load.model_fields:
            inner = _special(node.prompt_balanced, step, layer)
            return _own(node.prompt_balanced, step) if inner is None else inner
        case Load() if name == "top_expert" and layer is not None:
            return Expert(layer, node.top_expert)
        case Load() if name == "shares" and len(arguments) == 1:
            return _share(node.shares, arguments[0])
        case LayerTrace() if node.moe is not None and name in MoeTrace.model_fields:
            return _entry(getattr(node.moe, name), step) if arguments else getattr(node.moe, name)
        case LayerTrace() if node.moe is not None and name == "mean_weight_sum":
            return node.moe.mean_topk_weight_sum
        case LayerTrace() if node.moe is not None and name in _prompts_of(node.moe):
            return _prompts_of(node.moe)[name]
        case TraceRange() if name in LoadSummary.model_fields:
            values = sorted(getattr(summary, name) for summary in node.summaries)
            return _Ends(_leaf(values[0], name), _leaf(values[-1], name))
        case PromptLoad() if name == "expert" and len(arguments) == 1:
            return Counted(node.counts_E[_expert(arguments[0], len(node.counts_E))])
        case LayerTrace() | PromptLoad():
            summary = node.moe.summary if isinstance(node, LayerTrace) and node.moe else None
            summary = node.summary if isinstance(node, PromptLoad) else summary
            if summary is not None and name == "top_expert" and layer is not None:
                return Expert(layer, summary.top_expert)
            return getattr(summary, name, None) if not arguments else None
    return None


def _prompts_of(moe: MoeTrace) -> dict[str, PromptLoad]:
    return {p.prompt_id: p for p in moe.prompts}


def _expert(argument: str, experts: int) -> int:
    if not (argument.isascii() and argument.isdecimal()) or int(argument) >= experts:
        raise FieldError(f"expected an expert below {experts}, found {argument!r}")
    return int(argument)


def _share(shares: Shares, argument: str) -> Field:
    e = _expert(argument, len(shares.point_E))
    interval = Interval(low=shares.low_E[e], high=shares.high_E[e])
    return Field(shares.point_E[e], SHARE, interval)


def _own(node: Any, step: Step) -> Any:
    """A field under its own name, or an entry of a list of that name."""
    known = _names_of(node)
    if step.name not in known:
        raise FieldError(
            f"{step}: expected one of {', '.join(known[:24]) or 'nothing further'}, "
            f"found {step.name!r}"
        )
    value = getattr(node, step.name)
    return _entry(value, step) if step.arguments else value


def _names_of(node: Any) -> list[str]:
    if isinstance(node, BaseModel):
        return sorted(type(node).model_fields)
    if isinstance(node, DomainOf):
        return ["prompts", "token_unit", "tokens"]
    return sorted(f.name for f in fields(node)) if is_dataclass(node) else []


def _entry(values: Any, step: Step) -> Any:
    if not isinstance(values, tuple) or len(step.arguments) != 1:
        raise FieldError(f"expected a list with one key, found {step}")
    key = step.arguments[0]
    for value in values:
        if any(str(getattr(value, name)) == key for name in _keys_of(value.__class__)):
            return value
    named = any(name in _NAMES[:3] for value in values for name in _keys_of(value.__class__))
    if key.isdecimal() and int(key) < len(values) and not named:
        return values[int(key)]
    raise FieldError(f"{step}: expected one of {len(values)} entries, found no {key!r}")


@cache
def _keys_of(kind: type) -> tuple[str, ...]:
    """Fields by which an entry of this class is found in a list. Asked of the class: to ask every
    entry took half of a note's bindings."""
    held = kind.model_fields if issubclass(kind, BaseModel) else {}
    return tuple(name for name in _NAMES if name in held or hasattr(kind, name))


def _kind_of(node: Any) -> str:
    if isinstance(node, BaseModel) or is_dataclass(node):
        return type(node).__name__
    return f"{len(node)} values" if isinstance(node, tuple) else type(node).__name__
