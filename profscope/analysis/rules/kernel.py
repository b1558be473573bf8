"""The input of rules: one configuration of a kernel, with its table, graph, resources and launch; and how
ops use values."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.evidence_table import WARP_LANES, EvidenceTable, Mask, Place, evidence_table
from profscope.analysis.kernels.devices import PIPES, sm_count_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis
from profscope.analysis.limits import bare_time, limits_of
from profscope.analysis.resources import Resources
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.without_counters import idle_of, use_of, waits_of
from profscope.analysis.variants import rows_of
from profscope.instrument_passes.analyses.graph import AXES, DIVISIONS, Dependence, Graph, Node, Value
from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir.parser import parse
from profscope.instrument_passes.kept_text import unpacked

__all__ = [
    "ACCESSES",
    "CASTS",
    "DOTS",
    "FROM_GLOBAL",
    "FROM_INTEGER",
    "WITNESSES",
    "Kernel",
    "computed_by",
    "divisions",
    "is_dot",
    "is_elementwise",
    "is_load",
    "is_store",
    "kernel_of",
    "missing",
]

WITNESSES: Final = {
    "traffic": "DRAM's traffic: hardware counters tell it; session(evidence=True) reads them",
    "use": "use of resources: session(evidence=True) reads counters; without permission, ['records']",
    "counts": "instruction counts: session(evidence=True) takes them",
    "waits": "waits: session(evidence=True) takes PC samples; without permission, ['experiments']",
    "ttgir": "TTGIR: the profile has none that can be read",
    "ctas": "CTAs: when they ran is unknown",
}
"""What may be known of a kernel, and how it is said that it is not: what DRAM moves, by counters; how busy
resources are, by counters, else by the kernel's own counts; instruction counts, CUPTI's or its own; what
warps wait for, by PC samples (on the emulator the cycles of its cost model), else by experiments; the TTGIR,
and the begins and ends of CTAs."""
_ON_THE_EMULATOR: Final = "hardware counters: the emulator has no caches and no registers"
_OF_COUNTERS: Final = ("traffic", "use")
# Without these nothing can be concluded from counters: resources, and counters.
_NEEDED: Final = ("dram", "l2", "issue")
_NEEDED_COUNTERS: Final = ("time", "dram_read", "dram_write")

DOTS: Final = r"tt\.dot(_scaled)?$|warp_group_dot$"
"""Products of matrices."""
FROM_GLOBAL: Final = ("tt.load", "ttg.async_copy_global_to_local")
"""Ops that load from global memory, by pointers."""
ACCESSES: Final = (*FROM_GLOBAL, "tt.store")
_BY_POINTERS: Final = r"tt\.(load|store|atomic_\w+)$|ttg\.async_copy_global_to_local$"
_POINTED: Final = re.compile(r"ptr<[a-zA-Z]+(\d+)")
_EACH: Final = re.compile(r"sizePerThread = \[([\d, ]+)\]")
_ONE_ARGUMENT: Final = re.compile(r"\*?\w+")  # a type: neither a tuple's nor a descriptor's
_REGISTERS: Final = 1 << 16  # of an SM
_EMPTY: Final = "module {\n}\n"


@dataclass(frozen=True, eq=False)
class Kernel:
    """known: of WITNESSES, those that saw it. waits_basis: who has: "samples", "experiments" or "" if none
    has. grid: CTAs of a launch; sides: programs by axis. warps, stages: as compiled. sms: of the device.
    room: CTAs that fit on an SM, 0 if unknown. spills: registers. capability: 90 for 9.0, 0 if unknown.
    balance: as `used`; on the emulator, whose launches are small, what a launch that fills a GPU would use by
    its counts. cta_cycles: durations of CTAs. place: file and line of the kernel. analysis: its spans.
    experiments: its rows of `prof.experiments`."""

    known: frozenset[str]
    waits_basis: str
    table: EvidenceTable
    graph: Graph
    resources: Resources
    ptx: str
    grid: int
    sides: Mapping[str, int]
    warps: int
    stages: int
    sms: int
    room: int
    spills: int
    capability: int
    balance: Mapping[str, float]
    cta_cycles: NDArray[np.float64]
    place: Place
    analysis: KernelAnalysis
    experiments: pd.DataFrame

    @property
    def emulated(self) -> bool:
        return self.analysis.emulated

    @property
    def counters(self) -> Mapping[str, float]:
        return self.resources.counters

    @property
    def used(self) -> Mapping[str, float]:
        return self.resources.used

    @property
    def waves(self) -> float:
        """CTAs of the grid over those that fit on the device; 0 if that is not known."""
        return self.grid / (self.sms * self.room) if self.room and self.sms else 0.0

    @property
    def room_by_registers(self) -> int:
        """CTAs that fit on an SM if only registers limit them; 0 if that is not known."""
        registers = int(self.analysis.build("bare").get("registers") or 0)
        return _REGISTERS // (registers * WARP_LANES * self.warps) if registers and self.warps else 0

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return WARP_LANES * self.warps

    # Lines.

    def at(self, lines: Collection[int]) -> Mask:
        """The rows of the table at these lines of the kernel's file."""
        return self.table.at_lines(self.place[0], lines)

    def line(self, number: int) -> Place:
        """A line of the kernel's file; the kernel's, if it is not known."""
        return (self.place[0], number) if number else self.place

    @cached_property
    def lines_in_loops(self) -> set[int]:
        return self.graph.lines("", loop=True)

    def saved(self, experiment: str, place: Place) -> float:
        """The part of the time that a valid experiment at a line saved; 0 if there is none."""
        rows = self.experiments
        here = (rows["file"] == place[0]) & (rows["line"] == place[1]) & rows["valid"]
        saved = rows.loc[here & (rows["experiment"] == experiment), "saved_pct"].tolist()
        return max(map(float, saved), default=0.0) / 100

    def accesses_at(self, line: int) -> list[Node]:
        """The ops that load or store at a line."""
        return [node for node in self._accesses if node.line == line]

    def addresses_at(self, line: int) -> list[Dependence]:
        """The sources of their addresses."""
        return [self.graph.depends(node.operands[0]) for node in self.accesses_at(line)]

    @cached_property
    def _accesses(self) -> list[Node]:
        return [node for node in self.graph.nodes if node.name in ACCESSES and node.operands]

    def run_bytes(self, line: int) -> int:
        """Adjacent bytes that a thread loads or stores at a line, by the layouts there, if their addresses
        are adjacent; 0 if unknown."""
        return max(map(self._run_bytes, self.accesses_at(line)), default=0)

    def _run_bytes(self, access: Node) -> int:
        kind = access.operands[0].type
        size, bits = _EACH.search(self.graph.layout(kind)), _POINTED.search(kind)
        return math.prod(int(each) for each in size[1].split(",")) * int(bits[1]) // 8 if size and bits else 0

    @cached_property
    def divisions(self) -> dict[int, bool]:
        return divisions(self.graph)

    # Tensors.

    @cached_property
    def tensor_bytes(self) -> dict[int, int]:
        """By the position of an argument of the kernel, the bytes of its tensor. Tuples and descriptors are
        several arguments each: those behind one are unknown."""
        sizes = tensor_bytes_of(self.analysis)
        kinds = self.analysis.configuration.get("signature") or {}
        given = [(name, str(kind)) for name, kind in kinds.items() if kind != "constexpr"]
        alone = takewhile(lambda each: _ONE_ARGUMENT.fullmatch(each[1]), given)
        return {at: sizes[name] for at, (name, _) in enumerate(alone) if name in sizes}

    def bytes_of(self, arguments: Collection[int] | None) -> float:
        """The bytes of these arguments' tensors; infinite if one of them is not known."""
        if not arguments:
            return math.inf
        return sum(self.tensor_bytes.get(at) or math.inf for at in arguments)


