"""Test files that say which errors they expect, as mlir-opt has it: `// expected-error @+1 {{text}}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from instrument_passes.errors import IRError

__all__ = ["Expected", "expected_errors", "mismatches"]

_COMMENT: Final = re.compile(r"//\s*expected-(\w+)\s*(@\S+)?\s*\{\{(.*?)\}\}")
_RELATIVE: Final = re.compile(r"@([+-]\d+)")
_NAMED: Final = {"@above": -1, "@below": 1}


@dataclass(frozen=True)
class Expected:
    """An error that must come from line `line` with `text` in its message."""

    line: int
    text: str


def expected_errors(text: str, file: str) -> list[Expected]:
    """What the comments of a file expect. Raises IRError for a comment that cannot be read."""
    expected = []
    for number, line in enumerate(text.split("\n"), start=1):
        for kind, where, message in _COMMENT.findall(line):
            relative = _RELATIVE.fullmatch(where)
            if kind != "error" or not (relative or where in _NAMED or not where):
                raise IRError(
                    f"cannot read 'expected-{kind} {where}': expected-error @+N {{{{text}}}}", file, number
                )
            offset = int(relative[1]) if relative else _NAMED.get(where, 0)
            expected.append(Expected(number + offset, message))
    return expected


def mismatches(expected: Sequence[Expected], raised: Sequence[IRError], file: str) -> list[IRError]:
    """Errors that were not expected, and for every one that was expected and did not come, an error."""
    missing = list(expected)
    surplus = []
    for error in raised:
        match = next((e for e in missing if e.line == error.line and e.text in error.message), None)
        if match is None:
            surplus.append(IRError(f"unexpected error: {error.message}", error.file, error.line))
        else:
            missing.remove(match)
    return surplus + [IRError(f"expected error {e.text!r} was not raised", file, e.line) for e in missing]
