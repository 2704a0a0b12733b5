"""One refusal of the guard."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """File, place in it, and what is wrong."""

    file: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.place}: {self.text}"