def tensor_bytes_of(judged: KernelAnalysis) -> Mapping[str, int]:
    """By name, the bytes of the tensors that a configuration was launched with."""
    told = (judged.tables.metadata.get("evidence") or {}).get("tensors") or ()
    of = judged.kernel, judged.configuration.get("key")
    sizes: Mapping[str, int] = next(
        (each["bytes"] for each in told if (each["kernel"], each["key"]) == of), {}
    )
    return sizes


def divisions(graph: Graph) -> dict[int, bool]:
    """The lines of integer divisions and remainders, less those by a power of two, which are shifts, and
    whether they are of data, and no access needs them."""
    found = [
        node for node in graph.named(DIVISIONS.pattern)
        if (graph.constant(node.operands[1]) or 0).bit_count() != 1
    ]  # fmt: skip
    if not found:
        return {}
    needed = graph.backward(
        operand
        for access in graph.named(_BY_POINTERS)
        for operand in access.operands
        if "ptr<" in operand.type or "xi1" in operand.type
    )
    places = set(needed)
    return {
        node.line: node.size > 0 and graph.depends(*node.operands).of_data and node not in places
        for node in found
    }


def kernel_of(judged: KernelAnalysis) -> Kernel | None:
    """None for a grid of an unknown size, as of a trace that others have written."""
    tables, first = judged.tables, judged.launches.iloc[_typical(judged.launches)]
    grid = math.prod(int(first[name]) for name in ("grid_x", "grid_y", "grid_z", "num_ctas"))  # beyond int32
    if grid <= 0:
        return None
    counters, counts, samples, ctas, experiments = (
        rows_of(table, judged.kernel, judged.variant)
        for table in (tables.counters, tables.counts, tables.samples, tables.ctas, tables.experiments)
    )
    samples = samples[samples["binary"].astype("str") == "bare"] if len(samples) else samples
    samples = samples if samples["samples"].sum() >= thresholds.FEWEST_SAMPLES else samples[:0]
    values = dict(zip(counters["counter"].astype("str"), counters["value"].astype(float), strict=True))
    used = _used(judged, counters, counts)
    needed = [used.get(name, np.nan) for name in _NEEDED] + [
        values.get(name, np.nan) for name in _NEEDED_COUNTERS
    ]
    ttgir, about, build = text_of(judged, "ttgir"), judged.configuration, judged.build("bare")
    is_counted = bool(np.isfinite(needed).all())
    table = evidence_table(counts, samples)
    if not is_counted and not tables.emulated:  # some counters alone mislead
        by_counts = _used(judged, counters[:0], counts) if len(counters) else used
        reach = sum(tensor_bytes_of(judged).values()) or math.inf
        used, values = use_of(judged, by_counts, table, experiments, reach)
    basis = "samples" if len(samples) else ""
    idle = _idle(judged, values) if len(samples) or tables.emulated else _idle_by_ctas(judged, ctas, grid)
    if not len(samples) and not tables.emulated:
        busy = max((used.get(name, 0.0) for name in ("issue", *PIPES)), default=0.0)
        table = waits_of(table, experiments, busy)
        basis = "experiments" if table.stalls else ""
    is_known = (
        is_counted, is_counted or bool(values), len(counts) > 0, bool(basis), bool(ttgir), len(ctas) > 0
    )  # fmt: skip
    known = frozenset(name for name, seen in zip(WITNESSES, is_known, strict=True) if seen)
    warps, sms = int(about.get("num_warps") or first["num_warps"]), sm_count_of(tables.metadata) or 0
    room = int(build.get("ctas_per_sm") or judged.room)
    residents = min(room, math.ceil(grid / sms)) if sms else room
    values = {name: value for name, value in values.items() if np.isfinite(value)}
    return Kernel(
        known=known,
        waits_basis=basis,
        table=table,
        graph=_graph(ttgir),
        resources=Resources(
            table,
            used={} if judged.emulated else used,
            counters=values,
            idle=idle,
            resident_warps=values.get("occupancy", float(residents * warps)),
        ),
        ptx=text_of(judged, "ptx"),
        grid=grid,
        sides={axis: int(first[f"grid_{axis}"]) for axis in AXES},
        warps=warps,
        stages=int(about.get("num_stages") or 0),
        sms=sms,
        room=room,
        spills=int(build.get("spills") or 0),
        capability=_capability(str((tables.metadata.get("device") or {}).get("arch") or "")),
        balance=used,
        cta_cycles=ctas["duration_cycles"].to_numpy(np.float64),
        place=judged.place,
        analysis=judged,
        experiments=experiments,
    )


