"""From a control flow graph to Python functions, one a basic block."""

from collections.abc import Callable, Sequence
from types import CodeType

from profscope.emulator.arrays import Array
from profscope.emulator.costs import BARRIER_CYCLES, CTA_LAUNCH_CYCLES
from profscope.emulator.machine.block import Meeting, Site, TranslatedBlock
from profscope.emulator.machine.counts import Counted
from profscope.emulator.ptx.syntax import Immediate
from profscope.emulator.translation.graph import Block, Graph
from profscope.emulator.translation.kinds import constant
from profscope.emulator.translation.plan import Plan
from profscope.emulator.translation.writer import BlockWriter
from profscope.errors import EmulatorError

__all__ = ["translate"]

NEVER = 1 << 40  # cycles to what a block does not lead to


def translate(
    graph: Graph, symbols: dict[str, int]
) -> tuple[list[TranslatedBlock], list[Array], tuple[Counted, ...], int]:
    """The blocks' functions, the registers' initial values, the instructions that are counted, and how many
    predicates switch some of them off. `symbols` gives each variable its address."""
    plan = Plan(graph, symbols)
    writers: list[BlockWriter] = []
    functions = []
    on_its_way: dict[int, dict[str, int]] = {}  # into blocks that were cut off, which follow the one before
    for number, block in enumerate(graph.blocks):
        writer = BlockWriter(plan, number, on_its_way.pop(number, {}))
        functions.append(_function(graph.name, f"block_{number}", writer))
        writers.append(writer)
        if writer.is_cut:
            on_its_way[block.next] = writer.ready
    ahead = _cycles_to_meeting(writers)
    blocks = [_block(*parts, ahead) for parts in zip(graph.blocks, functions, writers, strict=True)]
    initial = [constant(0, kind) for kind in plan.slot_kinds]
    return blocks, initial, tuple(plan.counted), plan.predicates


def _function(kernel: str, name: str, writer: BlockWriter) -> Callable[..., Array | None]:
    source, namespace = writer.write(name)
    code: CodeType = compile(source, f"<{kernel} {name.replace('_', ' ')}>", "exec")
    exec(code, namespace)
    return namespace[name]  # type: ignore[no-any-return]


def _block(
    block: Block, run: Callable[..., Array | None], writer: BlockWriter, ahead: list[int]
) -> TranslatedBlock:
    last = block.end_instruction
    return TranslatedBlock(
        run=run,
        end=block.end,
        next=block.next,
        taken=block.taken,
        targets=block.targets,
        site=Site(last) if last else None,
        barrier=_barrier(block),
        instructions=len(block.instructions) + (last is not None),
        meeting=_meeting(block, writer, ahead) if block.meets else None,
    )


def _meeting(block: Block, writer: BlockWriter, ahead: list[int]) -> Meeting:
    predicate = block.instructions[0].predicate
    return Meeting(
        issue=writer.first_issue,
        apart=writer.ticked - writer.first_issue + min(ahead[number] for number in block.successors()),
        predicate=predicate and (writer.plan.slots[predicate[0].name], predicate[1]),
    )


def _cycles_to_meeting(writers: Sequence[BlockWriter]) -> list[int]:
    """The least cycles from each block's begin to where CTAs meet, or to the start of one in a freed slot."""
    ahead = [NEVER] * len(writers)

    def cycles(writer: BlockWriter) -> int:
        block = writer.block
        if block.meets:
            return writer.first_issue
        waiting = BARRIER_CYCLES if block.end == "barrier" else 0
        return (
            writer.ticked + waiting + min((ahead[n] for n in block.successors()), default=CTA_LAUNCH_CYCLES)
        )

    changed = True
    while changed:
        new = [min(before, cycles(writer)) for before, writer in zip(ahead, writers, strict=True)]
        changed = new != ahead
        ahead = new
    return ahead


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
