"""Detects kernels that may wait for a value that another kernel writes.

The range profiler runs one kernel at a time: the call that launches a kernel returns when the kernel has
ended. So a kernel that waits for a later launch would hang. Such a kernel leaves a loop by a value read from
global memory inside it, and reads the same address again until then. A loop whose address moves with each
iteration, whatever it reads, does not wait.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["may_wait"]

_LABEL: Final = re.compile(r"(\$?[\w.$]+):")
_REGISTER: Final = re.compile(r"%\w+")
_RESULT: Final = re.compile(r"\s*(?:@!?%\w+\s+)?[a-z][\w.:]*\s+(\{[^}]*\}|[^,;{]+),")
_JUMP: Final = re.compile(r"(?:@!?(%\w+)\s+)?(?:bra(?:\.uni)?\s+([\w.$]+)|ret|exit)\s*;")
# What reads memory that other kernels can write: global, generic, and what has no state space in its name.
# Not `ld.global.nc`, of what nobody writes meanwhile (NVIDIA, "PTX ISA"), as the tables of `sin` and `cos`.
_READS: Final = re.compile(r"\b(?:ld|atom)\b(?!\.(?:param|const|shared|local|global\.nc))")
_PLAIN: Final = re.compile(r"\bld\.global(?!\.(?:volatile|relaxed|acquire))[^\[]*\[([^\]]*)\]")
# What carries a value from one thread to another.
_SHARED: Final = re.compile(r"\bld\.shared|\bldmatrix")
_OUT: Final = -1  # in place of a block: behind the end of the function


class _Statement(NamedTuple):
    """registers: all that it names; results, operands: those of them that it writes, and what it makes these
    of, without a predicate."""

    text: str
    registers: frozenset[str]
    results: tuple[str, ...]
    operands: tuple[str, ...]

    @staticmethod
    def of(text: str) -> _Statement:
        match = _RESULT.match(text)
        results = tuple(_REGISTER.findall(match[1])) if match else ()
        operands = tuple(_REGISTER.findall(text, match.end() if match else 0))
        return _Statement(text, frozenset(_REGISTER.findall(text)), results, operands)

    @property
    def reads(self) -> bool:
        return _READS.search(self.text) is not None


class _Block(NamedTuple):
    """follows: the blocks that may run next; condition: the register which of them depends on, or ""."""

    statements: list[_Statement]
    follows: list[int]
    condition: str


class _Loop(NamedTuple):
    """header: the block that it is entered by; latches: those that go back there; body: all of its blocks."""

    header: int
    latches: set[int]
    body: set[int]


@lru_cache(maxsize=256)
def may_wait(ptx: str) -> bool:
    """Whether a kernel with this PTX may wait for what another kernel writes."""
    blocks = _blocks(ptx)
    return any(_left_by_reading(blocks, loop) for loop in _loops(blocks))


def _blocks(ptx: str) -> list[_Block]:
    parts: list[list[_Statement]] = [[]]
    labels, jumps = {}, {}
    for statement in ptx.splitlines():
        if label := _LABEL.match(statement.strip()):
            if parts[-1]:
                parts.append([])
            labels[label[1]] = len(parts) - 1
        elif jump := _JUMP.search(statement.partition("//")[0]):
            jumps[len(parts) - 1] = jump
            parts.append([])
        elif statement and not statement.lstrip().startswith("//"):
            parts[-1].append(_Statement.of(statement))
    blocks = []
    for at, statements in enumerate(parts):
        behind = at + 1 if at + 1 < len(parts) else _OUT
        condition, target = jumps[at].groups("") if at in jumps else ("", "")
        follows = [labels.get(target, _OUT)] * (at in jumps) + [behind] * (at not in jumps or bool(condition))
        blocks.append(_Block(statements, follows, condition))
    return blocks


def _loops(blocks: Sequence[_Block]) -> Iterator[_Loop]:
    """Natural loops: those that are entered by one block, as compilers make them."""
    before = defaultdict(set)
    for at, block in enumerate(blocks):
        for behind in block.follows:
            before[behind].add(at)
    latches = defaultdict(set)
    for latch, header in _back_edges(blocks):
        latches[header].add(latch)
    for header, own in latches.items():
        body, left = {header}, list(own)
        while left:
            if (at := left.pop()) not in body:
                body.add(at)
                left += before[at]
        yield _Loop(header, own, body)


def _back_edges(blocks: Sequence[_Block]) -> Iterator[tuple[int, int]]:
    """Those to a block on the way to which they are."""
    seen: set[int] = set()
    for start in range(len(blocks)):
        way, todo = set[int](), [(start, False)]
        while todo:
            at, is_done = todo.pop()
            if is_done:
                way.discard(at)
            elif at not in seen:
                seen.add(at)
                way.add(at)
                todo.append((at, True))
                for behind in blocks[at].follows:
                    if behind in way:
                        yield at, behind
                    elif behind != _OUT:
                        todo.append((behind, False))


class _Body(NamedTuple):
    """statements: of a loop; sometimes: those of them that do not run in each iteration; conditions: of its
    branches."""

    statements: list[_Statement]
    sometimes: list[_Statement]
    conditions: set[str]


def _left_by_reading(blocks: Sequence[_Block], loop: _Loop) -> bool:
    own = [blocks[at] for at in sorted(loop.body)]
    leaving = {b.condition for b in own if b.condition and not loop.body.issuperset(b.follows)}
    statements = [statement for block in own for statement in block.statements]
    reads = [each for each in statements if each.reads]
    if not leaving or not reads:
        return False
    always = _always(blocks, loop)
    sometimes = [each for at in loop.body - always for each in blocks[at].statements]
    body = _Body(statements, sometimes, {block.condition for block in own})
    moving = _moving(body, _read(body, reads))
    again = [each for each in reads if not _reads_next(each, moving)]
    return bool(again) and not leaving.isdisjoint(_read(body, again))


def _always(blocks: Sequence[_Block], loop: _Loop) -> set[int]:
    """The blocks of a loop that each iteration runs: those at which no way leads past them, if each block is
    looked at behind those that lead to it."""
    order = _in_order(blocks, loop)
    place = {at: number for number, at in enumerate(order)}
    found, ahead = set[int](), {loop.header}
    for at in order:
        found |= ahead & {at} if len(ahead) == 1 else set()
        ahead.discard(at)
        for behind in blocks[at].follows:
            if behind == loop.header:
                ahead.add(_OUT)  # the iteration ends here
            elif place.get(behind, _OUT) > place[at]:
                ahead.add(behind)
    return found


def _in_order(blocks: Sequence[_Block], loop: _Loop) -> list[int]:
    """The blocks of a loop, each behind those that lead to it, but for ways back."""
    found: list[int] = []
    seen, todo = set[int](), [(loop.header, False)]
    while todo:
        at, is_done = todo.pop()
        if is_done:
            found.append(at)
        elif at not in seen and at in loop.body:
            seen.add(at)
            todo.append((at, True))
            todo += [(behind, False) for behind in blocks[at].follows]
    return found[::-1]


def _reads_next(statement: _Statement, moving: Collection[str]) -> bool:
    """Whether it reads another place in each iteration."""
    plain = _PLAIN.search(statement.text)
    return plain is not None and any(register in moving for register in _REGISTER.findall(plain[1]))


def _read(body: _Body, reads: Iterable[_Statement]) -> set[str]:
    """The registers whose values depend on what some statements read, or on what other threads do."""
    begin = [*reads, *(each for each in body.statements if _SHARED.search(each.text))]
    found = _dependent(body.statements, _all_results(begin))
    if body.conditions.isdisjoint(found):
        return found
    return _dependent(body.statements, found | _all_results(body.sometimes))


def _dependent(statements: Sequence[_Statement], on: Collection[str]) -> set[str]:
    found, before = set(on), -1
    while before != len(found):
        before = len(found)
        for statement in statements:
            if not found.isdisjoint(statement.registers):
                found.update(statement.results)
    return found


def _moving(body: _Body, read: Collection[str]) -> set[str]:
    """Registers that have another value in each iteration, whatever is read."""
    needs: dict[str, set[str]] = defaultdict(set)
    for statement in body.statements:
        for result in statement.results:
            needs[result].update(statement.operands)
    known = needs.keys() - read - _all_results(body.sometimes)
    counters = {register for register in known if register in _reached(register, needs, known)}
    return _dependent(body.statements, counters).difference(read)


def _reached(register: str, needs: Mapping[str, Collection[str]], known: Collection[str]) -> set[str]:
    """What its value follows from, by way of known registers."""
    found, left = set[str](), [register]
    while left:
        for other in needs[left.pop()]:
            if other in known and other not in found:
                found.add(other)
                left.append(other)
    return found


def _all_results(statements: Iterable[_Statement]) -> set[str]:
    return {register for each in statements for register in each.results}
