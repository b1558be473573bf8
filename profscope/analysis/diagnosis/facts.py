"""What is known of one configuration, by whichever witness there is: the hardware, or the emulator."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
import pandas as pd

from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.opcodes import in_words_of_sass
from profscope.analysis.diagnosis.ttgir_ops import (
    adds_to,
    elements,
    has_constant_bounds,
    is_in_loop,
    is_of_data,
    is_of_program,
    is_power_of_two,
    layout_of,
    line_of,
    loop_around,
    makers_of_places,
)
from profscope.analysis.kernels.devices import PIPES, slots_of, sm_count_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis
from profscope.analysis.limits import bare_time, limits_of
from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir.model import Op
from profscope.instrument_passes.ir.parser import parse
from profscope.instrument_passes.kept_text import unpacked

__all__ = ["ATOMICS", "CONVERSIONS", "LANES", "LOADS", "WITNESSES", "KernelFacts", "Place", "facts_of"]

Place = tuple[str, int]
_REGISTERS: Final = 1 << 16  # of an SM
LANES: Final = 32
"""Of a warp."""
_NUMBERED: Final = re.compile(r"_\d+$")
_DIVISION: Final = re.compile(r"arith\.(div|rem|floordiv|ceildiv)(s|u)i$")
_ACCESS: Final = re.compile(r"^tt\.(load|store)$|async_copy_global_to_local$")
_POINTED: Final = re.compile(r"ptr<[a-zA-Z]+(\d+)")
_EACH: Final = re.compile(r"sizePerThread = \[([\d, ]+)\]")
ATOMICS: Final = ("ATOM", "ATOMG", "RED", "REDG")
"""Opcodes of atomics of global memory."""
LOADS: Final[tuple[str, ...]] = ("global load", "async copy", "tma")
"""Classes of instructions that load from global memory."""
CONVERSIONS: Final = ("F2F", "F2FP", "I2F", "F2I", "I2FP", "F2IP", "I2I", "FRND")
"""Opcodes that turn one type of number into another."""
WITNESSES: Final = ("counters", "counts", "samples", "ttgir", "ctas")
"""Who may have seen a launch: hardware counters, instruction counts, PC samples (on the emulator the cycles
of its cost model), the TTGIR, and the begins and ends of CTAs."""

# Without these nothing can be concluded from counters: resources, and counters.
_NEEDED: Final = ("dram", "l2", "issue")
_NEEDED_COUNTERS: Final = ("time", "dram_read", "dram_write")


@dataclass(frozen=True, eq=False)
class KernelFacts:
    """Of one configuration.

    known: of WITNESSES, those that saw it; what an unknown one would say is empty. used: by resource (see
    `limits`) what part of its peak is used, 0 to 1; without what is unknown. counters: values by name.
    counts: rows of `prof.counts`, with `op`, the opcode in SASS's words without its suffixes, `bytes`, what
    a thread accesses, and `executed` in instructions of SASS. samples: of the bare binary. grid: CTAs of a
    launch. room: CTAs that fit on an SM, 0 if not known. idle: the part of the time of the SMs in which no
    warp is on them, 0 if not known: the sampler takes a sample of each SM every period in which one is.
    filled: on the emulator, whose `used` are of a launch that fills all SMs, the launch's time as a part of
    such a one over the time that it took; 1 on a GPU. cta_cycles: durations of recorded CTAs. place: file and
    line of the kernel. capability: 90 for 9.0, 0 if unknown. analysis: its spans.
    """

    kernel: str
    variant: int
    known: frozenset[str]
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
    idle: float
    filled: float
    cta_cycles: np.ndarray[Any, Any]
    ttgir: str
    ptx: str
    capability: int
    place: Place
    analysis: KernelAnalysis

    @property
    def emulated(self) -> bool:
        return self.analysis.emulated

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
        return self.grid / (self.sms * self.room) if self.room and self.sms else 0.0

    @property
    def is_bound(self) -> bool:
        """Whether a resource is so busy that latencies are not what holds the kernel back."""
        return max(self.used.values(), default=0.0) >= thresholds.BOUND

    @cached_property
    def resident_warps(self) -> float:
        """Warps on an SM at a time, by the counter, else as many CTAs as there are and fit; 0 if unknown."""
        ctas = min(self.room, math.ceil(self.grid / self.sms)) if self.sms else self.room
        return self.counters.get("occupancy", float(ctas * self.warps))

    @cached_property
    def room_by_registers(self) -> int:
        """CTAs that fit on an SM if only registers limit them; 0 if that is not known."""
        registers = int(self.analysis.build("bare").get("registers") or 0)
        return _REGISTERS // (registers * LANES * self.warps) if registers and self.warps else 0

    def executed_share(self, rows: pd.Series) -> float:
        """What part of the warp instructions the marked rows of `counts` are."""
        return float(self.counts.loc[rows, "executed"].sum()) / self.executed

    def sampled_share(self, rows: pd.Series) -> float:
        """What part of the samples the marked rows of `samples` are."""
        return float(self.samples.loc[rows, "samples"].sum()) / self.sampled

    def at(self, lines: Collection[int]) -> pd.Series:
        """The rows of `counts` at these lines of the kernel's file."""
        return self.counts["line"].isin(lines) & (self.counts["file"].astype("str") == self.place[0])

    def sectors(self, *names: str) -> float:
        """Sectors of 32 bytes that instructions with these opcodes touch."""
        return float(self.counts.loc[self.counts["op"].isin(names), "sectors"].sum())

    @cached_property
    def local_bytes(self) -> float:
        """What loads and stores of local memory move in a launch, in bytes."""
        return 32.0 * float((self.counts["local_sectors"] / self.counts["launches"]).sum())

    @cached_property
    def l2_bytes(self) -> float:
        """What instructions ask L2 for, in bytes; an atomic reads its sector and writes it."""
        moved = self.sectors("LDG", "LDGSTS", "STG") + 2 * self.sectors(*ATOMICS)
        return max(1.0, 32 * moved + self.local_bytes)

    @cached_property
    def slots(self) -> pd.DataFrame:
        """By row of `counts` and pipe, how many of its instructions go there."""
        opcodes = self.counts["opcode"].astype("str")
        of_opcode = {opcode: slots_of(opcode) for opcode in opcodes.unique()}
        share = {
            opcode: {pipe: slots.get(pipe, 0) / max(1, sum(slots.values())) for pipe in PIPES}
            for opcode, slots in of_opcode.items()
        }
        table = pd.DataFrame([share[opcode] for opcode in opcodes], self.counts.index, columns=list(PIPES))
        return table.mul(self.counts["executed"], axis=0)

    def executed_ops(self, *names: str) -> float:
        """What part of the warp instructions have these opcodes."""
        return self.executed_share(self.counts["op"].isin(names))

    def stalled(self, *reasons: str, by: tuple[str, ...] = ()) -> float:
        """What part of the samples are stalls for these reasons; by: of instructions of these classes, if
        any are given."""
        rows = self.samples["stall"].isin(reasons)
        if by:
            rows &= self.samples["blamed_class"].isin(by)
        return self.sampled_share(rows)

    def most_stalled(
        self, *reasons: str, by: tuple[str, ...] = (), besides: Collection[int] = ()
    ) -> tuple[Place, float]:
        """The line to blame for most of such stalls, besides some lines, and its part of all samples."""
        rows = self.samples["stall"].isin(reasons) & (self.samples["blamed_line"] > 0)
        rows &= ~self.samples["blamed_line"].isin(besides)
        if by:
            rows &= self.samples["blamed_class"].isin(by)
        found = self.samples[rows].groupby(["blamed_file", "blamed_line"], observed=True)["samples"].sum()
        return self._largest(found, self.sampled)

    def most_at(self, reason: str) -> tuple[Place, float]:
        """The line where most samples with this stall are, and the part that all of them are."""
        rows = self.samples[(self.samples["stall"] == reason) & (self.samples["line"] > 0)]
        place, _ = self._largest(rows.groupby(["file", "line"], observed=True)["samples"].sum(), self.sampled)
        return place, float(rows["samples"].sum()) / self.sampled

    def most_executed(self, rows: pd.Series) -> tuple[Place, float]:
        """The line with most warp instructions of the marked rows of `counts`, and their part of all."""
        rows = rows & (self.counts["line"] > 0)
        found = self.counts[rows].groupby(["file", "line"], observed=True)["executed"].sum()
        return self._largest(found, self.executed)

    def most(self, what: str, rows: pd.Series | None = None) -> Place:
        """The line with most of a column of `counts`: executed, sectors or wavefronts; rows: of these."""
        located = self.counts[(self.counts["line"] > 0) & (True if rows is None else rows)]
        return self._largest(located.groupby(["file", "line"], observed=True)[what].sum(), 1)[0]

    def most_sampled(self, rows: pd.Series) -> tuple[Place, float]:
        """The line with most of the samples at the pcs of the marked rows of `counts`, and the part of all
        samples that all of these pcs have."""
        pcs = set(self.counts.loc[rows, "pc"].tolist())
        mine = self.samples[self.samples["pc"].isin(pcs)]
        found = mine[mine["line"] > 0].groupby(["file", "line"], observed=True)["samples"].sum()
        place, _ = self._largest(found, self.sampled)
        return place, float(mine["samples"].sum()) / self.sampled

    def blamed_share(self, rows: pd.Series) -> float:
        """The part of the samples that the marked instructions are to blame for."""
        pcs = set(self.counts.loc[rows, "pc"].tolist())
        return self.sampled_share(self.samples["blamed_pc"].isin(pcs))

    def _largest(self, found: pd.Series, of: int) -> tuple[Place, float]:
        if not len(found) or not found.max():
            return self.place, 0.0
        file, line = cast(Place, found.idxmax())
        return (str(file), int(line)), float(found.max()) / of

    @cached_property
    def ops(self) -> Mapping[int, set[str]]:
        """By line, the names of the TTGIR's ops. {} if unknown."""
        found: defaultdict[int, set[str]] = defaultdict(set)
        for op, line, _ in self.located_ops:
            found[line].add(op.name)
        return found

    @cached_property
    def located_ops(self) -> list[tuple[Op, int, bool]]:
        """Each op of the TTGIR, with its line and whether it is in a loop; none if the TTGIR is unknown."""
        if not self.ttgir:
            return []
        try:
            return [(op, line_of(op), is_in_loop(op)) for op in parse(self.ttgir).walk()]
        except IRError:  # of a dialect that is not known
            return []

    @cached_property
    def ttgir_ops(self) -> list[Op]:
        """All ops of the kernel, in order."""
        return [op for op, _, _ in self.located_ops]

    def accesses_at(self, line: int) -> list[Op]:
        """The ops that load or store at a line."""
        return [op for op, at, _ in self.located_ops if at == line and _ACCESS.search(op.name)]

    def run_bytes(self, line: int) -> int:
        """How many bytes side by side a thread has of what is loaded or stored at a line, by the layouts
        there, if their addresses are; 0 if that is unknown."""
        return max(map(_run_bytes, self.accesses_at(line)), default=0)

    @cached_property
    def uneven_loops(self) -> set[int]:
        """The lines of loops whose upper bound depends on the program's id."""
        return {line for op, line, _ in self.located_ops if op.name == "scf.for" and is_of_program(op)} - {0}

    @cached_property
    def carried_line(self) -> int:
        """The line of the largest tensor that a loop carries in registers: of the product that adds to it, of
        the constant that it is at first, or, if it is loaded or several begin as it does, of what it becomes
        in a step; 0 if there is none."""
        most, line = 0, 0
        for loop, _, _ in self.located_ops:
            if loop.name != "scf.for":
                continue
            firsts = Counter(loop.operands[3:])
            for value, first in zip(loop.results, loop.operands[3:], strict=False):
                size = elements(value.type)
                if size > most:
                    most = size
                    products = [line_of(op) for op in loop.walk() if adds_to(op, value.type)]
                    made = loop.resolve(first)
                    initial = line_of(made.owner) if made and isinstance(made.owner, Op) else 0
                    given = loop.regions[0].entry.ops[-1].operands[value.index]
                    new = loop.resolve(given) or loop.regions[0].entry.ops[-1].resolve(given)
                    if not products and firsts[first] > 1 and (alike := self._most_spilled(loop, first)):
                        line = alike
                        continue
                    if initial and new is not None and isinstance(new.owner, Op):
                        initial = line_of(new.owner)
                    initial = initial or self._assigned(_NUMBERED.sub("", given), line_of(loop))
                    line = products[0] if products else initial or line_of(loop)
        return line

    def _most_spilled(self, loop: Op, first: str) -> int:
        """Of the values that a loop begins with as the same one, the line that makes one in a step and has
        most accesses to local memory; 0 if there is none."""
        yielded = loop.regions[0].entry.ops[-1]
        made = [
            yielded.resolve(given)
            for given, name in zip(yielded.operands, loop.operands[3:], strict=False)
            if name == first
        ]
        lines = {line_of(each.owner) for each in made if each is not None and isinstance(each.owner, Op)}
        spilled = self.counts[self.at(lines - {0})].groupby("line")["local_sectors"].sum()
        return int(cast(int, spilled.idxmax())) if spilled.sum() else 0

    def _assigned(self, value: str, before: int) -> int:
        """The last line before that one that assigns a variable of a value's name, as constants have none."""
        for source in self.analysis.tables.metadata.get("sources") or ():
            lines = str(source.get("text") or "").splitlines()[: max(0, before - source["line"])]
            for at in reversed(range(len(lines))):
                if re.match(rf"\s*{re.escape(value.removeprefix('%'))}\s*[:=]", lines[at]):
                    return int(source["line"]) + at
        return 0

    def has(self, pattern: str, *, loop: bool = False) -> bool:
        """Whether an op of the TTGIR has such a name; loop: in a loop."""
        return any((inside or not loop) and re.search(pattern, op.name) for op, _, inside in self.located_ops)

    @cached_property
    def lines_in_loops(self) -> set[int]:
        """The lines of the ops in loops."""
        return self.lines_of("", loop=True) - {0}

    def lines_with(self, kind: str) -> set[int]:
        """The lines of ops with a result of such a type."""
        return {line for op, line, _ in self.located_ops if any(kind in result.type for result in op.results)}

    @cached_property
    def lines_run_once(self) -> set[int]:
        """The lines of loops whose body runs once in each warp, or in none, as far as the mean tells: what it
        computes in the first step, no other one computes again. `for` loops are unrolled on a GPU, and those
        of a constant number of steps anywhere: there each copy of a step runs once."""
        warps = self.grid * self.warps * int(self.counts["launches"].max()) if len(self.counts) else 0
        found: set[int] = set()
        for loop in self.ttgir_ops:
            if loop.name == "scf.while":
                condition = {line_of(op) for op in loop.regions[0].walk()}
            elif loop.name == "scf.for" and self.emulated and not has_constant_bounds(loop):
                condition = {line_of(loop)}
            else:
                continue
            inside = list(loop.walk())
            again = {line_of(op) for op in inside if loop_around(op) is not loop} - condition  # inner loops
            body = {line_of(op) for op in inside} - again
            executed = self.counts.loc[self.at(body - condition - {0}), "executed"]
            found |= condition | body if len(executed) and executed.median() in (0, warps) else set()
        return found - {0}

    @cached_property
    def divisions(self) -> dict[int, bool]:
        """The lines of integer divisions and remainders, less those by a power of two, which are shifts, and
        whether they are of data, and no access needs them."""
        found = [
            (op, line)
            for op, line, _ in self.located_ops
            if _DIVISION.match(op.name) and not is_power_of_two(op.resolve(op.operands[1]))
        ]
        places = makers_of_places(self.ttgir_ops) if found else set()
        return {line: is_of_data(op) and op not in places for op, line in found}

    def text_of(self, name: str) -> list[str]:
        """The ops of this name, as they are printed."""
        return [str(op) for op, _, _ in self.located_ops if op.name == name]

    def lines_of(self, pattern: str, *, loop: bool = False) -> set[int]:
        """The lines of ops with such names."""
        found = ((line, op.name) for op, line, inside in self.located_ops if inside or not loop)
        return {line for line, name in found if re.search(pattern, name)}


