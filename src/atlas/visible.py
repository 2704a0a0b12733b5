"""Hostile text made harmless to look at: what cannot be seen is written as its code point.

Escaping is the template's part; this is about control characters, direction marks and lone
surrogates, which would be invalid in HTML or move what stands beside them.
"""

from __future__ import annotations

import re

_RUN = re.compile(r"[^\n\t -~]+")


def visible(character: str) -> str:
    """`character`, or ⟨U+202E⟩ for one that cannot be shown. Line breaks, tabs and the
    ideographic space stay."""
    if character.isprintable() or character in "\n\t\u3000":
        return character
    return f"⟨U+{ord(character):04X}⟩"


def shown(text: str) -> str:
    """`text` with every character as `visible` shows it. Text and runs that need nothing are kept
    whole: character by character this took a tenth of a note's time."""
    if text.replace("\n", "").replace("\t", "").replace("\u3000", "").isprintable():
        return text
    return _RUN.sub(
        lambda run: run[0] if run[0].isprintable() else "".join(map(visible, run[0])), text
    )


def label(text: str) -> str:
    """A label on one line."""
    return "".join(" " if c in "\n\t" else visible(c) for c in text)


def piece(text: str) -> str:
    """The text of a token: spaces as ␣, line breaks as ↵, tabs as ⇥."""
    marks = {" ": "␣", "\n": "↵", "\t": "⇥"}
    return "".join(marks.get(c) or visible(c) for c in text)
