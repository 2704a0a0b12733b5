"""Which prompts run: hash order, a minimum length, the first so many of each domain.

Candidates of a domain are ordered by SHA256("salt|domain|source_id") in hexadecimal, then by
source_id. No random generator and no file order takes part, so a selection can be found again
from the pinned files alone. Lengths are in tokens after truncation, special tokens included.

This picks probe texts. It samples no population, and nothing may be concluded from it about
training data or live traffic.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from atlas.contract.base import Bilingual
from atlas.contract.corpus import Domain, DomainSelection, Selection, Source
from atlas.contract.selection import SelectedPrompt
from capture.corpus.sources import CorpusText, Reading
from capture.errors import Refusal
from capture.tables import table

SALT = "llm-atlas-deepseek-routing-v1"
PER_DOMAIN = 32
MAXIMUM_TOKENS = 96
BATCH_SIZE = 16
ORDER = "SHA256(salt|domain|source_id) in hexadecimal, then source_id"
BATCH_ORDER = "tokens, domain, source_id"

Encode = Callable[[str], Sequence[int]]
"""Text to token ids with special tokens (the BOS id first)."""


@dataclass(frozen=True)
class DomainRule:
    """A text domain of the experiment and the fewest tokens that a prompt of it may have."""

    domain: str
    title: Bilingual
    minimum_tokens: int


DOMAINS = (
    DomainRule(
        "en_encyclopedia", Bilingual(en="English encyclopedia", zh="英文百科"), minimum_tokens=24
    ),
    DomainRule("zh_news", Bilingual(en="Chinese news", zh="中文新闻"), minimum_tokens=8),
    DomainRule("code", Bilingual(en="Python code", zh="Python 代码"), minimum_tokens=24),
    DomainRule("math", Bilingual(en="Grade-school mathematics", zh="小学数学"), minimum_tokens=16),
)
RULES = {rule.domain: rule for rule in DOMAINS}


@dataclass(frozen=True)
class PickedPrompt:
    """One prompt that runs.

    `text` is the whole text, `token_ids` [T] are truncated; `text_sha256` and `characters`
    (code points) are of the whole text; `rank` is its place in the domain's order, from 0.
    """

    domain: str
    source_id: str
    rank: int
    text: str
    text_sha256: str
    characters: int
    token_ids: tuple[int, ...]

    @property
    def prompt_id(self) -> str:
        return f"{self.domain}/{self.rank:03d}"

    @property
    def tokens(self) -> int:
        return len(self.token_ids)

    @property
    def record(self) -> SelectedPrompt:
        """Identity and lengths, as files keep them: without the text."""
        return SelectedPrompt(
            prompt_id=self.prompt_id,
            domain=self.domain,
            source_id=self.source_id,
            rank=self.rank,
            characters=self.characters,
            tokens=self.tokens,
            text_sha256=self.text_sha256,
        )


@dataclass(frozen=True)
class DomainPick:
    """The selection of one domain; `prompts` in rank order."""

    rule: DomainRule
    source: Source
    selection: DomainSelection
    prompts: tuple[PickedPrompt, ...]

    @property
    def record(self) -> Domain:
        """The domain as the dataset holds it."""
        return Domain(
            domain=self.rule.domain,
            title=self.rule.title,
            prompts=self.selection.picked,
            tokens=self.selection.tokens,
            source=self.source,
            selection=self.selection,
        )


def select(
    readings: Iterable[Reading],
    encode: Encode,
    *,
    salt: str = SALT,
    per_domain: int = PER_DOMAIN,
    maximum_tokens: int = MAXIMUM_TOKENS,
) -> tuple[DomainPick, ...]:
    """Pick the prompts of each source's domain; the result is in the order of DOMAINS.

    Raises Refusal for a domain that is unknown or given twice, a repeated source_id, or fewer
    than `per_domain` texts that are long enough. Texts may repeat.
    """
    by_domain: dict[str, Reading] = {}
    for reading in readings:
        if reading.domain not in RULES or reading.domain in by_domain:
            raise Refusal(
                where="corpus",
                what="domains",
                expected=f"each of {', '.join(RULES)} at most once",
                found=reading.domain,
            )
        by_domain[reading.domain] = reading
    return tuple(
        _pick(rule, by_domain[rule.domain], encode, salt, per_domain, maximum_tokens)
        for rule in DOMAINS
        if rule.domain in by_domain
    )


def selection_key(salt: str, domain: str, source_id: str) -> str:
    """SHA256("salt|domain|source_id") as 64 hexadecimal digits."""
    return sha256(f"{salt}|{domain}|{source_id}".encode()).hexdigest()


def selection_record(
    *,
    salt: str = SALT,
    per_domain: int = PER_DOMAIN,
    maximum_tokens: int = MAXIMUM_TOKENS,
    batch_size: int = BATCH_SIZE,
) -> Selection:
    """How prompts were picked and batched, as the dataset holds it."""
    return Selection(
        salt=salt,
        order=ORDER,
        per_domain=per_domain,
        maximum_tokens=maximum_tokens,
        special_tokens=True,
        truncation="right",
        batch_size=batch_size,
        batch_order=BATCH_ORDER,
        padding="right",
    )


def selection_table(picks: Sequence[DomainPick]) -> str:
    """The selection as an aligned text table, one line per domain and a total."""
    counts = [
        (s.candidates, s.long_enough, s.picked, s.tokens) for s in (p.selection for p in picks)
    ]
    total = [sum(column) for column in zip(*counts, strict=True)]
    rows: list[tuple[str, ...]] = [
        (pick.rule.domain, str(pick.rule.minimum_tokens), *(f"{n:,}" for n in row))
        for pick, row in zip(picks, counts, strict=True)
    ]
    rows.append(("total", "", *(f"{n:,}" for n in total)))
    return table(("domain", "minimum", "candidates", "long enough", "picked", "tokens"), rows)


def _pick(
    rule: DomainRule,
    reading: Reading,
    encode: Encode,
    salt: str,
    per_domain: int,
    maximum_tokens: int,
) -> DomainPick:
    if per_domain < 1:
        raise Refusal(where=rule.domain, what="per domain", expected="1 or more", found=per_domain)
    if maximum_tokens < rule.minimum_tokens:
        raise Refusal(
            where=rule.domain,
            what="maximum tokens",
            expected=f"at least the domain's minimum of {rule.minimum_tokens}",
            found=maximum_tokens,
        )
    seen: set[str] = set()
    long_enough = 0

    def ordered() -> Iterator[tuple[str, CorpusText, tuple[int, ...]]]:
        nonlocal long_enough
        for candidate in reading.texts():
            if candidate.source_id in seen:
                raise Refusal(
                    where=rule.domain, what="source_id found twice", found=candidate.source_id
                )
            seen.add(candidate.source_id)
            token_ids = tuple(encode(candidate.text)[:maximum_tokens])
            if len(token_ids) >= rule.minimum_tokens:
                long_enough += 1
                key = selection_key(salt, rule.domain, candidate.source_id)
                yield key, candidate, token_ids

    # source_ids differ, so neither texts nor token ids ever decide; only per_domain are kept
    first = heapq.nsmallest(per_domain, ordered(), key=lambda item: (item[0], item[1].source_id))
    if len(first) < per_domain:
        raise Refusal(
            where=rule.domain,
            what=f"texts of at least {rule.minimum_tokens} tokens",
            expected=f"{per_domain} or more",
            found=f"{long_enough} of {len(seen)} candidates",
        )
    prompts = tuple(
        PickedPrompt(
            domain=rule.domain,
            source_id=text.source_id,
            rank=rank,
            text=text.text,
            text_sha256=sha256(text.text.encode()).hexdigest(),
            characters=len(text.text),
            token_ids=token_ids,
        )
        for rank, (_, text, token_ids) in enumerate(first)
    )
    counts = DomainSelection(
        minimum_tokens=rule.minimum_tokens,
        candidates=len(seen),
        long_enough=long_enough,
        picked=len(prompts),
        tokens=sum(prompt.tokens for prompt in prompts),
    )
    return DomainPick(rule, reading.source, counts, prompts)
