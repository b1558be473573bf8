"""One line of what `profscope doctor` finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["FAILED", "MISSING", "OK", "REFUSED", "Row"]

OK: Final = "ok"
MISSING: Final = "missing"  # not installed, or not in this machine
REFUSED: Final = "refused"  # there, but this process may not use it
FAILED: Final = "failed"  # there, but it does not work


@dataclass(frozen=True)
class Row:
    """state: one of the above. text: for people. facts: the same as JSON values, for programs."""

    state: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        return self.state == OK
