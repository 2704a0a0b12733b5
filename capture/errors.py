"""The one kind of error that a user sees: one line, exit code 2."""

from __future__ import annotations


class Refusal(Exception):
    """Input or environment that the capture refuses.

    Shown as one line, `where: what: expected …, found …`. Whoever raises it has written
    nothing to the output.
    """

    def __init__(
        self, *, where: str, what: str, expected: object = None, found: object = None
    ) -> None:
        parts = []
        if expected is not None:
            parts.append(f"expected {expected}")
        if found is not None:
            parts.append(f"found {found}")
        text = f"{where}: {what}" + (f": {', '.join(parts)}" if parts else "")
        # corpora and file names are data: control characters must not reach a terminal
        super().__init__("".join(c if c.isprintable() else "?" for c in text)[:1000])
