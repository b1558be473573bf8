"""What is known of one configuration that was observed: counters, counts, samples, its binary."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
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
from profscope.analysis.limits import limits_of
from profscope.schema import Tables

__all__ = ["KernelFacts", "Place", "facts_of"]

Place = tuple[str, int]
_WIDTHS: Final = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_TENSOR_MASK: Final = re.compile(r"tensor<[0-9x]+xi1")
_LOOPS: Final = ("scf.for", "scf.while")
_NEEDED: Final = ("dram", "l2", "issue")  # without these nothing can be concluded from counters


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
        for name, line, _, _ in self._walked:
            found[line].add(name)
        return found

    @cached_property
    def _walked(self) -> list[tuple[str, int, bool, str]]:
        """name, line, whether in a loop, and text of each op of the TTGIR."""
        if not self.ttgir:
            return []
        try:
            module = parse(self.ttgir)
            rows = []
            for op in module.walk():
                parent, loop = op.parent_op, False
                while parent is not None and not loop:
                    loop, parent = parent.name in _LOOPS, parent.parent_op
                location = op.loc
                line = location.callers[-1].line if location.callers else location.line
                rows.append((op.name, line, loop, "" if op.regions else str(op)))
        except IRError:  # of a dialect that is not known
            return []
        return rows

    @cached_property
    def masked_loop(self) -> int:
        """The line of the selection by compared positions in a loop with products of matrices whose bounds
        do not depend on the program; 0 if there is none."""
        if not self.ttgir:
            return 0
        try:
            module = parse(self.ttgir)
            for loop in module.walk():
                if loop.name != "scf.for":
                    continue
                inside = list(loop.walk())
                names = [op.name for op in inside]
                if not any(re.search(r"dot$|warp_group_dot$", name) for name in names):
                    continue
                masks = [op for op in inside if op.name == "arith.select" and _TENSOR_MASK.search(str(op))]
                compared = "arith.cmpi" in names
                if masks and compared and not _of_program(loop):
                    return masks[0].loc.line
        except IRError:
            return 0
        return 0

    def has(self, pattern: str, *, loop: bool = False) -> bool:
        """Whether an op of the TTGIR has such a name; loop: in a loop."""
        return any((inside or not loop) and re.search(pattern, name) for name, _, inside, _ in self._walked)

    def text_of(self, name: str) -> list[str]:
        """The ops of this name, as they are printed."""
        return [text for each, _, _, text in self._walked if each == name]

    def lines_of(self, pattern: str, *, loop: bool = False) -> set[int]:
        """The lines of ops with such names."""
        return {
            line
            for name, line, inside, _ in self._walked
            if (inside or not loop) and re.search(pattern, name)
        }


def facts_of(tables: Tables, kernel: str, variant: int, place: Place) -> KernelFacts | None:
    """None if the hardware has not counted and sampled the configuration, or not read its counters."""
    counters, counts, samples = (
        _of(table, kernel, variant) for table in (tables.counters, tables.counts, tables.samples)
    )
    samples = samples[samples["binary"].astype("str") == "bare"] if len(samples) else samples
    sms = sm_count_of(tables.metadata)
    if not len(counters) or not len(counts) or not sms or samples["samples"].sum() < FEWEST_SAMPLES:
        return None
    limits = limits_of(counters)
    used = dict(zip(limits["resource"].astype("str"), limits["peak_pct"] / 100, strict=True))
    if any(np.isnan(used.get(name, np.nan)) for name in _NEEDED):
        return None
    launches = _of(tables.launches, kernel, variant)
    first = launches.iloc[0]
    known = tables.metadata.get("variants") or {}
    about: dict[str, Any] = next((each for each in known.get(kernel, ()) if each["variant"] == variant), {})
    builds = about.get("builds") or []
    build: dict[str, Any] = next((each for each in builds if each.get("build") == "bare"), {})
    code = [each for each in tables.metadata.get("code") or () if each["kernel"] == kernel]
    key = about.get("key")
    text = next(
        (each["ttgir"] for each in code if each.get("key") == key), code[0]["ttgir"] if len(code) == 1 else ""
    )
    ctas = _of(tables.ctas, kernel, variant)
    opcode = counts["opcode"].astype("str")
    suffix = opcode.str.extract(r"\.(U8|S8|U16|S16|64|128)(?:\.|$)")[0]
    return KernelFacts(
        kernel=kernel,
        variant=variant,
        used={name: 0.0 if np.isnan(value) else float(value) for name, value in used.items()},
        counters=dict(zip(counters["counter"].astype("str"), counters["value"].astype(float), strict=True)),
        counts=counts.assign(op=opcode.str.split(".").str[0], bytes=suffix.map(_WIDTHS).fillna(4)),
        samples=samples,
        grid=int(first["grid_x"] * first["grid_y"] * first["grid_z"] * first["num_ctas"]),
        warps=int(about.get("num_warps") or first["num_warps"]),
        stages=int(about.get("num_stages") or 0),
        sms=sms,
        room=int(build.get("ctas_per_sm") or 0),
        spills=int(build.get("spills") or 0),
        cta_cycles=ctas["duration_cycles"].to_numpy(np.float64),
        ttgir=unpacked(text) if text else "",
        place=place,
    )


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


def _of(table: pd.DataFrame, kernel: str, variant: int) -> pd.DataFrame:
    return table[(table["kernel"] == kernel) & (table["variant"] == variant)]
