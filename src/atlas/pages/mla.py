"""The two ledgers of the MLA cache: what has to be kept, and what was kept."""

from __future__ import annotations

from dataclasses import dataclass

from atlas.contract.identity import Architecture
from atlas.contract.trace import CacheLedger
from atlas.numbers import COUNT, PERCENT, RATIO
from atlas.pages.frame import Frame, Writer
from atlas.shelf import HeldTrace, Model
from atlas.urls import URLS


@dataclass(frozen=True)
class MlaRow:
    """Shapes observed in one layer."""

    layer: int
    projection: str
    key: str
    value: str
    dtype: str


@dataclass(frozen=True)
class Ledger:
    """One of the two ledgers, with the length of its bar in percent of the longer one."""

    name: str
    formula: str
    elements: str
    bytes: str
    percent: int


@dataclass(frozen=True)
class MlaContext:
    """Context of mla.html.j2."""

    frame: Frame
    headline: str
    lead: str
    ledgers: tuple[Ledger, ...]
    ratio: str
    reduction: str
    rows: tuple[MlaRow, ...]
    cannot: tuple[str, ...]


def ledgers(writer: Writer, a: Architecture, cache: CacheLedger) -> tuple[Ledger, Ledger]:
    """What was kept and what has to be kept, with bars on one scale."""
    longest = max(cache.eager_bytes, cache.latent_bytes)

    def row(kind: str, formula: str, elements: int, size: int) -> Ledger:
        return Ledger(
            writer.t(f"mla.{kind}"),
            formula,
            COUNT.text(elements),
            COUNT.text(size),
            max(1, round(100 * size / longest)),
        )

    eager = (
        f"{a.num_attention_heads} × (({a.qk_nope_head_dim} + {a.qk_rope_head_dim}) "
        f"+ {a.v_head_dim})"
    )
    latent = f"{a.kv_lora_rank} + {a.qk_rope_head_dim}"
    return (
        row("eager", eager, cache.eager_elements, cache.eager_bytes),
        row("latent", latent, cache.latent_elements, cache.latent_bytes),
    )


def mla_ledgers(writer: Writer, model: Model, held: HeldTrace, path: str) -> MlaContext:
    """Context of the ledgers' page."""
    t, trace = writer.t, held.trace
    ledger = trace.cache_ledger
    headline = t("mla.headline", ratio=RATIO.text(ledger.ratio))
    return MlaContext(
        frame=writer.frame(
            path,
            f"{t('nav.mla')} · {model.identity.title}",
            headline,
            crumbs=[
                *writer.model_crumbs(model),
                (URLS.trace(writer.lang, model.slug), t("nav.trace")),
                (None, t("nav.mla")),
            ],
            model=model,
            sources=[held.file],
        ),
        headline=headline,
        lead=t("mla.lead"),
        ledgers=ledgers(writer, trace.architecture, ledger),
        ratio=RATIO.text(ledger.ratio),
        reduction=PERCENT.text(ledger.reduction),
        rows=tuple(
            MlaRow(
                x.layer,
                str(list(x.mla.projection)),
                str(list(x.mla.key)),
                str(list(x.mla.value)),
                x.mla.cache_dtype,
            )
            for x in trace.layers
        ),
        cannot=(t("mla.cannot_kernel"), t("mla.cannot_paper")),
    )