def _typical(launches: pd.DataFrame) -> int:
    """The number of the first launch of the grid that took most of the time."""
    took = (launches["end_ns"] - launches["start_ns"]).to_numpy()
    grids = np.stack([launches[f"grid_{axis}"].to_numpy() for axis in AXES])
    _, grid = np.unique(grids, axis=1, return_inverse=True)
    return int(np.bincount(grid.ravel(), took)[grid.ravel()].argmax())


def missing(kernel: Kernel) -> list[str]:
    """A line for each witness that did not see the configuration."""
    return [
        _ON_THE_EMULATOR if witness in _OF_COUNTERS and kernel.emulated else how
        for witness, how in WITNESSES.items()
        if witness not in kernel.known
    ]


def _graph(ttgir: str) -> Graph:
    """Empty for a text of a dialect that is not known."""
    try:
        return Graph(parse(ttgir or _EMPTY))
    except IRError:
        return Graph(parse(_EMPTY))


def _used(judged: KernelAnalysis, counters: pd.DataFrame, counts: pd.DataFrame) -> dict[str, float]:
    """By resource what part of its peak is used; by counters, else by counts and the time of a launch."""
    if not len(counters) and not len(counts):
        return {}
    key = judged.kernel, judged.variant
    time = None
    if len(counts) and (judged.emulated or not len(counters)):
        time = bare_time(judged.tables, judged.durations, judged.launches, key)
    limits = limits_of(counters, counts, {} if time is None else {key: time})
    known = limits[np.isfinite(limits["peak_pct"])]
    return {
        str(name): float(pct) / 100 for name, pct in zip(known["resource"], known["peak_pct"], strict=True)
    }


