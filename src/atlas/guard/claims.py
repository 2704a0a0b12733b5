"""Text that figures cannot carry, zh and en.

Three kinds are refused: an expert without its layer, a claim that gives an expert a meaning,
and an interval read as a test. Text inside a "cannot say" block may name what cannot be said,
but an expert id keeps its layer even there.

The rules look for wordings, so they are a net and no proof: they catch what a writer would
write by habit. Text is compared after NFKC (full-width letters and digits become plain ones)
and without characters that nobody sees.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")

_EXPERT = r"(?<![A-Za-z0-9_·/.+-])E\s?\d{1,5}(?![A-Za-z0-9_])"
_LAYER_NEAR = re.compile(r"\blayer\s*\d+|第\s*\d+\s*层|\bL\d+\b", re.IGNORECASE)

BARE_ID = re.compile(_EXPERT)
NUMBERED = re.compile(
    r"\bexpert\s+(?:no\.?\s*|number\s+|id\s+|#\s*)?\d+\b(?!\s*(?:%|experts|\.\d))"
    r"|(?<!\d)\d+\s*号\s*专家|专家\s*(?:编号)?\s*#?\s*\d+\s*号|专家\s*#\s*\d+",
    re.IGNORECASE,
)

_TOPICS = (
    r"math(?:s|ematics|ematical)?|arithmetic|number|code|coding|python|programming|chinese|english|"
    r"language|law|legal|translation|translator|summary|summari[sz]ation|intent|news|syntax|"
    r"grammar|punctuation|domain|topic|knowledge|reasoning|semantic|entity|vision"
)
_NAMED = r"(?:L\d+·E\d+|(?:this|that|the|one|each|an?|its|top)\s+expert|experts?)"
_VERBS = (
    r"speciali[sz]es?|speciali[sz]ed|understands?|knows?|knew|handles?|deals? with|"
    r"(?:is|are) responsible for|(?:has|have)? ?learn(?:s|ed|t)|stores?|encodes?|detects?|"
    r"recogni[sz]es?|represents?|focus(?:es)? on|(?:is|are) (?:dedicated|devoted) to|"
    r"(?:is|are) in charge of|(?:is|are) good at|means?|stands? for"
)
MEANING = re.compile(
    rf"\b(?:{_TOPICS})[- ]+(?:specialist\s+)?experts?\b"
    rf"|\bexperts?\s+(?:for|on|in)\s+(?:{_TOPICS})\b"
    rf"|\b{_NAMED}\s+(?:\w+ly\s+|also\s+)?(?:{_VERBS})\b"
    r"|(?:数学|算术|数字|代码|编程|程序|中文|英文|英语|语言|法律|翻译|摘要|意图|新闻|语法|标点|知识|"
    r"领域|推理|语义|主题|实体)\s*[”\"」]?\s*(?:类|型|领域)?专家"
    r"|(?:L\d+·E\d+|专家)[^。；！？\n]{0,12}?(?:专门负责|负责|擅长|精通|学会|学到|理解|懂得|专攻|专精|"
    r"专长|专门处理|识别出|编码了|存储了|意味着)",
    re.IGNORECASE,
)
TEST = re.compile(
    r"\bsignifican(?:t|tly|ce)\b|\bp\s*[<=>≤≥]\s*0?\.\d|\bp-values?\b|\bnull hypothes[ie]s\b"
    r"|\breject(?:s|ed)?\s+(?:the\s+)?(?:null|hypothesis|equality)"
    r"|\bstatistically\s+(?:different|distinct|equal|reliable|proven)\b"
    r"|\bintervals?\s+(?:that\s+)?(?:excludes?|do(?:es)? not (?:contain|include|overlap)|"
    r"without|not containing)\b[^.;!?]{0,60}?\b(?:so|therefore|hence|thus|which|proves?|means?|"
    r"confirms?|demonstrates?)\b"
    r"|\b(?:proves?|confirms?|demonstrates?)\b[^.;!?]{0,40}?\bintervals?\s+(?:excludes?|"
    r"do(?:es)? not)\b"
    r"|显著|[pP]\s*值|零假设|原假设|拒绝[^。；]{0,6}假设|统计(?:上|学上)?(?:有差异|可靠|不同)"
    r"|区间(?:都|均)?(?:不含|不包含|排除|不重叠|互不重叠)[^。；]{0,24}?(?:因此|所以|故|说明|证明|表明|"
    r"意味着)",
    re.IGNORECASE,
)

_EXPERT_WORDS = re.compile("expert|专家")
_AN_EXPERT_AND_WORDS = re.compile("·e.*(?:[a-z]{4}|[\u4e00-\u9fff]{2})")
_TEST_WORDS = re.compile(
    "significan|value|hypothes|reject|statistical|interval|prove|confirm|demonstrate|[<=>≤≥]"
    "|显著|值|假设|统计|区间"
)


def may_speak_of_experts(low: str) -> bool:
    """Whether NUMBERED and MEANING can match a text, given its small letters. Nearly all texts
    of the site are numbers and labels: to look for words first takes a tenth of the time."""
    return bool(_EXPERT_WORDS.search(low) or _AN_EXPERT_AND_WORDS.search(low))


def may_speak_of_tests(low: str) -> bool:
    """Whether TEST can match a text, given its small letters."""
    return bool(_TEST_WORDS.search(low))


def plain(text: str) -> str:
    """`text` as the rules see it."""
    if not text.isascii():
        text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
    return " ".join(text.split())


def small(text: str) -> str:
    """`text` in small letters; what a rule that ignores case takes for an i becomes one."""
    low = text.lower()
    return low if low.isascii() else low.replace("ı", "i").replace("\u0307", "")


# labels, headings and cells come again and again, in both languages and on page after page
@lru_cache(maxsize=1 << 16)
def said_problems(text: str, cannot_say: bool) -> tuple[str, ...]:
    """Problems of what one sentence or label says, as messages.

    A "cannot say" block may speak of numbers (`expert 7 of one layer …`) and of meanings, and
    still writes an id with its layer.
    """
    text = plain(text)
    low = small(text)
    found = []
    bare = BARE_ID.search(text)
    if bare is not None:
        found.append(f"expert without its layer: {_around(text, bare)!r}")
    if cannot_say:
        return tuple(found)
    if may_speak_of_experts(low):
        numbered = _numbered(text) if bare is None else None
        if numbered is not None:
            found.append(f"expert without its layer: {_around(text, numbered)!r}")
        meaning = MEANING.search(text)
        if meaning is not None:
            found.append(f"a claim that gives an expert a meaning: {_around(text, meaning)!r}")
    test = TEST.search(text) if may_speak_of_tests(low) else None
    if test is not None:
        found.append(f"an interval read as a test: {_around(text, test)!r}")
    return tuple(found)


def _numbered(text: str) -> re.Match[str] | None:
    """The first expert with a number and no layer in its sentence."""
    for match in NUMBERED.finditer(text):
        start = max((text.rfind(c, 0, match.start()) for c in ".;!?。；！？"), default=-1)
        ends = [e for c in ".;!?。；！？" if (e := text.find(c, match.end())) >= 0]
        if not _LAYER_NEAR.search(text[start + 1 : min(ends, default=len(text))]):
            return match
    return None


def _around(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - 24) : match.end() + 24]
