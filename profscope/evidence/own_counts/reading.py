"""The words that a counting kernel leaves, as counts of the bare binary's instructions.

An instruction has run as often as the block of the PTX line that it was made of; where ptxas has made several
copies of that line's access, as it does to unroll a loop, each has its part. What ptxas adds by itself runs
with the instruction in front of it.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profscope.binaries.rows import Instructions, Row
from profscope.evidence.metrics import COUNTS
from profscope.evidence.own_counts.counting_ptx import COPIES, HIGH, Access, CountingPtx

__all__ = ["Figures", "counted_lines", "counts_of"]

Ints = NDArray[np.int64]

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
_SECTOR: Final = 32


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
) -> tuple[dict[int, tuple[int, int]], dict[tuple[int, str, str], Figures]]:
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
    code: CountingPtx, words: NDArray[np.uint64], instructions: Instructions, scale: float
) -> tuple[Ints, dict[str, Ints]]:
    """The pcs of the bare binary, ascending, and by column of `metrics.COUNTS` the counts of each.

    words: all copies, of the CTAs that counted. scale: all CTAs of the launch by those.
    """
    blocks, figures = counted_lines(code, words)
    rows = sorted(instructions.rows, key=lambda row: row.pc)
    lines = _lines(rows, code)
    own = [code.blocks[line - 1] if 0 < line <= len(code.blocks) else -1 for line in lines]
    made = Counter(key for row in rows for key in _keys(row, figures))
    copies = _copies(made, figures, code)
    columns = {name: np.zeros(len(rows)) for name in COUNTS}
    for at, row in enumerate(rows):
        warps, lanes = blocks.get(own[at], (0, 0))
        share = 1.0 / copies.get(own[at], 1)
        keys = _keys(row, figures)
        if keys:
            share = figures[keys[0]].accesses / made[keys[0]]
        columns["executed"][at] = warps * share
        columns["threads"][at] = lanes * share
        for key in keys:
            moved, part = figures[key], 1.0 / made[key]
            name = "sectors" if key[2] == "global" else "wavefronts"
            columns["threads"][at] = moved.lanes * part
            columns[name][at] = moved.taken * part
            columns[f"{name}_ideal"][at] = moved.ideal * part
        if row.opcode.partition(".")[0] in _LOCAL:
            columns["local_sectors"][at] = columns["threads"][at] * _width(row.opcode) / _SECTOR
    pcs = np.array([row.pc for row in rows], np.int64)
    return pcs, {name: np.rint(scale * column).astype(np.int64) for name, column in columns.items()}


def _lines(rows: Sequence[Row], code: CountingPtx) -> list[int]:
    """By instruction the PTX line that it runs with."""
    lines, last = [], code.blocks.index(0) + 1 if 0 in code.blocks else 0
    for row in rows:
        last = row.ptx_line or last
        lines.append(last)
    return lines


def _keys(row: Row, figures: Mapping[tuple[int, str, str], Figures]) -> list[tuple[int, str, str]]:
    """The accesses that an instruction was made of: one, of an asynchronous copy two."""
    name = row.opcode.partition(".")[0]
    return [
        (row.ptx_line, *kind)
        for kind, names in _MADE.items()
        if name in names and (row.ptx_line, *kind) in figures
    ]


def _copies(
    made: Mapping[tuple[int, str, str], int],
    figures: Mapping[tuple[int, str, str], Figures],
    code: CountingPtx,
) -> dict[int, int]:
    """By block how often ptxas has its code: what most of its accesses say, once if it has none."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for key, count in made.items():
        found[code.blocks[key[0] - 1]].append(max(1, count // figures[key].accesses))
    return {block: statistics.mode(counts) for block, counts in found.items()}


def _width(opcode: str) -> int:
    """Bytes of a lane."""
    return next((size for name, size in ((".128", 16), (".64", 8)) if name in opcode), 4)
