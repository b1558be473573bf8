"""One table of the evidence of a configuration's instructions, from all instruments.

A row is the instructions of one opcode at one line. Columns of `rows`, which has no index of its own:

    file, line          where in the source; "" and 0 if unknown
    opcode, op          with and without modifiers, in SASS's words ("LDG.E.128", "LDG"); "" if only samples
                        know of the instruction
    cls                 its class, such as "global load" (`binaries.listing.CLASSES`)
    instructions        how many there are in the binary
    bytes               that a thread accesses
    executed            warp instructions of a launch; `most_executed`: of one of these instructions
    threads             active lanes of these
    sectors, sectors_ideal, wavefronts, wavefronts_ideal, local_sectors
                        moved by these, and what their bytes need
    pipes               fma, alu, fp64, xu and lsu: of these warp instructions, how many go there

Beside it, by row and stall: `at`, the PC samples at these instructions, and `blamed`, those of instructions
that wait for these. On the emulator these are the cycles of its cost model.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.kernels.devices import PIPES, slots_of
from profscope.binaries.listing import class_of
from profscope.emulator.ptx_syntax import ptx_class, sass_name
from profscope.schema import measured_frame, samples_frame

__all__ = [
    "ATOMIC_OPS",
    "CONVERSION_OPS",
    "LOADED",
    "LOAD_OPS",
    "MMA_OPS",
    "SECTOR_BYTES",
    "SHARED_OPS",
    "STORE_OPS",
    "WARP_LANES",
    "EvidenceTable",
    "Floats",
    "Mask",
    "Place",
    "about_opcode",
    "evidence_table",
]

Place = tuple[str, int]
"""File and line."""
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]

WARP_LANES: Final = 32
"""Of a warp."""
SECTOR_BYTES: Final = 32
LOAD_OPS: Final = ("LDG", "LDGSTS")
STORE_OPS: Final = ("STG",)
ATOMIC_OPS: Final = ("ATOM", "ATOMG", "RED", "REDG")
MMA_OPS: Final = ("HMMA", "IMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "DMMA")
SHARED_OPS: Final = ("LDS", "STS", "LDSM", "STSM")
CONVERSION_OPS: Final = ("F2F", "F2FP", "I2F", "F2I", "I2FP", "F2IP", "I2I", "FRND")

LOADED: Final = ("global load", "async copy", "tma")
"""Classes of instructions that load from global memory."""

_KEYS: Final = ["file", "line", "opcode", "bytes"]
_AMOUNTS: Final = [
    "executed",
    "threads",
    "sectors",
    "sectors_ideal",
    "wavefronts",
    "wavefronts_ideal",
    "local_sectors",
]
_ENDS: Final = ("pc", "file", "line", "class")
_PTX_WIDTH: Final = re.compile(r"(?:\.v(\d))?\.[bfsu](\d+)$")
_SASS_WIDTH: Final = re.compile(r"\.(U8|S8|U16|S16|64|128)(?:\.|$)")
_SASS_BYTES: Final = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


@dataclass(frozen=True, eq=False)
class EvidenceTable:
    """See above. stalls: the columns of `at` and `blamed`."""

    rows: pd.DataFrame
    at: Floats
    blamed: Floats
    stalls: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    # Which rows.

    @cached_property
    def all(self) -> Mask:
        return np.ones(len(self), np.bool_)

    def of(self, *ops: str) -> Mask:
        """Those with these opcodes, without modifiers."""
        return np.asarray(np.isin(self._texts("op"), ops), np.bool_)

    def of_class(self, *classes: str) -> Mask:
        return np.asarray(np.isin(self._texts("cls"), classes), np.bool_)

    def like(self, pattern: str) -> Mask:
        """Those whose opcode has this pattern."""
        return np.array([re.search(pattern, each) is not None for each in self._texts("opcode")], np.bool_)

    def at_lines(self, file: str, lines: Collection[int]) -> Mask:
        return np.asarray(np.isin(self.line, list(lines)) & (self._texts("file") == file), np.bool_)

    def _texts(self, column: str) -> NDArray[np.str_]:
        return self._columns[column]

    @cached_property
    def _columns(self) -> dict[str, NDArray[np.str_]]:
        return {name: self.rows[name].to_numpy(dtype=str) for name in ("file", "opcode", "op", "cls")}

    @cached_property
    def line(self) -> NDArray[np.int64]:
        return self.rows["line"].to_numpy(np.int64)

    @cached_property
    def located(self) -> Mask:
        return self.line > 0

    def amount(self, column: str) -> Floats:
        return self._amounts[column]

    @cached_property
    def _amounts(self) -> dict[str, Floats]:
        names = [*_AMOUNTS, *PIPES, "bytes", "instructions", "most_executed"]
        return {name: self.rows[name].to_numpy(np.float64) for name in names}

    # How much of all.

    def total(self, column: str, rows: Mask | None = None) -> float:
        return float(self.amount(column)[self.all if rows is None else rows].sum())

    def idealised(self, column: str, rows: Mask) -> Floats:
        """Sectors or wavefronts, by row, if these rows move no more than their bytes need."""
        amount = self.amount(column)
        return np.where(rows, np.minimum(amount, self.amount(f"{column}_ideal")), amount)

    def share(self, column: str, rows: Mask) -> float:
        """The part of a column's total in these rows."""
        return self.total(column, rows) / max(1.0, self.total(column))

    def sectors(self, *ops: str) -> float:
        return self.total("sectors", self.of(*ops))

    @cached_property
    def local_bytes(self) -> float:
        """Bytes that a launch moves to and from local memory."""
        return SECTOR_BYTES * self.total("local_sectors")

    @cached_property
    def sampled(self) -> float:
        return max(1.0, float(self.at.sum()))

    def waits(self, rows: Mask, *stalls: str) -> float:
        """The part of the samples that wait for these rows' instructions, of any stall if none is named."""
        return float(self._stalled(self.blamed, stalls)[rows].sum()) / self.sampled

    def samples_at(self, rows: Mask, *stalls: str) -> float:
        """The part of the samples that are at these rows' instructions."""
        return float(self._stalled(self.at, stalls)[rows].sum()) / self.sampled

    def stalled(self, *stalls: str, by: tuple[str, ...] = ()) -> float:
        """The part of the samples with these stalls; by: that wait for instructions of these classes."""
        return self.waits(self.of_class(*by) if by else self.all, *stalls)

    def _stalled(self, table: Floats, stalls: tuple[str, ...]) -> Floats:
        if not stalls:
            return np.asarray(table.sum(axis=1), np.float64)
        chosen = [at for at, stall in enumerate(self.stalls) if stall in stalls]
        return np.asarray(table[:, chosen].sum(axis=1), np.float64)

    # Where most of it is.

    def place_of_most(self, weights: Floats, rows: Mask | None = None) -> Place | None:
        """The line with most of these weights, by row; None if there is nothing."""
        by_place = self.by_place(weights, rows)
        most = max(by_place, key=lambda place: by_place[place], default=None)
        return most if most is not None and by_place[most] > 0 else None

    def by_place(self, weights: Floats, rows: Mask | None = None) -> dict[Place, float]:
        """By file and line, what these weights add up to, in order."""
        found: dict[Place, float] = {}
        files = self._texts("file")
        for at in np.flatnonzero(self.located & (self.all if rows is None else rows)):
            place = str(files[at]), int(self.line[at])
            found[place] = found.get(place, 0.0) + float(weights[at])
        return dict(sorted(found.items()))

    def place_executed(self, rows: Mask) -> Place | None:
        """The line with most warp instructions of these."""
        return self.place_of_most(self.amount("executed"), rows)

    def place_waited_for(self, rows: Mask, *stalls: str) -> Place | None:
        """The line that most samples wait for."""
        return self.place_of_most(self._stalled(self.blamed, stalls), rows)

    def place_sampled(self, rows: Mask, *stalls: str) -> Place | None:
        """The line with most samples."""
        return self.place_of_most(self._stalled(self.at, stalls), rows)


