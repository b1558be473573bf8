"""From a control flow graph to Python functions, one a basic block."""

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType

from profscope.emulator.arrays import Array
from profscope.emulator.machine.block import Site, TranslatedBlock
from profscope.emulator.machine.counts import Counted
from profscope.emulator.ptx.syntax import Immediate
from profscope.emulator.translation.graph import Block, Graph
from profscope.emulator.translation.kinds import constant
from profscope.emulator.translation.plan import Plan
from profscope.emulator.translation.timing import BlockSteps
from profscope.emulator.translation.writer import BlockWriter
from profscope.errors import EmulatorError

__all__ = ["Translation", "translate"]


@dataclass(frozen=True)
class Translation:
    """`initial` are the registers' values, `counted` the instructions that the kernel would have without
    records, and `predicates` how many predicates switch some of them off. `steps` are for `schedule`."""

    blocks: list[TranslatedBlock]
    initial: list[Array]
    counted: tuple[Counted, ...]
    predicates: int
    steps: tuple[BlockSteps, ...]


def translate(graph: Graph, symbols: dict[str, int]) -> Translation:
    """The blocks of a kernel. `symbols` gives each variable its address."""
    plan = Plan(graph, symbols)
    writers = [BlockWriter(plan, number) for number in range(len(graph.blocks))]
    functions = [_function(graph.name, f"block_{number}", writer) for number, writer in enumerate(writers)]
    return Translation(
        blocks=[_block(*parts) for parts in zip(graph.blocks, functions, writers, strict=True)],
        initial=[constant(0, kind) for kind in plan.slot_kinds],
        counted=tuple(plan.counted),
        predicates=plan.predicates,
        steps=tuple(writer.block_steps for writer in writers),
    )


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
