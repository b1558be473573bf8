"""Counting PTX on the emulator: beside a bare launch, and in place of what the CUDA driver loads."""

from __future__ import annotations

import ctypes
import dataclasses
from collections import Counter, defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profscope.emulator.launcher import Launch
from profscope.emulator.machine.counts import Totals
from profscope.emulator.machine.memory import GlobalMemory
from profscope.emulator.program import Program, load
from profscope.emulator.ptx_parser import parse
from profscope.emulator.ptx_syntax import Instruction
from profscope.evidence.counted_words import Figures, counted_lines
from profscope.evidence.counting_ptx import COPIES, WORDS, CountingPtx, counting_ptx
from tests.support.hardware import EMULATE, memory_of

_COLUMNS = {"global": "sectors", "shared": "wavefronts"}


class EmulatedKernel:
    """As `dispatch.own_counts.LoadedKernel`, of PTX in place of a cubin."""

    loaded = 0

    def __init__(self, ptx: bytes, name: str, shared_bytes: int, words: int) -> None:
        self.function = load(ptx, name)
        self._words = COPIES * words
        self._variable = next(each for each in self.function.variables if each.name == WORDS)
        memory_of(self._variable)[:] = 0  # programs of one text share it
        type(self).loaded += 1

    def words(self) -> NDArray[np.uint64]:
        return memory_of(self._variable).view(np.uint64)[: self._words].copy()

    def unload(self) -> None:
        type(self).loaded -= 1


@dataclasses.dataclass(frozen=True)
class Counted:
    """What a counting launch has left. blocks, figures: as `counted_lines` gives them. copies: sets of words
    that warps have added to."""

    code: CountingPtx
    copies: int
    blocks: dict[int, tuple[int, int]]
    figures: dict[tuple[int, str, str], Figures]

    def sums(self, space: str) -> tuple[int, int, int]:
        """Of all accesses of a space: lanes, sectors or wavefronts, and the fewest of these."""
        own = [each for (_, _, of), each in self.figures.items() if of == space]
        return sum(f.lanes for f in own), sum(f.taken for f in own), sum(f.ideal for f in own)


def count_launch(launch: Launch, every: int = 1) -> Counted:
    """Run the counting kernel in place of a launch. every: of so many CTAs one counts."""
    code = counting_ptx(launch.program.ptx.decode(), every)
    kernel = EmulatedKernel(code.text.encode(), launch.program.name, 0, code.words)
    EMULATE(_with(launch, kernel.function))
    words = kernel.words()
    copies = np.count_nonzero(words.reshape(COPIES, -1).any(axis=1))
    return Counted(code, copies, *counted_lines(code, words))


def compare_with_bare(launch: Launch) -> Counted:
    """Run a launch bare, and counting on the same memory. Both must leave the same bits, and each line of PTX
    the counts that the emulator has of the bare one."""
    given = [each for each in launch.memory.allocations if each not in launch.program.variables]
    before = [memory_of(each).copy() for each in given]
    totals = _counted_bare(launch)
    bare = [memory_of(each).copy() for each in given]
    for allocation, bits in zip(given, before, strict=True):
        ctypes.memmove(allocation.start, bits.ctypes.data, allocation.size)
    counted = count_launch(launch)
    for allocation, bits in zip(given, bare, strict=True):
        np.testing.assert_array_equal(memory_of(allocation), bits, err_msg=allocation.name)
    blocks, accesses = _by_line(totals, launch.program.ptx.decode())
    of_block = {line: counted.blocks[counted.code.blocks[line - 1]] for line in blocks}
    found = {line: own if blocks[line][1] else (own[0], 0) for line, own in of_block.items()}
    assert found == blocks
    sums: dict[tuple[int, str], Any] = defaultdict(lambda: np.zeros(2, int))
    for (line, _, space), own in counted.figures.items():
        sums[line, space] += own.taken, own.ideal
    assert {key: tuple(map(int, each)) for key, each in sums.items() if any(each)} == accesses
    return counted


def _with(launch: Launch, program: Program) -> Launch:
    memory, others = launch.memory, launch.program.variables
    given = [each for each in memory.allocations if each not in others]
    allocations = GlobalMemory([*given, *program.variables], memory.pointers, memory.elsewhere)
    return dataclasses.replace(launch, program=program, memory=allocations, is_counted=False)


def _counted_bare(launch: Launch) -> Totals:
    device = launch.device
    before, device.counts = device.counts, {}
    try:
        EMULATE(dataclasses.replace(launch, is_counted=True))
        (totals,) = device.counts.values()
    finally:
        device.counts = before
    return totals


def _by_line(
    totals: Totals, ptx: str
) -> tuple[dict[int, tuple[int, int]], dict[tuple[int, str], tuple[int, int]]]:
    """By line of the PTX: how often each of its instructions ran, and the lanes, 0 if a predicate switches
    some off; by line and space of accesses what they took, and the fewest. Functions are inlined: a line has
    one number for each place that calls its function."""
    bodies = (function.body for function in parse(ptx).functions.values())
    of_line = Counter(each.line for body in bodies for each in body if isinstance(each, Instruction))
    columns = totals.columns
    blocks: dict[int, Any] = defaultdict(lambda: np.zeros(2, int))
    accesses: dict[tuple[int, str], Any] = defaultdict(lambda: np.zeros(2, int))
    predicated = set()
    for at, row in enumerate(totals.instructions):
        line = row.instruction.line
        blocks[line] += columns["executed"][at], columns["threads"][at]
        predicated |= {line} if row.predicate >= 0 else set()
        for space, name in _COLUMNS.items():
            if columns[name][at]:
                accesses[line, space] += columns[name][at], columns[f"{name}_ideal"][at]
    each_block = {
        line: (int(own[0]) // of_line[line], 0 if line in predicated else int(own[1]) // of_line[line])
        for line, own in blocks.items()
    }
    return each_block, {key: (int(own[0]), int(own[1])) for key, own in accesses.items()}
