"""From a control flow graph to Python functions, one a basic block."""

from types import CodeType

from profscope.emulator.arrays import Array
from profscope.emulator.machine.block import Site, TranslatedBlock
from profscope.emulator.ptx.syntax import Immediate
from profscope.emulator.translation.graph import Block, Graph
from profscope.emulator.translation.kinds import constant
from profscope.emulator.translation.plan import Plan
from profscope.emulator.translation.writer import BlockWriter
from profscope.errors import EmulatorError

__all__ = ["translate"]


def translate(graph: Graph, symbols: dict[str, int]) -> tuple[list[TranslatedBlock], list[Array]]:
    """The blocks' functions, and the registers' initial values. `symbols` gives each variable its address."""
    plan = Plan(graph, symbols)
    blocks = [_block(plan, number, block) for number, block in enumerate(graph.blocks)]
    initial = [constant(0, kind) for kind in plan.slot_kinds]
    return blocks, initial


def _block(plan: Plan, number: int, block: Block) -> TranslatedBlock:
    writer = BlockWriter(plan, block)
    source, namespace = writer.write(f"block_{number}")
    code: CodeType = compile(source, f"<{plan.graph.name} block {number}>", "exec")
    exec(code, namespace)
    last = block.end_instruction
    return TranslatedBlock(
        run=namespace[f"block_{number}"],
        end=block.end,
        next=block.next,
        taken=block.taken,
        site=Site(last, None) if last else None,
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