def evidence_table(counts: pd.DataFrame, samples: pd.DataFrame) -> EvidenceTable:
    """The evidence table of one configuration. counts: rows of `prof.counts`; samples: of `prof.samples`, of
    the bare binary."""
    return _table(counts, samples) if len(counts) or len(samples) else _empty()


@cache
def _empty() -> EvidenceTable:
    return _table(measured_frame("counts"), samples_frame())


def _table(counts: pd.DataFrame, samples: pd.DataFrame) -> EvidenceTable:
    counted = _in_words_of_sass(counts)
    groups = counted.groupby(_KEYS, sort=False, observed=True)
    rows = groups.agg(
        op=("op", "first"), cls=("cls", "first"), instructions=("pc", "size"),
        most_executed=("executed", "max"),
        **{name: (name, "sum") for name in (*_AMOUNTS, *PIPES)},
    ).reset_index()  # fmt: skip
    rows[[*_AMOUNTS, *PIPES, "most_executed"]] /= max(1, counts["launches"].to_numpy().max(initial=0))
    # Where samples are, then what they wait for; what was not counted gets rows of its own.
    ends = pd.concat(
        [
            samples[[f"{end}{name}" for name in _ENDS]].set_axis(list(_ENDS), axis=1)
            for end in ("", "blamed_")
        ],
        ignore_index=True,
    ).astype({"file": "str", "class": "str"})
    row_of = ends["pc"].map(dict(zip(counted["pc"], groups.ngroup(), strict=True)))
    uncounted = row_of.isna()
    others = ends[uncounted].groupby(["file", "line", "class"], sort=False)
    row_of[uncounted] = len(rows) + others.ngroup()
    more = others.size().reset_index().rename(columns={"class": "cls"}).assign(opcode="", op="")
    more = more.reindex(columns=rows.columns, fill_value=0)
    rows = pd.concat([rows, more], ignore_index=True) if len(rows) else more
    stall, stalls = pd.factorize(samples["stall"].astype(str), sort=True)
    at, blamed = np.zeros((len(rows), len(stalls))), np.zeros((len(rows), len(stalls)))
    for table, end in zip((at, blamed), np.split(row_of.to_numpy(np.int64), 2), strict=True):
        np.add.at(table, (end, stall), samples["samples"].to_numpy())
    return EvidenceTable(rows, at, blamed, tuple(stalls))


