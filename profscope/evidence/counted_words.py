"""The words that a counting kernel leaves, as counts of the bare binary's instructions.

The instructions of a basic block of SASS have run as often as the block of PTX that most of them come from,
its accesses above all. If ptxas has made several copies of that block, as it does to unroll a loop, each has
its part. So what ptxas adds itself, such as spills, is counted, too.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profscope.binaries.rows import Row
from profscope.emulator.machine.transactions import LINE, SECTOR
from profscope.evidence.counting_ptx import COPIES, HIGH, Access, CountingPtx
from profscope.evidence.metrics import COUNTS

__all__ = ["Figures", "counted_lines", "counts_of"]

Ints = NDArray[np.int64]
Key = tuple[int, str, str]
"""PTX line, kind and space of accesses."""

_LOW: Final = (1 << HIGH) - 1
_MADE: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("ld", "global"): frozenset({"LDG"}),
    ("st", "global"): frozenset({"STG"}),
    ("atom", "global"): frozenset({"ATOM", "ATOMG", "RED", "REDG"}),
    ("red", "global"): frozenset({"ATOM", "ATOMG", "RED", "REDG"}),
    ("cp", "global"): frozenset({"LDGSTS"}),
    ("cp", "shared"): frozenset({"LDGSTS"}),
    ("ld", "shared"): frozenset({"LDS"}),
    ("st", "shared"): frozenset({"STS"}),
    ("atom", "shared"): frozenset({"ATOMS"}),
    ("red", "shared"): frozenset({"ATOMS"}),
    ("ldmatrix", "shared"): frozenset({"LDSM"}),
    ("stmatrix", "shared"): frozenset({"STSM"}),
}
"""By kind and space of an access, the opcodes that it becomes."""
_LOCAL: Final = ("LDL", "STL")
_STEERING: Final = frozenset(
    {
        "BRA", "BSSY", "BSYNC", "CS2R", "IADD3", "IMAD", "ISETP", "LDC", "LDCU", "MOV", "NOP", "PLOP3",
        "R2UR", "S2R", "UIADD3", "UIMAD", "UISETP", "ULDC", "UMOV", "UPLOP3", "VIADD",
    }
)  # fmt: skip
"""Opcodes that count the copies of a loop and branch between them, at the lines of other instructions."""
_OF_ACCESS: Final = 4  # votes
_WGMMA: Final = re.compile(r"[HIQ]GMMA\.64x(\d+)x\d+")
_A_IN_REGISTERS: Final = re.compile(r"GMMA\S*\s+R\d+,\s*R")
_ROWS, _K_BYTES, _WARPS = 64, 32, 4  # of wgmma: rows of A, bytes of a row, and warps that share it


@dataclass(frozen=True)
class Figures:
    """Of all accesses of a kind and space at a PTX line: how many they are, and what they have moved: `taken`
    and `ideal` are sectors or wavefronts."""

    accesses: int
    lanes: int
    taken: int
    ideal: int


def counted_lines(
    code: CountingPtx, words: NDArray[np.uint64]
) -> tuple[dict[int, tuple[int, int]], dict[Key, Figures]]:
    """words: all copies. By word of a block, its warps and lanes; by PTX line, kind and space of accesses
    their figures."""
    copies = words.reshape(COPIES, code.words)
    high = (copies >> np.uint64(HIGH)).sum(axis=0).astype(np.int64)
    low = (copies & np.uint64(_LOW)).sum(axis=0).astype(np.int64)
    blocks = {block: (int(high[block]), int(low[block])) for block in set(code.blocks) - {-1}}
    found: defaultdict[tuple[int, str, str], list[Access]] = defaultdict(list)
    for access in code.accesses:
        found[access.ptx_line, access.kind, access.space].append(access)
    figures = {
        key: Figures(
            accesses=len(own),
            lanes=sum(int(high[each.word]) for each in own),
            taken=sum(int(low[each.word]) for each in own),
            ideal=sum(int(low[each.word + 1]) for each in own),
        )
        for key, own in found.items()
    }
    return blocks, figures


def counts_of(
    code: CountingPtx,
    words: NDArray[np.uint64],
    rows: Sequence[Row],
    blocks: Sequence[range],
    scale: float,
) -> tuple[Ints, dict[str, Ints]]:
    """The pcs of the bare binary, ascending, and by column of `metrics.COUNTS` the counts of each.

    words: all copies, of the CTAs that counted. rows: of `instructions_of`. blocks: of `reached_blocks`.
    scale: all CTAs of the launch by those that counted.
    """
    warps_and_lanes, figures = counted_lines(code, words)
    keys = [_keys(row, figures) for row in rows]
    made = Counter(key for each in keys for key in each)
    copies = _copies(rows, made, figures, code)
    columns = {name: np.zeros(len(rows)) for name in COUNTS}
    block = -1  # of PTX
    for run in blocks:
        own = _block_of([rows[at] for at in run], [keys[at] for at in run], code)
        block = block if own < 0 else own
        warps, lanes = warps_and_lanes.get(block, (0, 0))
        parts = copies.get(block, 1)
        for at in run:
            columns["executed"][at], columns["threads"][at] = warps / parts, lanes / parts
            for key in keys[at]:
                moved, part = figures[key], 1.0 / made[key]
                name = "sectors" if key[2] == "global" else "wavefronts"
                columns["executed"][at] = warps_and_lanes[code.blocks[key[0] - 1]][0] * moved.accesses * part
                columns["threads"][at] = moved.lanes * part
                columns[name][at] = moved.taken * part
                columns[f"{name}_ideal"][at] = moved.ideal * part
            _add_by_opcode(columns, at, rows[at])
    pcs = np.array([row.pc for row in rows], np.int64)
    return pcs, {name: np.rint(scale * column).astype(np.int64) for name, column in columns.items()}


def _block_of(rows: Sequence[Row], keys: Sequence[Sequence[Key]], code: CountingPtx) -> int:
    """The block of PTX that most instructions of a block of SASS come from; -1 if that is not known. ptxas
    moves what it computes from block to block, but accesses least."""
    votes: Counter[int] = Counter()
    for row, own in zip(rows, keys, strict=True):
        block = code.blocks[row.ptx_line - 1] if 0 < row.ptx_line <= len(code.blocks) else -1
        if block >= 0:
            votes[block] += _OF_ACCESS if own else 1
    return max(votes, key=lambda block: votes[block], default=-1)


def _copies(
    rows: Sequence[Row], made: Mapping[Key, int], figures: Mapping[Key, Figures], code: CountingPtx
) -> dict[int, int]:
    """How many copies ptxas has made of a block of PTX, by what most accesses of its innermost loop say. In a
    loop without accesses its lines say it, each of which makes some opcode once. Of blocks that are not in
    the result there is one."""
    loop_of = {block: loop for loop in _innermost(code.loops) for block in loop}
    votes: defaultdict[range | int, list[int]] = defaultdict(list)
    for key, number in made.items():
        block = code.blocks[key[0] - 1]
        votes[loop_of.get(block, block)].append(max(1, number // figures[key].accesses))
    by_line: defaultdict[tuple[range, int], Counter[str]] = defaultdict(Counter)
    for row in rows:
        loop = loop_of.get(code.blocks[row.ptx_line - 1]) if 0 < row.ptx_line <= len(code.blocks) else None
        if loop is not None and loop not in votes and row.opcode.partition(".")[0] not in _STEERING:
            by_line[loop, row.ptx_line][row.opcode] += 1
    for (loop, _), opcodes in by_line.items():
        votes[loop].append(min(opcodes.values()))
    most = {place: statistics.mode(sorted(each)) for place, each in votes.items()}
    return {block: most[place] for block in code.blocks if (place := loop_of.get(block, block)) in most}


def _innermost(loops: Sequence[range]) -> list[range]:
    """Those that have no other one inside."""
    return [
        loop
        for loop in loops
        if not any(other != loop and loop.start <= other.start and other.stop <= loop.stop for other in loops)
    ]


def _add_by_opcode(columns: Mapping[str, NDArray[np.float64]], at: int, row: Row) -> None:
    """What an instruction moves by its opcode: spills by all lanes, and wgmma its operands in shared
    memory."""
    name = row.opcode.partition(".")[0]
    if name in _LOCAL:
        columns["local_sectors"][at] = columns["threads"][at] * _width(row.opcode) / SECTOR
    elif shape := _WGMMA.match(row.opcode):
        waves = int(shape[1]) * _K_BYTES / LINE / _WARPS
        if row.sass.count("gdesc") and not _A_IN_REGISTERS.search(row.sass):
            waves += _ROWS * _K_BYTES / LINE / _WARPS
        for column in ("wavefronts", "wavefronts_ideal"):
            columns[column][at] = columns["executed"][at] * waves


def _keys(row: Row, figures: Mapping[Key, Figures]) -> list[Key]:
    """The accesses that an instruction was made of: one, of an asynchronous copy two."""
    name = row.opcode.partition(".")[0]
    return [
        (row.ptx_line, *kind)
        for kind, names in _MADE.items()
        if name in names and (row.ptx_line, *kind) in figures
    ]


def _width(opcode: str) -> int:
    """Bytes of a lane."""
    return next((size for name, size in ((".128", 16), (".64", 8)) if name in opcode), 4)