def _run_bytes(access: Op) -> int:
    kind = access.operand_types[0]
    size, bits = _EACH.search(layout_of(access, kind)), _POINTED.search(kind)
    return math.prod(int(each) for each in size[1].split(",")) * int(bits[1]) // 8 if size and bits else 0


def facts_of(judged: KernelAnalysis) -> KernelFacts | None:
    """None for a grid of an unknown size, as of a trace that others have written."""
    tables, kernel, variant = judged.tables, judged.kernel, judged.variant
    first, about, build = judged.launches.iloc[0], judged.configuration, judged.build("bare")
    grid = math.prod(int(first[name]) for name in ("grid_x", "grid_y", "grid_z", "num_ctas"))  # beyond int32
    if grid <= 0:
        return None
    counters, counts, samples, ctas = (
        table[(table["kernel"] == kernel) & (table["variant"] == variant)]
        for table in (tables.counters, tables.counts, tables.samples, tables.ctas)
    )
    samples = samples[samples["binary"].astype("str") == "bare"]
    samples = samples if samples["samples"].sum() >= thresholds.FEWEST_SAMPLES else samples[:0]
    values = dict(zip(counters["counter"].astype("str"), counters["value"].astype(float), strict=True))
    used = _used(judged, counters, counts)
    needed = [used.get(name, np.nan) for name in _NEEDED] + [
        values.get(name, np.nan) for name in _NEEDED_COUNTERS
    ]
    ttgir = _text_of(judged, "ttgir")
    is_known = (np.isfinite(needed).all(), len(counts) > 0, len(samples) > 0, bool(ttgir), len(ctas) > 0)
    known = frozenset(name for name, seen in zip(WITNESSES, is_known, strict=True) if seen)
    if "counters" not in known and len(counters) and not tables.emulated:  # some of them alone mislead
        used, values = _used(judged, counters[:0], counts), {}
    return KernelFacts(
        kernel=kernel,
        variant=variant,
        known=known,
        used={name: float(value) for name, value in used.items() if np.isfinite(value)},
        counters={name: value for name, value in values.items() if np.isfinite(value)},
        counts=in_words_of_sass(counts),
        samples=samples,
        grid=grid,
        warps=int(about.get("num_warps") or first["num_warps"]),
        stages=int(about.get("num_stages") or 0),
        sms=sm_count_of(tables.metadata) or 0,
        room=int(build.get("ctas_per_sm") or judged.room),
        spills=int(build.get("spills") or 0),
        idle=_idle(judged, values),
        filled=_filled(judged, counts, used) if tables.emulated else 1.0,
        cta_cycles=ctas["duration_cycles"].to_numpy(np.float64),
        ttgir=ttgir,
        ptx=_text_of(judged, "ptx"),
        capability=_capability(str((tables.metadata.get("device") or {}).get("arch") or "")),
        place=judged.place,
        analysis=judged,
    )


