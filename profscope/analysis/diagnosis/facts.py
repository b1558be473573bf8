"""What is known of one configuration that was observed: counters, counts, samples, its binary."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
import pandas as pd

from instrument_passes.errors import IRError
from instrument_passes.ir.model import Op
from instrument_passes.ir.parser import parse
from instrument_passes.kept_text import unpacked
from profscope.analysis.devices import sm_count_of
from profscope.analysis.estimates import FEWEST_SAMPLES
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.limits import limits_of

__all__ = ["KernelFacts", "Place", "facts_of"]

Place = tuple[str, int]
_WIDTHS: Final = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_TENSOR_MASK: Final = re.compile(r"tensor<[0-9x]+xi1")
_LOOPS: Final = ("scf.for", "scf.while")
# Without these nothing can be concluded from counters: resources, and counters.
_NEEDED: Final = ("dram", "l2", "issue")
_NEEDED_COUNTERS: Final = ("time", "dram_read", "dram_write")


@dataclass(frozen=True, eq=False)
class KernelFacts:
    """Of one configuration.

    used: by resource (see `limits`) what part of its peak is used, 0 to 1. counters: values by name. counts:
    rows of `prof.counts`, with `op`, the opcode without its suffixes, and `bytes`, what a thread accesses.
    samples: of the bare binary. grid: CTAs of a launch. room: CTAs that fit on an SM, 0 if not known.
    cta_cycles: durations of recorded CTAs. place: file and line of the kernel.
    """

    kernel: str
    variant: int
    used: Mapping[str, float]
    counters: Mapping[str, float]
    counts: pd.DataFrame
    samples: pd.DataFrame
    grid: int
    warps: int
    stages: int
    sms: int
    room: int
    spills: int
    cta_cycles: np.ndarray[Any, Any]
    ttgir: str
    place: Place

    @cached_property
    def executed(self) -> int:
        """Warp instructions."""
        return max(1, int(self.counts["executed"].sum()))

    @cached_property
    def sampled(self) -> int:
        return max(1, int(self.samples["samples"].sum()))

    @property
    def waves(self) -> float:
        """CTAs of the grid over those that fit on the device; 0 if that is not known."""
        return self.grid / (self.sms * self.room) if self.room else 0.0

    def executed_share(self, rows: pd.Series) -> float:
        """What part of the warp instructions the marked rows of `counts` are."""
        return float(self.counts.loc[rows, "executed"].sum()) / self.executed

    def at(self, lines: Collection[int]) -> pd.Series:
        """The rows of `counts` at these lines of the kernel's file."""
        return self.counts["line"].isin(lines) & (self.counts["file"].astype("str") == self.place[0])

    def executed_ops(self, *names: str) -> float:
        """What part of the warp instructions have these opcodes."""
        return self.executed_share(self.counts["op"].isin(names))

    def stalled(self, *reasons: str, by: tuple[str, ...] = ()) -> float:
        """What part of the samples are stalls for these reasons; by: of instructions of these classes, if
        any are given."""
        rows = self.samples["stall"].isin(reasons)
        if by:
            rows &= self.samples["blamed_class"].isin(by)
        return float(self.samples.loc[rows, "samples"].sum()) / self.sampled

    def most_stalled(self, *reasons: str, by: tuple[str, ...] = ()) -> tuple[Place, float]:
        """The line to blame for most of such stalls, and its part of all samples."""
        rows = self.samples["stall"].isin(reasons) & (self.samples["blamed_line"] > 0)
        if by:
            rows &= self.samples["blamed_class"].isin(by)
        found = self.samples[rows].groupby(["blamed_file", "blamed_line"], observed=True)["samples"].sum()
        return self._largest(found, self.sampled)

    def most_executed(self, rows: pd.Series) -> tuple[Place, float]:
        """The line with most warp instructions of the marked rows of `counts`, and their part of all."""
        rows = rows & (self.counts["line"] > 0)
        found = self.counts[rows].groupby(["file", "line"], observed=True)["executed"].sum()
        return self._largest(found, self.executed)

    def most_sampled(self, rows: pd.Series) -> tuple[Place, float]:
        """The line with most of the samples at the pcs of the marked rows of `counts`, and the part of all
        samples that all of these pcs have."""
        pcs = set(self.counts.loc[rows, "pc"].tolist())
        mine = self.samples[self.samples["pc"].isin(pcs)]
        found = mine[mine["line"] > 0].groupby(["file", "line"], observed=True)["samples"].sum()
        place, _ = self._largest(found, self.sampled)
        return place, float(mine["samples"].sum()) / self.sampled

    def _largest(self, found: pd.Series, of: int) -> tuple[Place, float]:
        if not len(found) or not found.max():
            return self.place, 0.0
        file, line = cast(Place, found.idxmax())
        return (str(file), int(line)), float(found.max()) / of

    @cached_property
    def ops(self) -> Mapping[int, set[str]]:
        """By line, the names of the TTGIR's ops. {} if unknown."""
        found: defaultdict[int, set[str]] = defaultdict(set)
        for op, line, _ in self._walked:
            found[line].add(op.name)
        return found

    @cached_property
    def _walked(self) -> list[tuple[Op, int, bool]]:
        """Each op of the TTGIR, with its line and whether it is in a loop; none if the TTGIR is unknown."""
        if not self.ttgir:
            return []
        try:
            return [(op, _line_of(op), _is_in_loop(op)) for op in parse(self.ttgir).walk()]
        except IRError:  # of a dialect that is not known
            return []

    @cached_property
    def masked_loop(self) -> int:
        """The line of the selection by compared positions in a loop with products of matrices whose bounds
        do not depend on the program; 0 if there is none."""
        for loop, _, _ in self._walked:
            if loop.name != "scf.for":
                continue
            inside = list(loop.walk())
            names = [op.name for op in inside]
            has_dot = any(re.search(r"dot$|warp_group_dot$", name) for name in names)
            masks = [op for op in inside if op.name == "arith.select" and _TENSOR_MASK.search(str(op))]
            if has_dot and masks and "arith.cmpi" in names and not _of_program(loop):
                return _line_of(masks[0])
        return 0

    def has(self, pattern: str, *, loop: bool = False) -> bool:
        """Whether an op of the TTGIR has such a name; loop: in a loop."""
        return any((inside or not loop) and re.search(pattern, op.name) for op, _, inside in self._walked)

    def text_of(self, name: str) -> list[str]:
        """The ops of this name, as they are printed."""
        return [str(op) for op, _, _ in self._walked if op.name == name]

    def lines_of(self, pattern: str, *, loop: bool = False) -> set[int]:
        """The lines of ops with such names."""
        return {
            line for op, line, inside in self._walked if (inside or not loop) and re.search(pattern, op.name)
        }


