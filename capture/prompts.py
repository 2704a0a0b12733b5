"""The four fixed prompts of the trace.

Written for this project: the audits give labels and token counts (26, 18, 19 and 27 with the
official tokenizer, the begin-of-sentence token included) but not the texts. They are probes
that make a run repeatable, not a sample of anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from atlas.contract.base import Bilingual
from atlas.contract.trace import TracePrompt
from capture.errors import Refusal
from capture.tokenizer import Tokenizer


@dataclass(frozen=True)
class FixedPrompt:
    prompt_id: str
    label: Bilingual
    text: str


PROMPTS: tuple[FixedPrompt, ...] = (
    FixedPrompt(
        "zh_explanation",
        Bilingual(en="Chinese explanation", zh="中文解释"),
        "混合专家模型把前馈网络拆成许多专家，路由器为每个词元挑选其中少数几个来计算。",
    ),
    FixedPrompt(
        "en_architecture",
        Bilingual(en="English architecture", zh="英文架构"),
        "Latent attention keeps one small vector per token instead of keys and values per head.",
    ),
    FixedPrompt(
        "code",
        Bilingual(en="Python code", zh="Python 代码"),
        "def mean(values):\n    return sum(values) / len(values)\n",
    ),
    FixedPrompt(
        "math",
        Bilingual(en="Mathematical reasoning", zh="数学推理"),
        "A baker makes 24 rolls and packs 4 rolls in each bag. "
        "How many bags does she need for all rolls?",
    ),
)


def encoded_prompt(prompt: FixedPrompt, tokenizer: Tokenizer) -> TracePrompt:
    """The prompt with its token ids and pieces. Raises Refusal for a text of nothing but space."""
    if not prompt.text.strip():
        raise Refusal(
            where=f"prompt {prompt.prompt_id}", what="empty", expected="some text", found="none"
        )
    ids = tokenizer.encode(prompt.text)
    return TracePrompt(
        prompt_id=prompt.prompt_id,
        label=prompt.label,
        text=prompt.text,
        text_sha256=sha256(prompt.text.encode("utf-8")).hexdigest(),
        token_ids_T=tuple(ids),
        pieces_T=tuple(tokenizer.piece(i) for i in ids),
    )
