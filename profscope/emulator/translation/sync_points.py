"""Where CTAs of a launch meet: the accesses to global memory by which one learns what others have done.

A ticket counter, a lock or a flag is an atomic whose old value is used, or a load that is repeated until it
gives another value. A kernel that has one is ordered: its atomics, and its loads and stores that are as
strong, take effect in the order of the CTAs' clocks (`machine/timeline.py`). So do plain stores to the tensor
by which it takes turns, and all stores where it waits for a plain load. Atomics that only add up need no
order, and get none.
"""

from collections.abc import Iterator, Sequence

from profscope.emulator.opcodes import lookup
from profscope.emulator.opcodes.table import Form
from profscope.emulator.ptx.syntax import Address, Instruction, Register
from profscope.emulator.translation.graph import Block, Graph, pointer_sources, reads, sources, writes

__all__ = ["meetings"]

STRONG = ("volatile", "relaxed", "acquire", "release", "mmio")
OTHER_SPACES = ("shared", "local", "param", "const")
IN_ANY_ORDER = ("add", "min", "max", "and", "or", "xor", "inc", "dec")


def meetings(graph: Graph) -> set[int]:
    """The ids of the instructions that a CTA executes only when no other's clock is behind its own."""
    instructions = [i for block in graph.blocks for i in block.instructions]
    used = {name for i in instructions for name in sources(i)}
    accesses = {id(i): (i, form) for i in instructions if (form := global_access(i)) is not None}
    atomics = {key for key, (_, form) in accesses.items() if form.name in ("atom", "red")}
    strong = {key for key, (_, form) in accesses.items() if form.pick(*STRONG)} - atomics
    loads = {key for key, (_, form) in accesses.items() if form.name == "ld"}
    stores = {key for key, (_, form) in accesses.items() if form.name == "st"}
    spins = {id(i) for i in spinning(graph.blocks) if id(i) in loads}
    tickets = {key for key in atomics if tells_order(*accesses[key], used)}
    deciding = spins | (strong & loads)
    if not tickets and not (deciding and (atomics or (stores if spins else strong & stores))):
        return set()
    releases = stores if spins else (strong | _of_one_tensor(graph, tickets | deciding, stores)) & stores
    return atomics | releases | deciding


def _of_one_tensor(graph: Graph, chosen: set[int], others: set[int]) -> set[int]:
    """Those of the other accesses that go where one of the chosen may go, by the pointers they come from."""
    pointers = pointer_sources(graph)

    def tensors(key: int) -> frozenset[int]:
        return pointers.get(key) or frozenset([-1])  # an address from elsewhere, as from a table

    shared = frozenset[int]().union(*map(tensors, chosen))
    return {key for key in others if not shared.isdisjoint(tensors(key))}


def global_access(instruction: Instruction) -> Form | None:
    """The form of an access to global memory, or to what may be; None for others."""
    _, form = lookup(instruction)
    is_access = form.name in ("atom", "red", "ld", "st")
    return form if is_access and not form.pick(*OTHER_SPACES) else None


def tells_order(instruction: Instruction, form: Form, used: set[str]) -> bool:
    """Whether what an atomic gives or leaves depends on who came first."""
    return not form.pick(*IN_ANY_ORDER) or not used.isdisjoint(writes(instruction))


def spinning(blocks: Sequence[Block]) -> Iterator[Instruction]:
    """Loads in a loop, always of one address, whose value decides whether the loop goes on."""
    loops = {(to, at) for at, block in enumerate(blocks) for to in block.successors() if to <= at}
    for first, last in loops:
        body = blocks[first : last + 1]
        instructions = [i for block in body for i in block.instructions]
        ends = [b.end_instruction for b in body if b.end in ("branch", "switch") and b.end_instruction]
        deciding = before([name for end in ends for name in reads(end)], instructions)
        written = {name for i in instructions for name in writes(i)}
        for instruction in instructions:
            where = next((o for o in instruction.operands if isinstance(o, Address)), None)
            is_fixed = where is not None and not (
                isinstance(where.base, Register) and where.base.name in written
            )
            if (
                is_fixed
                and instruction.opcode.startswith("ld")
                and not deciding.isdisjoint(writes(instruction))
            ):
                yield instruction


def before(names: Sequence[str], instructions: Sequence[Instruction]) -> set[str]:
    """The registers that those of `names` are computed from, and themselves."""
    found = set(names)
    size = -1
    while size != len(found):
        size = len(found)
        for instruction in instructions:
            if not found.isdisjoint(writes(instruction)):
                found.update(sources(instruction))
    return found
