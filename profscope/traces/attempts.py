"""What is worked out of a profile to stand beside it in a file: where that fails, it is saved without.

What was recorded cannot be recorded again; what is worked out can be, by a version that is mended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from profscope.schema import Tables

__all__ = ["attempted", "noted"]

T = TypeVar("T")


def attempted(what: str, work: Callable[[], T], otherwise: T, notes: list[str]) -> T:
    """What `work` returns; where it raises `otherwise`, and a note that says so. what: in the plural."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001  whatever it is, what was recorded is to be saved
        notes.append(f"{what} are left out: working them out failed, {type(error).__name__}: {error}")
        return otherwise


def noted(tables: Tables, notes: list[str]) -> Tables:
    """Tables whose metadata has these notes, too, each once."""
    if not notes:
        return tables
    known = [str(note) for note in tables.metadata.get("notes") or ()]
    return replace(tables, metadata={**tables.metadata, "notes": list(dict.fromkeys([*known, *notes]))})