def _used(judged: KernelAnalysis, counters: pd.DataFrame, counts: pd.DataFrame) -> dict[str, float]:
    """By resource what part of its peak is used; by counters, else by counts and the time of a launch."""
    key = judged.kernel, judged.variant
    time = None
    if len(counts) and (judged.emulated or not len(counters)):
        time = bare_time(judged.tables, judged.durations, judged.launches, key)
    limits = limits_of(counters, counts, {} if time is None else {key: time})
    return dict(zip(limits["resource"].astype("str"), limits["peak_pct"] / 100, strict=True))


def _filled(judged: KernelAnalysis, counts: pd.DataFrame, used: Mapping[str, float]) -> float:
    """Of the emulator; the time of a launch's part follows from what L1 passes in it."""
    if not used.get("l1") or not judged.durations.notna().any():
        return 1.0
    passed = float((counts["sectors"] / counts["launches"]).sum()) / thresholds.LINE_SECTORS  # in cycles
    cycles = passed / (used["l1"] * max(1, sm_count_of(judged.tables.metadata)))
    return min(1.0, cycles / max(1.0, float(judged.durations.median())))


def _idle(judged: KernelAnalysis, counters: Mapping[str, float]) -> float:
    """By the samples of the bare binary and the time of a launch by counters; 0 if one of them is unknown."""
    sampler, sms = judged.tables.metadata.get("sampler") or {}, sm_count_of(judged.tables.metadata)
    cycles = counters.get("time", 0.0) * 1e-9 * counters.get("clock", 0.0)
    for binary in sampler.get("binaries") or ():
        of = binary.get("kernel"), binary.get("variant"), binary.get("binary")
        periods: list[float] = binary.get("period_cycles") or []
        launches = int(binary.get("launches") or 0)
        if of == (judged.kernel, judged.variant, "bare") and len(periods) == 1 and launches and sms:
            taken = int(binary.get("samples") or 0) + int(binary.get("dropped") or 0)
            whole = launches * sms * cycles / periods[0]
            return max(0.0, 1 - taken / whole) if taken and math.isfinite(whole) and whole > 0 else 0.0
    return 0.0


def _capability(arch: str) -> int:
    """Of "sm_90a": 90; 0 if unknown."""
    number = arch.removeprefix("sm_").rstrip("af")
    return int(number) if number.isdecimal() else 0


def _text_of(judged: KernelAnalysis, stage: str) -> str:
    """What the compiler made: the text of the configuration, or of the kernel's only one; "" if unknown."""
    code = [each for each in judged.tables.metadata.get("code") or () if each.get("kernel") == judged.kernel]
    key = judged.configuration.get("key")
    own = next((each for each in code if each.get("key") == key), code[0] if len(code) == 1 else None)
    text = None if own is None else own.get(stage)
    if not text:
        return ""
    try:
        return unpacked(text)
    except IRError:  # damaged: what needs it is left out
        return ""
