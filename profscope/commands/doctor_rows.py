"""The rows of `profscope doctor`, and the processes that make them, which may crash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from profscope.experiments.worker_processes import Worker, WorkerError

__all__ = ["FAILED", "MISSING", "OK", "REFUSED", "Row", "answers"]

_LONGEST_S: Final = 120.0  # of a check: importing torch from a slow disk
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


def answers(names: Iterable[str], program: str) -> dict[str, Row]:
    """The results of the checks of these names, in a process that lasts until one of them ends it."""
    found: dict[str, Row] = {}
    worker = Worker(program)
    for name in names:
        try:
            found[name] = Row(**worker.ask(name, _LONGEST_S))
        except WorkerError as error:
            found[name] = Row(FAILED, f"the check {error}")
    worker.stop()
    worker.close()
    return found
