"""Two folders change places in one step, where system and file system can."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
"""Of renameat2(2), Linux."""
_RENAME_SWAP = 2
"""Of renamex_np(2), macOS."""


def exchange(first: Path, second: Path) -> bool:
    """Let two folders change names, at once for every other process.

    False where it did not come about, and nothing has changed then; why it did not is for the
    caller's next step to find out.
    """
    names = os.fsencode(first), os.fsencode(second)
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "linux":
            flags = ctypes.c_uint(_RENAME_EXCHANGE)
            result: int = library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], flags)
        else:
            result = library.renamex_np(*names, ctypes.c_uint(_RENAME_SWAP))
    except (AttributeError, OSError, TypeError):
        # no such function, or no C library that could have one
        return False
    return result == 0
