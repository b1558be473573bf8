"""progress: has each warp say where it is, so that the host can read it while the kernel runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from profscope.instrument_passes.analyses.places import Places, awaited, op_name
from profscope.instrument_passes.analyses.waiting import Wait, arrivals_at, polls_of, wait_of
from profscope.instrument_passes.analyses.walk import (
    LOOPS,
    constant_of,
    kernel_of,
    program_of,
    recordable_regions,
)
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Block, Module, Op, Region, flow
from profscope.instrument_passes.ir.tokens import quote
from profscope.instrument_passes.lowering.builder import fill_holes, hole
from profscope.instrument_passes.lowering.prologue import allocate, given_address, lines
from profscope.instrument_passes.manifest import ATTRIBUTE, Manifest, Section
from profscope.instrument_passes.ops import info_of
from profscope.instrument_passes.passes import LOWERS, Pass, PassContext, register
from profscope.instrument_passes.passes.lower_records import warps_of
from profscope.instrument_passes.progress import (
    COUNTERS,
    LAUNCH_SHIFT,
    MAX_PLACES,
    PLACE_SHIFT,
    SLOT,
    Arrival,
    ProgressMark,
)
from profscope.instrument_passes.records import byte_offset
from profscope.instrument_passes.targets import Target, target_of

__all__ = ["Progress"]

_TIMELESS: Final = ("scalar", "view", "alloc", "hint")
_ENDS: Final = ("tt.return", "ttg.warp_return")


@register
@dataclass(frozen=True)
class Progress(Pass):
    """Has each warp store where it is: before and behind each op that can wait, and at iterations of loops.

    The host reads it while the kernel runs (`profscope.session(hang_s=10)`). It takes the place of
    lower-records.
    """

    name: ClassVar[str] = "progress"
    rank: ClassVar[int] = LOWERS

    def apply(self, module: Module, context: PassContext) -> None:
        kernel = kernel_of(module)
        Writer(module, kernel, context).run()


@dataclass(frozen=True)
class _Warp:
    """A warp program, and SSA names of what it stores with. section: its index; leads: i1, the lane that
    does."""

    section: int
    slot: str
    number: str
    cta: str
    launch: str
    leads: str


@dataclass(frozen=True)
class _Loop:
    """The innermost loop around an op. iteration: i32; mark: number of the mark before the loop, -1 without
    one; polls: whether it is in a loop that polls."""

    iteration: str
    mark: int = -1
    polls: bool = False


class Writer:
    """Marks of one module. marks: in the order of their numbers."""

    def __init__(self, module: Module, kernel: Op, context: PassContext) -> None:
        self.module = module
        self.kernel = kernel
        self.context = context
        self.target: Target = target_of(module)
        self.places = Places(context.functions)
        self.awaited = awaited(module)
        self.arrivals = arrivals_at(module)
        self.polls = polls_of(module)
        self.marks: list[ProgressMark] = []
        self.section_of: dict[Region, int] = {kernel.regions[0]: 0}
        self.word, self.cta = module.fresh("ps_word"), module.fresh("ps_cta")  # i64 `COUNTERS.slots`; i32

    def run(self) -> None:
        """A kernel that cannot hang stays as it is, with a manifest that has no sections.

        Raises PassError if the kernel has more places than a mark can name, or its target has no marks.
        """
        module, name = self.module, self.kernel.symbol or ""
        if not self.target.has_marks:
            raise PassError(f"marks of progress are for NVIDIA GPUs only, not for {self.target.name}")
        if not any(op.name in LOOPS or wait_of(op, self.awaited, polls=False) for op in self.kernel.walk()):
            manifest = Manifest(name, self.target.name, warps_of(module, self.kernel), 0, 0, ())
            module.set_attr(ATTRIBUTE, quote(manifest.to_json()))
            return
        specialised = [op for op in self.kernel.walk() if op.name == "ttg.warp_specialize"]
        sections = [Section("kernel", module.integer("ttg.num-warps"), (), ())]
        for op in specialised:
            for partition in flow.partitions(op):
                self.section_of[partition.region] = len(sections)
                sections.append(Section(f"partition{partition.index}", partition.num_warps, (), ()))
        self._kernel()
        for op in specialised:
            words, ctas = flow.add_capture(op, self.word, "i64"), flow.add_capture(op, self.cta, "i32")
            for region, word, cta in zip(op.regions[1:], words, ctas, strict=True):
                self._program(region, word, cta, "")
        if len(self.marks) > MAX_PLACES:
            raise PassError(
                f"the kernel has {len(self.marks)} places that could hang, more than {MAX_PLACES}"
            )
        manifest = Manifest(
            name, self.target.name, warps_of(module, self.kernel), 0, 0, tuple(sections),
            marks=tuple(self.marks),
        )  # fmt: skip
        fill_holes(module, manifest)
        module.set_attr(ATTRIBUTE, quote(manifest.to_json()))

    def _kernel(self) -> None:
        """The kernel's body: it also finds the launch's counters, and counts its CTA."""
        p, target = self.module.fresh("ps"), self.target
        buffer, raw = f"{p}_buffer", f"{p}_raw"
        found = f"""
            {allocate(buffer)}
            {given_address(p, target, buffer, self.cta, raw, wide=self.context.triton >= (3, 8))}
            {p}_no_launch = arith.constant 0 : i64
            {p}_watched = arith.cmpi ne, {raw}, {p}_no_launch : i64
            {p}_counters = tt.bitcast {p}_given : !tt.ptr<i8> -> !tt.ptr<i64>
            {self.word} = tt.load {p}_counters, {p}_watched, {p}_no_launch : !tt.ptr<i64>
            {target.thread_id(f"{p}_thread")}
            {p}_first = arith.constant 0 : i32
            {p}_is_first = arith.cmpi eq, {p}_thread, {p}_first : i32
            {p}_counts = arith.andi {p}_is_first, {p}_watched : i1
            {target.count(f"{p}_none", raw, byte_offset(COUNTERS, "begun"), f"{p}_counts")}
            """
        region = self.kernel.regions[0]
        self._program(region, self.word, self.cta, found)
        ended = byte_offset(COUNTERS, "ended")
        for block in region.blocks:
            end = block.terminator
            if end is not None and end.name == "tt.return":
                end.insert_before(target.count(self.module.fresh("ps_none"), raw, ended, f"{p}_counts"))

    def _program(self, region: Region, word: str, cta: str, before: str) -> None:
        """A warp program. word, cta: as they are called there."""
        p, target = self.module.fresh("ps"), self.target
        section, zero = self.section_of[region], f"{p}_zero"
        warp = _Warp(section, f"{p}_slot", f"{p}_warp", cta, f"{p}_launch", f"{p}_leads")
        for block in region.blocks:
            self._block(block, warp, _Loop(zero))
        set_up = f"""
            {before}
            {target.thread_id(f"{p}_tid")}
            {zero} = arith.constant 0 : i32
            {p}_digest = arith.constant {hole("digest") if section == 0 else 0} : i32
            {p}_lanes = arith.constant {target.lanes - 1} : i32
            {p}_log2 = arith.constant {target.lanes.bit_length() - 1} : i32
            {p}_lane = arith.andi {p}_tid, {p}_lanes : i32
            {warp.number} = arith.shrui {p}_tid, {p}_log2 : i32
            {p}_shift = arith.constant {LAUNCH_SHIFT} : i64
            {p}_top = arith.shrui {word}, {p}_shift : i64
            {warp.launch} = arith.trunci {p}_top : i64 to i32
            {p}_leader = arith.cmpi eq, {p}_lane, {zero} : i32
            {p}_seen = arith.cmpi ne, {warp.launch}, {zero} : i32
            {warp.leads} = arith.andi {p}_leader, {p}_seen : i1
            {target.slot(warp.slot, word)}
            {self._mark(ProgressMark("begin", section), warp, f"{p}_digest")}
            """
        region.entry.prepend(lines(set_up))

    # One block.

    def _block(self, block: Block, warp: _Warp, loop: _Loop) -> None:
        """Marks of a block and of those in its ops. One that another follows at once is left out."""
        latest: list[Op] = []  # the ops of the last mark, as long as nothing else has run since
        for op in tuple(block.ops):
            wait = wait_of(op, self.awaited, polls=loop.polls)
            if op.name in _ENDS:
                op.insert_before(self._mark_at("end", op, warp, loop))
                _drop(latest)
            elif op.name in LOOPS:
                _drop(latest)
                latest = self._loop(op, warp, loop)
            elif wait is not None:
                _drop(latest)
                at = self._mark_at("at", op, warp, loop, wait)
                op.insert_before(f"{self._detail(warp, wait)}\n{at}".strip())
                is_end = op.name == "ttg.warp_yield"
                latest = [] if is_end else op.insert_after(self._mark_at("past", op, warp, loop))
            else:
                inner = _inside(op)
                for region in inner:
                    for each in region.blocks:
                        self._block(each, warp, loop)
                info = info_of(op)
                if op.name == "ttg.warp_specialize":
                    op.insert_after(self._mark_at("past", op, warp, loop))
                if inner or info is None or info.cls not in (*_TIMELESS, "control"):
                    latest = []
                elif info.cls == "control" and op is block.terminator and block.parent_op is not None:
                    _drop(latest if block.parent_op.name in LOOPS else [])

    def _loop(self, loop: Op, warp: _Warp, around: _Loop) -> list[Op]:
        """Its iterations, counted; returns the mark behind it."""
        p, number = self.module.fresh("ps"), len(self.marks)
        before = [
            f"{p}_none = arith.constant 0 : i32",
            f"{p}_next = arith.constant 1 : i32",
            self._mark_at(self.polls.get(loop, "loop"), loop, warp, around),
        ]
        is_outermost = around.mark < 0
        if is_outermost:
            before += [self._total(loop, p), self._far(warp, f"{p}_total", f"{p}_none")]
        loop.insert_before("\n".join(before))
        has_inner = any(inner.name in LOOPS for inner in loop.walk() if inner is not loop)
        carried = flow.carry(loop, [f"{p}_none"])
        (inside,) = carried.inside
        polls = around.polls or loop in self.polls
        blocks = [(loop.regions[-1].entry, _Loop(inside, number, polls))]
        if loop.name == "scf.while":  # what it polls is in its condition
            condition = loop.regions[0].entry
            blocks.insert(0, (condition, _Loop(condition.args[-1].name, number, polls)))
        first, within = blocks[0]
        far = self._far(warp, f"{p}_total", within.iteration) if is_outermost and has_inner else ""
        mark = self._mark_at("iteration", loop, warp, within)
        for block, in_block in blocks:
            self._block(block, warp, in_block)
        first.prepend(f"{far}\n{mark}".strip())
        carried.end.insert_before(f"{p}_later = arith.addi {inside}, {p}_next : i32")
        flow.hand_on(loop, [f"{p}_later"])
        return loop.insert_after(self._mark_at("past", loop, warp, around))

    def _total(self, loop: Op, p: str) -> str:
        """Text of `_total`, i32: how many iterations a loop will have, 0 if that takes long to know."""
        if loop.name == "scf.for":
            read = flow.read_for(loop)
            step, kind = constant_of(loop, read.step), read.induction_type or "i32"
            if step is not None and step > 0 and kind in ("i32", "i64"):
                narrow = f"""
                    {p}_most = arith.constant {(1 << 31) - 1} : i64
                    {p}_fits = arith.cmpi ule, {p}_wide, {p}_most : i64
                    {p}_low = arith.trunci {p}_wide : i64 to i32
                    {p}_count = arith.select {p}_fits, {p}_low, {p}_none : i32
                    """
                last = narrow if kind == "i64" else ""
                out = f"{p}_wide" if kind == "i64" else f"{p}_count"
                return f"""
                    {p}_step = arith.constant {step} : {kind}
                    {p}_more = arith.constant {step - 1} : {kind}
                    {p}_length = arith.subi {read.upper}, {read.lower} : {kind}
                    {p}_rounded = arith.addi {p}_length, {p}_more : {kind}
                    {out} = arith.divsi {p}_rounded, {p}_step : {kind}
                    {last}
                    {p}_total = arith.maxsi {p}_count, {p}_none : i32
                    """
        return f"{p}_total = arith.constant 0 : i32"

    # Text of one mark.

    def _mark_at(self, kind: str, op: Op, warp: _Warp, loop: _Loop, wait: Wait | None = None) -> str:
        place = self.places.of(op)
        arrivals = [] if wait is None or op.name != "ttng.wait_barrier" else self.arrivals(op)
        mark = ProgressMark(
            kind, warp.section, op.name, op_name(op, self.places, self.awaited), place.file, place.line,
            loop.mark,
            "" if wait is None else wait.waits_for,
            "" if wait is None else wait.detail,
            tuple(self._arrival(each) for each in arrivals),
        )  # fmt: skip
        return self._mark(mark, warp, loop.iteration)

    def _arrival(self, op: Op) -> Arrival:
        place = self.places.of(op)
        region = program_of(op)
        section = 0 if region is None else self.section_of.get(region, 0)
        return Arrival(section, op.name, place.file, place.line)

    def _mark(self, mark: ProgressMark, warp: _Warp, iteration: str) -> str:
        p = self.module.fresh("ps")
        words = [f"{p}_word", iteration, warp.cta, warp.launch]
        number = len(self.marks) << PLACE_SHIFT
        self.marks.append(mark)
        return lines(
            f"""
            {p}_at = arith.constant {number} : i32
            {p}_word = arith.ori {p}_at, {warp.number} : i32
            {self.target.store_now(f"{p}_none", warp.slot, 0, words, warp.leads)}
            """
        )

    def _detail(self, warp: _Warp, wait: Wait) -> str:
        if not wait.values:
            return ""
        p = self.module.fresh("ps")
        names = [value.name for value in wait.values]
        split = ""
        if wait.detail == "address":
            split = f"""
                {p}_address = tt.ptr_to_int {names[0]} : {wait.values[0].type} -> i64
                {p}_half = arith.constant 32 : i64
                {p}_upper = arith.shrui {p}_address, {p}_half : i64
                {p}_low = arith.trunci {p}_address : i64 to i32
                {p}_high = arith.trunci {p}_upper : i64 to i32
                """
            names = [f"{p}_low", f"{p}_high"]
        elif wait.detail == "phase":
            names *= 2
        at = byte_offset(SLOT, "detail")
        return lines(f"{split}\n{self.target.store_now(f'{p}_none', warp.slot, at, names, warp.leads)}")

    def _far(self, warp: _Warp, total: str, iteration: str) -> str:
        """Text that stores how far the outermost loop is."""
        at, none = byte_offset(SLOT, "iterations"), self.module.fresh("ps_none")
        return self.target.store_now(none, warp.slot, at, [total, iteration], warp.leads)


def _inside(op: Op) -> list[Region]:
    """The regions that the op's own warps run: partitions are other warps' programs."""
    regions = recordable_regions(op)
    return regions[:1] if op.name == "ttg.warp_specialize" else regions


def _drop(mark: list[Op]) -> None:
    """Take the ops of a mark away that another mark follows at once."""
    for op in mark:
        op.erase()
