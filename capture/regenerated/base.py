"""What a look-up in a regenerated file gives: a value, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

Value = bool | int | float | str | tuple[int, ...] | tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """A value in the figure's unit, unrounded, and its 95 % percentile interval if it has one."""

    value: Value
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Absent:
    """Why a file has no such value, in the site's two languages."""

    en: str
    zh: str


class Missing(Exception):
    """Raised where a file lacks the place that a figure names."""

    def __init__(self, absent: Absent) -> None:
        super().__init__(absent.en)
        self.absent = absent


NO_LAYER = Absent("no such MoE layer in this file", "本文件没有该 MoE 层")
NO_DOMAIN = Absent("no such domain in this file", "本文件没有该域")
NO_PROMPT = Absent("no such prompt in this file", "本文件没有该 prompt")
NO_EXPERT = Absent("no such expert in this model", "该模型没有此专家")
NO_FIELD = Absent("this file leaves the field empty", "本文件该字段为空")
NO_SHARD = Absent("this file records no such shard", "本文件没有记录该分片")
NOT_HASHED = Absent("this file holds no hash of it", "本文件没有记录其哈希")
SEVERAL = Absent("layers differ, so there is no one value", "各层不同，没有单一的值")
TRACE_ONLY = Absent("only a trace records it", "只有 trace 文件记录此项")
CORPUS_ONLY = Absent("only a routing corpus records it", "只有路由语料文件记录此项")
OFFICIAL_ONLY = Absent("only the official file records it", "只有官方数据文件记录此项")
CLOCK = Absent("a clock or a date, not a result", "时钟或日期，不是结果")
NOT_RECORDED = Absent("no file of this project records it", "本项目的文件不记录此项")
COMPARED = Absent(
    "found by comparing two runs; a comparison file holds it", "由比较两次执行得到，见比较文件"
)
OTHER_FORMAT = Absent(
    "the hash of a file of another project, in a format that is not ours",
    "另一项目文件的哈希，其格式与本项目不同",
)
OTHER_MODEL = Absent("said of another model", "关于另一模型的陈述")

NOWHERE: dict[str, Absent] = {
    "date": CLOCK,
    "captured_at": CLOCK,
    "file_sha256": OTHER_FORMAT,
    "checks_exact": COMPARED,
    "checks_total": COMPARED,
    "timing_compared": COMPARED,
    "byte_identical": COMPARED,
    "driver": NOT_RECORDED,
    "gpu_memory": NOT_RECORDED,
    "failing_transformers": NOT_RECORDED,
    "paper_reduction": OTHER_MODEL,
    "paper_baseline": OTHER_MODEL,
}
"""Quantities that no regenerated file holds, and why."""


def need(value: T | None, absent: Absent) -> T:
    """`value`, or Missing where it is None."""
    if value is None:
        raise Missing(absent)
    return value


def the_one(values: set[T]) -> T:
    """The only value of a set. Raises Missing if layers differ."""
    if len(values) != 1:
        raise Missing(SEVERAL)
    return next(iter(values))
