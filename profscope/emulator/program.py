"""A kernel ready to run: parsed, analysed and translated once a PTX text, loaded once a binary."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import CodeType

import numpy as np

from profscope.emulator.arrays import Array
from profscope.emulator.machine.block import Schedule, Site, TranslatedBlock
from profscope.emulator.machine.counts import Counted, LaunchCounts
from profscope.emulator.machine.memory import Allocation
from profscope.emulator.machine.transactions import Touched
from profscope.emulator.ptx_parser import parse
from profscope.emulator.ptx_syntax import Immediate, Module
from profscope.emulator.translation.flow import build
from profscope.emulator.translation.graph import Block, Graph
from profscope.emulator.translation.plan import Plan, constant
from profscope.emulator.translation.timing import schedule
from profscope.emulator.translation.writer import BlockWriter
from profscope.errors import EmulatorError

__all__ = ["Program", "load"]


@dataclass(frozen=True, eq=False)
class Program:
    """A function that is loaded: two are equal only if they are the same one.

    `variables` are the module's own global arrays; `static_shared` is the bytes of its sized shared ones.

    `counted` are the instructions that it would have without records, and `predicates` how many predicates
    switch some of them off. `schedule` gives the cycles of its blocks with so many warps on an SM.
    """

    name: str
    ptx: bytes
    graph: Graph
    blocks: list[TranslatedBlock]
    initial: list[Array]
    variables: list[Allocation]
    static_shared: int
    counted: tuple[Counted, ...]
    predicates: int
    schedule: Callable[[int], Schedule]

    def new_counts(self, touched: Touched, schedule: Schedule) -> LaunchCounts:
        """Counts of a launch that begins."""
        return LaunchCounts.of(schedule, touched, len(self.blocks), self.predicates, len(self.counted))


def load(ptx: bytes, name: str) -> Program:
    """The kernel `name` of a PTX text. Raises EmulatorError if it cannot be read or executed.

    Each call returns another function, as on a GPU: binaries of several configurations may have one text.
    """
    return replace(_translated(ptx, name))


@functools.lru_cache(maxsize=256)
def _translated(ptx: bytes, name: str) -> Program:
    try:
        module = parse(ptx.decode())
        graph = build(module, name)
        variables, symbols, static_shared = _variables(module)
        plan = Plan(graph, symbols)
        writers = [BlockWriter(plan, number) for number in range(len(graph.blocks))]
        functions = [_function(name, f"block_{number}", writer) for number, writer in enumerate(writers)]
        blocks = [_block(*parts) for parts in zip(graph.blocks, functions, writers, strict=True)]
    except EmulatorError as error:
        raise EmulatorError(f"{name}: {error}") from error
    return Program(
        name=name,
        ptx=ptx,
        graph=graph,
        blocks=blocks,
        initial=[constant(0, kind) for kind in plan.slot_kinds],
        variables=variables,
        static_shared=static_shared,
        counted=tuple(plan.counted),
        predicates=plan.predicates,
        schedule=functools.cache(
            functools.partial(schedule, tuple(writer.block_steps for writer in writers))
        ),
    )


def _variables(module: Module) -> tuple[list[Allocation], dict[str, int], int]:
    """The global variables' memory, each variable's address, and the bytes of sized shared variables."""
    allocations = []
    symbols = {}
    shared = 0
    for variable in module.variables.values():
        if variable.space == "shared":
            symbols[variable.name] = shared if variable.data is not None else 0
            shared += (variable.size + 15) // 16 * 16
            continue
        data = np.zeros(len(variable.data or b"") + 16, np.uint8)
        start = (data.ctypes.data + 15) // 16 * 16
        skip = start - data.ctypes.data
        data[skip : skip + variable.size] = np.frombuffer(variable.data or b"", np.uint8)
        symbols[variable.name] = start
        allocations.append(Allocation(variable.name, start, variable.size, start, data))
    return allocations, symbols, shared


def _function(kernel: str, name: str, writer: BlockWriter) -> Callable[..., Array | None]:
    source, namespace = writer.write(name)
    code: CodeType = compile(source, f"<{kernel} {name.replace('_', ' ')}>", "exec")
    exec(code, namespace)
    return namespace[name]  # type: ignore[no-any-return]


def _block(block: Block, run: Callable[..., Array | None], writer: BlockWriter) -> TranslatedBlock:
    last = block.end_instruction
    return TranslatedBlock(
        run=run,
        end=block.end,
        next=block.next,
        taken=block.taken,
        targets=block.targets,
        site=Site(last, counted=writer.end_number) if last else None,
        barrier=_barrier(block),
        instructions=len(block.instructions) + (last is not None),
    )


def _barrier(block: Block) -> tuple[int, int]:
    last = block.end_instruction
    if block.end != "barrier" or last is None:
        return (0, 0)
    values = []
    for operand in last.operands:
        if not isinstance(operand, Immediate):
            raise EmulatorError(f"{last}: barrier numbers in registers are not supported")
        values.append(operand.bits)
    return (values[0] if values else 0, values[1] if len(values) > 1 else 0)
