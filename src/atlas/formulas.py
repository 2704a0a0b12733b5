"""LaTeX to MathML when the site is built, so that a page needs no script for a formula."""

from __future__ import annotations

import re
from html import escape

from latex2mathml.converter import convert

_NAMESPACE = ' xmlns="http://www.w3.org/1998/Math/MathML"'
_CODE_POINT = re.compile(r"&#x([0-9A-Fa-f]+);")
_EMPTY = re.compile(r"<(\w+)((?: [^<>]*?)?) ?/>")
_ESCAPED_BRACE = re.compile(r"\\[\\{}]")
_LEFTOVER = re.compile(r"\\(?:[A-Za-z]+|.)")

TAGS = frozenset(
    {
        *("math", "mfrac", "mi", "mn", "mo", "mover", "mpadded", "mphantom", "mroot", "mrow"),
        *("mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr"),
        *("munder", "munderover"),
    }
)
ATTRIBUTES = {
    "math": {"display"},
    "mi": {"mathvariant"},
    "mo": {"fence", "form", "maxsize", "minsize", "movablelimits", "separator", "stretchy"},
    "mspace": {"width"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtable": {"columnalign", "rowspacing", "columnspacing"},
    "mtd": {"columnalign"},
}
"""MathML that a formula may consist of; a page keeps nothing else of it."""


class FormulaError(Exception):
    """A formula that cannot be shown: expected, found."""


def mathml(latex: str, *, block: bool) -> str:
    """MathML of `latex`, as a paragraph of its own if `block`. Raises FormulaError.

    The converter passes what it does not know through as text: here that is an error.
    """
    depth = 0
    for character in _ESCAPED_BRACE.sub("", latex):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            break
    if depth:
        raise FormulaError(f"expected braces in pairs in a formula, found {latex[:60]!r}")
    try:
        made = convert(latex, display="block" if block else "inline")
    except Exception as error:  # the converter has no common class for what it refuses
        kind = type(error).__name__
        raise FormulaError(f"expected a formula in TeX, found {latex[:60]!r} ({kind})") from error
    unknown = _LEFTOVER.search(made)
    if unknown is not None:
        raise FormulaError(f"expected a known TeX command, found {unknown[0]!r}")
    return _spelled(str(made).replace(_NAMESPACE, ""))


def _spelled(made: str) -> str:
    """The same markup as a page writes it: characters as themselves, elements closed by a tag."""
    made = _CODE_POINT.sub(lambda m: escape(chr(int(m[1], 16)), quote=False), made)
    return _EMPTY.sub(r"<\1\2></\1>", made)
