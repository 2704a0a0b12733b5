"""The one kind of error that a user of the build sees: one line, exit code 2."""

from __future__ import annotations


class SiteError(Exception):
    """What the build refuses: what, where, expected, found. Nothing was written."""

    def __init__(self, text: str) -> None:
        # file names and corpora are data: control characters must not reach a terminal
        super().__init__("".join(c if c.isprintable() else "?" for c in text)[:1000])
