"""Who made the ESFT record, which bytes are known to be theirs, and what it does not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from atlas.contract.base import Bilingual, Sha256, Strict
from atlas.contract.corpus import Docs, ImportedRecord, PublisherCheck
from atlas.contract.identity import ArtifactFile, ModelIdentity, Routing
from capture.imported.record import Record
from capture.imported.weights import EXPERTS, TOP_K

PINS = Path(__file__).with_name("esft-files.json")
UNVERIFIED = "unverified"

TITLES = {
    "intent": Bilingual(en="Intent recognition", zh="意图识别"),
    "law": Bilingual(en="Legal judgment prediction", zh="法律判决预测"),
    "summary": Bilingual(en="Text summarisation", zh="文本摘要"),
    "translation": Bilingual(en="Low-resource translation", zh="低资源翻译"),
}


class RecordPin(Strict):
    """Name (under the publisher's results/), bytes and hash of one file."""

    name: str
    bytes: int
    sha256: Sha256


class RecordPins(Strict):
    """The record at one commit. `found` says how the hashes were found."""

    publisher: str
    repository: str
    commit: str
    paper: str
    licence: str
    found: str
    files: tuple[RecordPin, ...]


def read_pins() -> RecordPins:
    """The committed pins of the ESFT record."""
    return RecordPins.model_validate_json(PINS.read_bytes())


def pinned_files(record: Record, pins: RecordPins) -> tuple[ArtifactFile, ...]:
    """The record's files, each compared with its pin."""
    known = {(p.name, p.bytes, p.sha256) for p in pins.files}
    return tuple(
        ArtifactFile(
            name=file.name,
            role="record",
            bytes=file.bytes,
            sha256=file.sha256,
            pinned=(file.name, file.bytes, file.sha256) in known,
        )
        for file in record.files
    )


def is_published_record(files: tuple[ArtifactFile, ...], pins: RecordPins) -> bool:
    """Whether these are exactly the publisher's bytes: every score file, none of another's.

    Lists of experts may be left out; the routes and scores may not.
    """
    scores = {p.name for p in pins.files if p.name.startswith("expert_scores/")}
    return all(f.pinned for f in files) and scores <= {f.name for f in files}


def imported_record(
    record: Record, checks: tuple[PublisherCheck, ...], pins: RecordPins
) -> ImportedRecord:
    """Provenance. The commit is named only if every byte is of that commit."""
    files = pinned_files(record, pins)
    return ImportedRecord(
        publisher=pins.publisher,
        repository=pins.repository,
        commit=pins.commit if is_published_record(files, pins) else UNVERIFIED,
        paper=pins.paper,
        licence=pins.licence,
        files=files,
        not_recorded=_not_recorded(record),
        checks=checks,
    )


def model_identity(verified: bool) -> ModelIdentity:
    """The model that the publisher's script names; its revision is not in the record."""
    return ModelIdentity(
        slug="esft-vanilla-lite",
        title="ESFT-vanilla-lite"
        + ("" if verified else " (bytes differ from the publisher's record)"),
        repository="huggingface.co/deepseek-ai/ESFT-vanilla-lite",
        revision="not recorded",
        licence="DeepSeek License Agreement 1.0 (weights; none are used or shown here)",
    )


def routing(record: Record) -> Routing:
    """The part of the architecture that the record itself shows."""
    return Routing(moe_layers=record.layers, n_routed_experts=EXPERTS, num_experts_per_tok=TOP_K)


def title(task: str) -> Bilingual:
    return TITLES.get(task, Bilingual(en=task, zh=task))


def _not_recorded(record: Record) -> tuple[Bilingual, ...]:
    return (
        Bilingual(
            en="The prompts' texts. A prompt is known by its task, line, length and the hash of "
            "its route.",
            zh="提示词的文本。一条提示词只由任务、行号、长度和路由哈希来辨认。",
        ),
        Bilingual(
            en="Token ids. That two positions hold the same token can be suspected from their "
            "routes, not known.",
            zh="token id。两个位置是否为同一 token，只能由路由推测，无法确知。",
        ),
        Bilingual(
            en="How prompts were selected, and whether a line is a question alone or also its "
            "reference answer.",
            zh="提示词如何选取；一行只是问题，还是也包含参考答案。",
        ),
        Bilingual(
            en="The environment: checkpoint revision, hardware, libraries, precision of the "
            "forward pass, batch composition.",
            zh="运行环境：检查点版本、硬件、软件库、前向计算精度、批次构成。",
        ),
        _determinism(record),
        Bilingual(
            en="Gate weights beyond four decimals: equal printed weights are ordered by expert "
            "id here, and a weight of 0.0000 is a small one, not none.",
            zh="四位小数以外的门控权重：印出值相同的权重在此按专家编号排序；"
            "0.0000 表示很小，而不是没有。",
        ),
        Bilingual(
            en="Scores of experts that were not selected, the seventh among them: near ties "
            "cannot be counted.",
            zh="未被选中的专家（包括第七名）的得分：无法统计接近平局的情形。",
        ),
        Bilingual(
            en="Hidden states, the MLA cache and layer 0, which is dense and has no router.",
            zh="隐藏状态、MLA 缓存，以及没有路由器的稠密层第 0 层。",
        ),
    )


def first_position_splits(record: Record) -> tuple[int, ...]:
    """Layers in which the first positions of all prompts do not select the same experts."""
    first_LPK = np.concatenate(
        [task.expert_ids_LNK[:, task.starts_P[:-1]] for task in record.tasks], axis=1
    )
    sets_LPK = np.sort(first_LPK, axis=2)
    same_L = (sets_LPK == sets_LPK[:, :1]).all(axis=(1, 2))
    return tuple(
        layer for layer, same in zip(record.layers, same_L.tolist(), strict=True) if not same
    )


def _determinism(record: Record) -> Bilingual:
    prompts = sum(len(task.lengths_P) for task in record.tasks)
    split, layers = first_position_splits(record), len(record.layers)
    en = "Whether a repeated run gives the same bits. "
    zh = "重复运行是否逐位一致。"
    if not split:
        return Bilingual(
            en=f"{en}The first positions of all {prompts} prompts select the same experts in "
            "every layer, which does not contradict it.",
            zh=f"{zh}全部 {prompts} 条提示词的第一个位置在每一层都选中相同的专家，与此并不矛盾。",
        )
    numbers_en = ", ".join(map(str, split))
    numbers_zh = "、".join(map(str, split))
    return Bilingual(
        en=f"{en}A first position can attend only to itself; the {prompts} prompts' first "
        f"positions select the same experts in {layers - len(split)} of {layers} layers, and "
        f"different ones in layers {numbers_en}. If all start with the same token, near ties "
        "were decided differently from prompt to prompt.",
        zh=f"{zh}第一个位置只能注意到自己；{prompts} 条提示词的第一个位置在 {layers} 层中的 "
        f"{layers - len(split)} 层选中相同的专家，在第 {numbers_zh} 层则不同。"
        "如果它们都以同一个 token 开头，那么接近平局的选择在不同提示词之间结果并不一致。",
    )


def docs() -> Docs:
    """What this record can answer and what it cannot."""
    return Docs(
        answers=(
            Bilingual(
                en="Which experts these prompts selected, in which layer, how often, and with "
                "which mean gate weight.",
                zh="这些提示词在哪一层选中了哪些专家、多少次、平均门控权重是多少。",
            ),
            Bilingual(
                en="How far a load would move if other prompts of the same task's sample were "
                "drawn: intervals resample whole prompts within a task.",
                zh="如果从同一任务的样本中另抽提示词，负载会变化多大：区间在任务内以整条提示词重抽样。",
            ),
            Bilingual(
                en="Percentile or BCa? With many prompts the two agree. With few, resampling "
                "disperses a load further: CV, Gini, top share and divergence come out too high "
                "and effective experts too low, by the bias that stands beside them, and the "
                "percentile interval shifts with it. Then read BCa, which is nearer to what it "
                "claims; with a dozen prompts it is still too narrow. Where BCa is null it is "
                "not defined: read the percentile interval together with its bias.",
                zh="百分位区间还是 BCa 区间？提示词多时两者一致。"
                "提示词少时，重抽样会使负载更加离散：CV、基尼系数、最高份额与散度偏高，"
                "有效专家数偏低，幅度见旁边的偏差，百分位区间也随之偏移。"
                "此时应读 BCa 区间，它更接近所声称的覆盖率；但只有十来条提示词时它仍然偏窄。"
                "BCa 为空表示没有定义，此时百分位区间须连同偏差一起读。",
            ),
            Bilingual(
                en="What taking the token as the unit would do: it is wrong in either direction. "
                "Where prompts differ in subject that interval is too narrow; where they share a "
                "template, so that prompts are more alike than tokens, it is too wide.",
                zh="若以 token 为单位会怎样：两个方向都可能错。提示词主题各异时，该区间过窄；"
                "提示词共用模板、彼此比 token 之间更相似时，它过宽。",
            ),
            Bilingual(
                en="Whether the publisher's printed aggregates follow from the routes: each was "
                "recomputed, see the record's checks.",
                zh="发布者印出的汇总值是否能由路由推出：每一个都重新计算过，见记录的核对项。",
            ),
        ),
        does_not_answer=(
            Bilingual(
                en="Nothing about DeepSeek-V2-Lite as released: this is a fine-tuned model of "
                "its architecture.",
                zh="不能说明已发布的 DeepSeek-V2-Lite：这是同一架构经过微调的模型。",
            ),
            Bilingual(
                en="No significance and no population: the prompts of a task are one sample of "
                "unknown selection that shares templates.",
                zh="不是显著性，也不代表总体：一个任务的提示词是选取方式未知、共用模板的一个样本。",
            ),
            Bilingual(
                en="Not what an expert means or does. A high load is not importance, and gate "
                "mass is not load.",
                zh="不能说明某个专家的含义或作用。负载高不等于重要，门控质量也不是负载。",
            ),
            Bilingual(
                en="No order among layers by expert id: expert 7 of one layer and expert 7 of "
                "another are different parameters.",
                zh="专家编号在层与层之间没有对应：某层的 7 号专家与另一层的 7 号专家是不同的参数。",
            ),
            Bilingual(
                en="Not task difficulty, quality of answers or speed.",
                zh="不能说明任务难度、回答质量或速度。",
            ),
        ),
    )
