"""Which kernel a note of the metadata is about."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["UNSEEN", "kernel_of_note"]

UNSEEN: Final = "no launch of a Triton kernel was seen"
"""A session's note that says no more than that."""

_RANKS: Final = re.compile(r"(?:rank [\d, ]+|each of \d+ ranks): ")


def kernel_of_note(note: str) -> str:
    """What stands in front of its colon, without a variant's number: the kernel's name in a note on one. The
    ranks that it is of may stand before that."""
    return _RANKS.sub("", note, count=1).partition(":")[0].partition(" #")[0]
