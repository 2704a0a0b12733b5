"""Where a model's evidence comes from: identity, files and hashes, stop line, environment."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.contract.identity import Architecture, Environment, StopLine
from atlas.numbers import COUNT
from atlas.pages.frame import FileRow, Writer, file_rows
from atlas.shelf import Model


@dataclass(frozen=True)
class Fact:
    """A named value of the model's identity."""

    name: str
    value: str
    code: bool = False


@dataclass(frozen=True)
class Check:
    """Figures of a publisher that were recomputed."""

    name: str
    rule: str
    agreeing: str
    total: str


@dataclass(frozen=True)
class Provenance:
    """Where a model's evidence comes from."""

    facts: tuple[Fact, ...]
    files: tuple[FileRow, ...]
    stop_line: str
    environment: tuple[Fact, ...]
    checks: tuple[Check, ...]
    not_recorded: tuple[str, ...]


def provenance(writer: Writer, model: Model) -> Provenance:
    """Identity, files, stop line and environment, from whichever dataset holds them."""
    t, identity = writer.t, model.identity
    facts = [
        Fact(t("provenance.repository"), identity.repository, code=True),
        Fact(t("provenance.revision"), identity.revision, code=True),
        Fact(t("provenance.licence"), identity.licence),
    ]
    corpus = model.corpus.corpus if model.corpus is not None else None
    trace = model.trace.trace if model.trace is not None else None
    routes = model.routes.routes if model.routes is not None else None
    record = corpus.record if corpus is not None else routes.record if routes is not None else None
    official = model.official.official if model.official is not None else None
    holder = trace or corpus
    architecture = next(
        (h.architecture for h in (trace, corpus, official) if h is not None and h.architecture),
        None,
    )
    if record is not None:
        facts += [
            Fact(t("provenance.publisher"), record.publisher),
            Fact(t("provenance.record"), record.repository, code=True),
            Fact(t("provenance.commit"), record.commit, code=True),
            Fact(t("provenance.paper"), record.paper),
            Fact(t("provenance.record_licence"), record.licence),
        ]
    if corpus is not None:
        facts += _routing_facts(
            writer, corpus.routing.n_routed_experts, corpus.routing.num_experts_per_tok
        )
    elif architecture is not None:
        facts += _routing_facts(
            writer, architecture.n_routed_experts, architecture.num_experts_per_tok
        )
    if architecture is not None:
        facts += _architecture_facts(writer, architecture)
    made_from = holder or official
    files = record.files if record is not None else made_from.artifacts if made_from else ()
    return Provenance(
        facts=tuple(facts),
        files=file_rows(files, t),
        stop_line=(
            t("provenance.stop_none")
            if holder is None and record is None
            else stop_line(writer, holder.stop_line if holder is not None else None)
        ),
        environment=environment_facts(writer, holder.environment if holder is not None else None),
        checks=tuple(
            Check(c.name, c.rule, COUNT.text(c.agreeing), COUNT.text(c.total))
            for c in (record.checks if record is not None else ())
        ),
        not_recorded=tuple(
            writer.pick(x) for x in (record.not_recorded if record is not None else ())
        ),
    )


def _routing_facts(writer: Writer, experts: int, k: int) -> list[Fact]:
    return [
        Fact(writer.t("provenance.experts"), COUNT.text(experts)),
        Fact(writer.t("provenance.top_k"), COUNT.text(k)),
    ]


def _architecture_facts(writer: Writer, a: Architecture) -> list[Fact]:
    return [
        Fact("num_hidden_layers", COUNT.text(a.num_hidden_layers)),
        Fact("hidden_size", COUNT.text(a.hidden_size)),
        Fact("n_shared_experts", COUNT.text(a.n_shared_experts)),
        Fact("moe_intermediate_size", COUNT.text(a.moe_intermediate_size)),
        Fact("first_k_dense_replace", COUNT.text(a.first_k_dense_replace)),
        Fact("scoring_func, topk_method", f"{a.scoring_func}, {a.topk_method}"),
        Fact("norm_topk_prob", str(a.norm_topk_prob).lower()),
        Fact("kv_lora_rank + qk_rope_head_dim", f"{a.kv_lora_rank} + {a.qk_rope_head_dim}"),
    ]


def stop_line(writer: Writer, line: StopLine | None) -> str:
    """Which layers ran and why the next one did not, as a sentence."""
    if line is None:
        return writer.t("provenance.stop_unknown")
    last = line.executed_layers[-1] if line.executed_layers else "–"
    if line.reason == "complete":
        return writer.t("provenance.stop_complete", last=last)
    return writer.t(
        f"provenance.stop_{line.reason}",
        last=last,
        missing=line.first_missing_layer,
        **({"files": ", ".join(line.missing_files)} if line.reason == "tensors_missing" else {}),
    )


def environment_facts(writer: Writer, environment: Environment | None) -> tuple[Fact, ...]:
    """Every field of the environment under its own name."""
    if environment is None:
        return ()
    return tuple(Fact(name, _plain(value)) for name, value in environment.model_dump().items())


def _plain(value: object) -> str:
    if value is None:
        return "–"
    return str(value).lower() if isinstance(value, bool) else str(value)
