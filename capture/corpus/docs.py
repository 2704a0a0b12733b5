"""What the figures of a captured corpus answer, and what they do not; kept in the file."""

from __future__ import annotations

from atlas.contract.base import Bilingual
from atlas.contract.corpus import Docs

DOCS = Docs(
    answers=(
        Bilingual(
            en="Which routed experts the router of this revision selected, layer by layer, for "
            "exactly these prompts, tokenized and batched exactly like this.",
            zh="在这一固定版本中，针对这些提示、这一分词与批次安排，路由器在每一层选择了哪些路由专家。",
        ),
        Bilingual(
            en="How far each figure moves when the prompts of a domain are drawn again from the "
            "prompts at hand, each prompt being one unit.",
            zh="以提示为单位、在每个文本域内部重新抽取现有提示时，各项数字会变动多少。",
        ),
        Bilingual(
            en="Whether a figure depends on long prompts: tokens weighted alike and prompts "
            "weighted alike stand side by side.",
            zh="数字是否受长提示左右：按词元加权与按提示均衡两种口径并列给出。",
        ),
    ),
    does_not_answer=(
        Bilingual(
            en="Whether two domains differ significantly: an interval is no test, there is no "
            "null distribution, and many comparisons stand next to each other uncorrected.",
            zh="两个文本域的差异是否显著：区间不是检验，这里没有零假设分布，众多比较也未作多重校正。",
        ),
        Bilingual(
            en="The load in training, in serving, or over any population of texts: the prompts "
            "are probes, not a sample of one.",
            zh="训练、线上服务或任何文本总体中的负载：这些提示是探针，不是某个总体的样本。",
        ),
        Bilingual(
            en="What an expert means. An expert id names parameters of one layer; the same id in "
            "another layer names other parameters.",
            zh="某个专家“代表”什么。专家编号只在其所在层内有意义，另一层的同号专家是另一组参数。",
        ),
        Bilingual(
            en="Why loads differ: length, tokenization, format and shared prefixes differ between "
            "the domains along with their subject.",
            zh="负载为何不同：各文本域除题材外，长度、分词、格式与公共前缀也都不同。",
        ),
        Bilingual(
            en="Anything about layers beyond the stop line, answers, quality or speed.",
            zh="停止线之后的层、回答内容、质量或速度，均不在此列。",
        ),
    ),
)