def _idle(judged: KernelAnalysis, counters: Mapping[str, float]) -> float:
    """By the samples of the bare binary and the time of a launch by counters: the sampler takes a sample of
    each SM every period in which a warp is on it; 0 if one of them is unknown."""
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


def _idle_by_ctas(judged: KernelAnalysis, ctas: pd.DataFrame, grid: int) -> float:
    """By the times of CTAs; without such a table, as in another tool's trace, of those with spans."""
    of_spans = judged.whole and not len(judged.tables.ctas)
    return idle_of(judged.ctas if of_spans else ctas, grid, sm_count_of(judged.tables.metadata))


def _capability(arch: str) -> int:
    """Of "sm_90a": 90; 0 if unknown."""
    number = arch.removeprefix("sm_").rstrip("af")
    return int(number) if number.isdecimal() else 0


def text_of(judged: KernelAnalysis, stage: str) -> str:
    """The compiler's output: the text of the configuration, or of the kernel's only one; "" if unknown."""
    code: list[dict[str, Any]] = [
        each for each in judged.tables.metadata.get("code") or () if each.get("kernel") == judged.kernel
    ]
    key = judged.configuration.get("key")
    own = next((each for each in code if each.get("key") == key), code[0] if len(code) == 1 else None)
    text = None if own is None else own.get(stage)
    if not text:
        return ""
    try:
        return unpacked(text)
    except IRError:  # damaged: what needs it is left out
        return ""


CASTS: Final = re.compile(r"arith\.(extf|truncf|sitofp|uitofp|fptosi|fptoui)$|tt\.fp_to_fp$")
"""Ops that convert numbers from one type to another."""
FROM_INTEGER: Final = ("arith.sitofp", "arith.uitofp")
_ELEMENTWISE: Final = re.compile(
    r"(arith|math)\.|tt\.(fp_to_fp|splat|broadcast|expand_dims|reshape|trans|split|join|cat)$"
    r"|ttg\.(convert_layout|local_alloc|memdesc_\w+)$"
)
_STORES: Final = re.compile(
    r"tt\.(store|descriptor_store)$|ttg\.local_store$|async_tma_copy_local_to_global$"
)
_LOADS: Final = ("tt.load", "tt.descriptor_load", "ttg.local_load")


def is_elementwise(node: Node) -> bool:
    """Whether each element of its result is computed of one of each operand, in whatever place or shape."""
    return _ELEMENTWISE.match(node.name) is not None


def is_dot(node: Node) -> bool:
    return re.search(DOTS, node.name) is not None


def is_store(node: Node) -> bool:
    return _STORES.search(node.name) is not None


def is_load(node: Node) -> bool:
    """Whether it brings data to registers."""
    return node.name in _LOADS


def computed_by(value: Value, loop: Node) -> tuple[list[Node], bool]:
    """The ops of a loop that compute a value, back to loads, and whether it depends on a value of the
    previous step."""
    left, seen, found, is_carried = [value], set[Value](), list[Node](), False
    while left:
        each = left.pop()
        if each in seen:
            continue
        seen.add(each)
        if each.maker is None:
            is_carried |= each.around is loop and not each.is_counter
        elif each.maker is not loop and each.maker.is_in(loop):
            found.append(each.maker)
            left += [] if is_load(each.maker) else each.maker.operands
    return list(dict.fromkeys(found)), is_carried