def _in_words_of_sass(counts: pd.DataFrame) -> pd.DataFrame:
    """With `op`, `cls`, `bytes` and the pipes; `executed` in instructions of SASS, which one of PTX may be
    several of."""
    opcodes = counts["opcode"].astype(str)
    about = {opcode: about_opcode(opcode) for opcode in set(opcodes)}
    known = pd.DataFrame(
        [about[each] for each in opcodes], counts.index, columns=["op", "cls", "bytes", "sass", *PIPES]
    )
    executed = counts["executed"] * known["sass"]
    copies = known["op"].eq("LDGSTS") & opcodes.str.startswith("cp.async")
    moved = SECTOR_BYTES * counts["sectors_ideal"] / counts["threads"].clip(lower=1)  # its size is an operand
    width = known["bytes"].where(~copies, 2 ** np.ceil(np.log2(moved.clip(4, 16))))
    amounts = counts.drop(columns=["executed"]).assign(
        executed=executed, op=known["op"], cls=known["cls"], bytes=width.astype(np.int64),
        opcode=opcodes, file=counts["file"].astype(str),
    )  # fmt: skip
    return amounts.assign(**{pipe: known[pipe] * executed for pipe in PIPES})


def about_opcode(opcode: str) -> tuple[Any, ...]:
    """Facts of an opcode with modifiers: op, class, bytes of a thread, SASS instructions, and the part of
    these in each pipe."""
    is_ptx = opcode[:1].islower()
    slots = slots_of(opcode)
    sass = max(1, sum(slots.values()))
    op = sass_name(opcode) if is_ptx else opcode.partition(".")[0]
    cls = ptx_class(opcode) if is_ptx else class_of(op)
    if is_ptx:
        width = _PTX_WIDTH.search(opcode)
        size = int(width[1] or 1) * int(width[2]) // 8 if width else 4
    else:
        named = _SASS_WIDTH.search(opcode)
        size = _SASS_BYTES[named[1]] if named else 4
    return op, cls, size, sum(slots.values()), *(slots.get(pipe, 0) / sass for pipe in PIPES)
