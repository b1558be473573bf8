"""Which kernel a note of the metadata is about."""

from __future__ import annotations

__all__ = ["kernel_of_note"]


def kernel_of_note(note: str) -> str:
    """What stands in front of its colon, without a variant's number: the kernel's name in a note on one."""
    return note.partition(":")[0].partition(" #")[0]