def facts_of(judged: KernelAnalysis) -> KernelFacts | None:
    """None if the hardware has not counted and sampled the configuration, or not read its counters."""
    tables, kernel, variant = judged.tables, judged.kernel, judged.variant
    counters, counts, samples, ctas = (
        table[(table["kernel"] == kernel) & (table["variant"] == variant)]
        for table in (tables.counters, tables.counts, tables.samples, tables.ctas)
    )
    samples = samples[samples["binary"].astype("str") == "bare"] if len(samples) else samples
    sms = sm_count_of(tables.metadata)
    if not len(counters) or not len(counts) or not sms or samples["samples"].sum() < FEWEST_SAMPLES:
        return None
    limits = limits_of(counters)
    used = dict(zip(limits["resource"].astype("str"), limits["peak_pct"] / 100, strict=True))
    values = dict(zip(counters["counter"].astype("str"), counters["value"].astype(float), strict=True))
    needed = [used.get(name, np.nan) for name in _NEEDED] + [
        values.get(name, np.nan) for name in _NEEDED_COUNTERS
    ]
    if not np.isfinite(needed).all():
        return None
    first, about, build = judged.launches.iloc[0], judged.configuration, judged.build("bare")
    grid = math.prod(int(first[name]) for name in ("grid_x", "grid_y", "grid_z", "num_ctas"))  # beyond int32
    if grid <= 0:  # of a trace that others have written
        return None
    opcode = counts["opcode"].astype("str")
    suffix = opcode.str.extract(r"\.(U8|S8|U16|S16|64|128)(?:\.|$)")[0]
    return KernelFacts(
        kernel=kernel,
        variant=variant,
        used={name: 0.0 if np.isnan(value) else float(value) for name, value in used.items()},
        counters={name: value for name, value in values.items() if np.isfinite(value)},
        counts=counts.assign(op=opcode.str.split(".").str[0], bytes=suffix.map(_WIDTHS).fillna(4)),
        samples=samples,
        grid=grid,
        warps=int(about.get("num_warps") or first["num_warps"]),
        stages=int(about.get("num_stages") or 0),
        sms=sms,
        room=int(build.get("ctas_per_sm") or 0),
        spills=int(build.get("spills") or 0),
        cta_cycles=ctas["duration_cycles"].to_numpy(np.float64),
        ttgir=_ttgir_of(judged),
        place=judged.place,
    )


def _ttgir_of(judged: KernelAnalysis) -> str:
    """The text of the configuration, or of the kernel's only one; "" if unknown."""
    code = [each for each in judged.tables.metadata.get("code") or () if each.get("kernel") == judged.kernel]
    key = judged.configuration.get("key")
    own = next((each for each in code if each.get("key") == key), code[0] if len(code) == 1 else None)
    text = None if own is None else own.get("ttgir")
    if not text:
        return ""
    try:
        return unpacked(text)
    except IRError:  # damaged: what needs the TTGIR is left out
        return ""


def _line_of(op: Op) -> int:
    """In the kernel: of a function that was inlined, where the kernel calls it."""
    return op.loc.callers[-1].line if op.loc.callers else op.loc.line


def _is_in_loop(op: Op) -> bool:
    parent = op.parent_op
    return parent is not None and (parent.name in _LOOPS or _is_in_loop(parent))


def _of_program(loop: Op) -> bool:
    """Whether the upper bound of a loop depends on the program's id."""
    bound = re.search(r"to (%[\w#]+)", str(loop).split("{", 1)[0])
    seen: set[str] = set()
    left = [bound.group(1)] if bound else []
    while left:
        name = left.pop()
        value = loop.resolve(name)
        if value is None or name in seen:
            continue
        seen.add(name)
        owner = value.owner
        if not isinstance(owner, Op):
            continue
        if owner.name == "tt.get_program_id":
            return True
        left += re.findall(r"%[\w#]+", str(owner).partition("=")[2])
    return False
