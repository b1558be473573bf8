"""Whether a kernel may wait for what another kernel writes, as its PTX says.

The range profiler runs one kernel at a time: the call that launches a kernel returns when the kernel has
ended. So a kernel that waits for one that is launched later would hang. Such a kernel reads memory in a loop
and leaves the loop by what it has read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["may_wait"]

_LABEL: Final = re.compile(r"(\$?[\w.$]+):")
_REGISTER: Final = re.compile(r"%\w+")
_RESULT: Final = re.compile(r"\s*(?:@!?%\w+\s+)?[a-z][\w.:]*\s+(\{[^}]*\}|[^,;{]+),")
_BRANCH: Final = re.compile(r"(?:@!?(%\w+)\s+)?bra(?:\.uni)?\s+([\w.$]+)\s*;")
# What reads memory that other kernels can write: global, generic, and what has no state space in its name.
_READS: Final = re.compile(r"\b(?:ld|atom)\b(?!\.(?:param|const|shared|local))")
# What carries a value from one thread to another.
_SHARED: Final = re.compile(r"\bld\.shared|\bldmatrix")


@lru_cache(maxsize=256)
def may_wait(ptx: str) -> bool:
    """Whether some loop that reads global memory is left by a value that it has read."""
    statements = [line for line in ptx.splitlines() if line and not line.lstrip().startswith("//")]
    labels = {}
    for at, statement in enumerate(statements):
        if match := _LABEL.match(statement.strip()):
            labels[match[1]] = at
    branches = []
    for at, statement in enumerate(statements):
        if match := _BRANCH.search(statement):
            branches.append((at, match[1], labels.get(match[2], -1)))
    for end, _, begin in branches:
        if 0 <= begin <= end and _left_by_reading(statements, branches, begin, end):
            return True
    return False


def _left_by_reading(
    statements: list[str], branches: list[tuple[int, str | None, int]], begin: int, end: int
) -> bool:
    body = statements[begin : end + 1]
    if not any(_READS.search(statement) for statement in body):
        return False
    ways = [predicate for at, predicate, to in branches if begin <= at <= end and not begin < to <= end]
    leaving = {predicate for predicate in ways if predicate}
    results = [match[1] if (match := _RESULT.match(statement)) else "" for statement in body]
    read: set[str] = set()
    before = -1
    while before != len(read):
        before = len(read)
        for statement, result in zip(body, results, strict=True):
            reads = _READS.search(statement) or _SHARED.search(statement)
            if result and (reads or not read.isdisjoint(_REGISTER.findall(statement))):
                read.update(_REGISTER.findall(result))
    return not leaving.isdisjoint(read)
