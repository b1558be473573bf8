"""Keeps the wait for loaded data out of the span of the load.

Triton unpacks loaded data right behind the load, ahead of the clock read that ends its span. If that takes an
instruction, the warp waits for the data before it reads the clock. So in the LLVM IR that the optimiser has
left, data that are unpacked right ahead of a clock read are unpacked where they are first used instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["unpacked_late"]

_READS_CLOCK: Final = re.compile(r' asm sideeffect "(?:@\$1 )?mov\.u32 \$0, %clock;"')
_UNPACKS: Final = re.compile(r"^  %[\w.$-]+ = (?:bitcast|extractelement|extractvalue|trunc) ")
_RESULT: Final = re.compile(r"^  (%[\w.$-]+) = ")
_NAME: Final = re.compile(r"%[\w.$-]+")
_NUMBER: Final = re.compile(r"%(\d+)\b")
_ENDS_BLOCK: Final = re.compile(r"^  (?:br|switch|indirectbr|ret|unreachable)\b")
_LABEL: Final = re.compile(r"^[\w.$-]+:")


def unpacked_late(text: str) -> str:
    """A module of LLVM IR whose clock reads do not wait for what is unpacked ahead of them.

    Values without a name are numbered in the order of the lines, so they get other numbers.
    """
    if _READS_CLOCK.search(text) is None:
        return text
    lines: list[str] = []
    for function in _functions(text.splitlines(keepends=True)):
        moved = [line for block in _blocks(function) for line in _sunk(block)]
        lines += moved if moved == function else _numbered(moved, function)
    return "".join(lines)


def _functions(lines: list[str]) -> Iterator[list[str]]:
    """A module's lines, in pieces: the body of each function is one, what stands between them another."""
    first = 0
    for at, line in enumerate(lines):
        if line.startswith(("define ", "}")):
            yield lines[first:at]
            first = at
    yield lines[first:]


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    first = 0
    for at, line in enumerate(lines):
        if _LABEL.match(line):
            yield lines[first:at]
            first = at
    yield lines[first:]


def _sunk(block: list[str]) -> list[str]:
    """A block's lines. Those that unpack right ahead of a clock read come before their first use, or last."""
    held: dict[str, str] = {}  # by result, lines that wait for their use
    ahead: list[str] = []  # those that unpack, up to here
    lines: list[str] = []

    def put(line: str) -> None:
        for name in _NAME.findall(line.partition(" = ")[2] or line):
            if name in held:
                put(held.pop(name))
        lines.append(line)

    for line in block:
        if _UNPACKS.match(line):
            ahead.append(line)
            continue
        if _READS_CLOCK.search(line):
            held |= {_result(each): each for each in ahead}
        else:
            for each in ahead:
                put(each)
        ahead = []
        if _ENDS_BLOCK.match(line):
            while held:
                put(held.pop(next(iter(held))))
        put(line)
    return block if held or ahead else lines


def _result(line: str) -> str:
    match = _RESULT.match(line)
    assert match is not None
    return match[1]


def _numbered(moved: list[str], before: list[str]) -> list[str]:
    """Lines of a function, numbered as LLVM wants it, which were in another order before."""
    order = [match[1] for line in before if (match := _RESULT.match(line)) and match[1][1:].isdecimal()]
    now = [match[1] for line in moved if (match := _RESULT.match(line)) and match[1][1:].isdecimal()]
    names = dict(zip(now, order, strict=True))
    return [_NUMBER.sub(lambda match: names.get(match[0], match[0]), line) for line in moved]
