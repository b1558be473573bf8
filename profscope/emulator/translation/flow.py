"""From a parsed module to one kernel's control flow graph: calls inlined, blocks ordered, liveness known.

The order matters: threads that part at a branch are run lowest block first, so with loops contiguous and
every block before the blocks it leads to, they meet again at the immediate post-dominator at the latest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profscope.emulator.opcodes import lookup
from profscope.emulator.opcodes.table import Form
from profscope.emulator.ptx_syntax import Address, Instruction, Module, Register, Symbol, Vector
from profscope.emulator.translation.graph import (
    Block,
    Graph,
    find_live,
    pointer_sources,
    reached,
    reads,
    sources,
    writes,
)
from profscope.emulator.translation.inline import Inliner
from profscope.errors import EmulatorError

__all__ = ["build", "sync_points"]


def build(module: Module, name: str) -> Graph:
    """The control flow graph of the kernel `name`. Raises EmulatorError for unknown opcodes."""
    entry = module.functions[name]
    flat = Inliner(module)
    flat.inline(entry, "", [], [], "", ())
    graph = Graph(
        name=name,
        blocks=_order(_blocks(flat.body, set())),
        registers=flat.registers,
        params=[p.name for p in entry.params],
        pointers=[p.is_pointer for p in entry.params],
        locals=flat.locals,
        local_bytes=flat.local_bytes,
        threads=entry.threads,
    )
    chosen = sync_points(graph)
    if chosen:
        graph.blocks = _order(_blocks(flat.body, chosen))
    find_live(graph.blocks)
    return graph


def _ends_block(instruction: Instruction) -> str:
    opcode = instruction.opcode
    name = opcode.split(".")[0]
    if name == "bra":
        return "branch"
    if name == "brx":
        return "switch"
    if name in ("ret", "exit"):
        return "exit"
    if name in ("bar", "barrier") and not opcode.startswith("bar.warp"):
        return "barrier"
    return ""


def _targets(instruction: Instruction) -> list[str]:
    """The labels that a branch or switch may go to."""
    kind = _ends_block(instruction)
    if kind not in ("branch", "switch"):
        return []
    last = instruction.operands[-1]
    labels = last.items if isinstance(last, Vector) else (last,)
    if not labels or not all(isinstance(label, Symbol) for label in labels):
        raise EmulatorError(f"{instruction}: a branch to an unknown label")
    return [label.name for label in labels if isinstance(label, Symbol)]


def _blocks(body: list[Instruction | Symbol], chosen: set[int]) -> list[Block]:
    """Basic blocks in the order of the text; the last one is the exit. CTAs meet at the ids of `chosen`."""
    targets = {name for item in body if isinstance(item, Instruction) for name in _targets(item)}
    blocks = [Block(next=1)]
    labels: dict[str, int] = {}

    def start() -> None:
        blocks.append(Block(next=len(blocks) + 1))

    for item in body:
        if isinstance(item, Symbol):
            if item.name in targets:
                start()
                labels[item.name] = len(blocks) - 1
        elif not _ends_block(item):
            if id(item) in chosen:
                if blocks[-1].instructions:
                    start()
                    blocks[-1].continues = True
                blocks[-1].meets = True
            blocks[-1].instructions.append(item)
        else:
            blocks[-1].end_instruction = item
            start()
    final = len(blocks)
    for block in blocks:
        _finish(block, labels, final)
    blocks.append(Block(end="exit"))
    return blocks


def _finish(block: Block, labels: dict[str, int], final: int) -> None:
    """Fill in how a block ends, once all labels are known."""
    last = block.end_instruction
    block.end = "jump"
    if last is None:
        return
    kind = _ends_block(last)
    if kind == "barrier":
        if last.predicate is not None:
            raise EmulatorError(f"PTX line {last.line}: a predicated barrier is not supported")
        block.end = "barrier"
        return
    targets = [_place(name, labels, last) for name in _targets(last)] or [final]
    if kind == "switch":
        block.end, block.targets = "switch", tuple(targets)
        block.next = block.next if last.predicate else -1
        return
    (target,) = targets
    if last.predicate is None:
        block.next = target
    else:
        block.end, block.taken = "branch", target


def _place(label: str, labels: dict[str, int], branch: Instruction) -> int:
    if label not in labels:
        raise EmulatorError(f"{branch}: the label {label!r} does not exist")
    return labels[label]


def _order(blocks: list[Block]) -> list[Block]:
    """The reachable blocks, loops contiguous, so that only edges to a loop's head go back."""
    reachable = _reachable(blocks)
    order = list(_topological(blocks, reachable, reachable, 0))
    position = {old: new for new, old in enumerate(order)}
    result = [blocks[old] for old in order]
    for block in result:
        block.next = position.get(block.next, -1)
        block.taken = position.get(block.taken, -1)
        block.targets = tuple(position[target] for target in block.targets)
    return result


def _reachable(blocks: list[Block]) -> set[int]:
    seen = {0}
    work = [0]
    while work:
        for successor in blocks[work.pop()].successors():
            if successor not in seen:
                seen.add(successor)
                work.append(successor)
    return seen


def _topological(blocks: list[Block], reachable: set[int], inside: set[int], head: int) -> Iterator[int]:
    """Strongly connected components in topological order; within each, its head and the same again. Behind a
    jump the text may go on with a block that nothing leads to: it is no way into a loop."""
    for component in _components(blocks, inside, head):
        if len(component) == 1:
            yield from component
            continue
        entered = {
            successor
            for number in reachable - component
            for successor in blocks[number].successors()
            if successor in component
        }
        yield from _topological(blocks, reachable, component, min(entered or component))


def _components(blocks: list[Block], inside: set[int], head: int) -> list[set[int]]:
    """Strongly connected components (Tarjan) without the edges into `head`, topologically sorted."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    components: list[set[int]] = []

    def edges(number: int) -> list[int]:
        return [s for s in blocks[number].successors() if s in inside and s != head]

    starts = ([head] if head >= 0 else []) + sorted(inside)
    for start in starts:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        work = [(start, iter(edges(start)))]
        while work:
            number, successors = work[-1]
            successor = next(successors, None)
            if successor is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[number])
                if low[number] == index[number]:
                    cut = stack.index(number)
                    components.append(set(stack[cut:]))
                    del stack[cut:]
            elif successor not in index:
                index[successor] = low[successor] = len(index)
                stack.append(successor)
                work.append((successor, iter(edges(successor))))
            elif successor in stack:
                low[number] = min(low[number], index[successor])
    return components[::-1]


# Where CTAs of a launch meet: the accesses to global memory by which one learns what others have done.
#
# A ticket counter, a lock or a flag is an atomic whose old value is used, or a load that is repeated until it
# gives another value. A kernel that has one is ordered: its atomics, and its loads and stores that are as
# strong, take effect in the order of the CTAs' clocks (`machine/timeline.py`). So do plain stores to the
# tensor by which it takes turns, and all stores where it waits for a plain load. Atomics that only add up
# need no order, and get none.


STRONG = ("volatile", "relaxed", "acquire", "release", "mmio")
OTHER_SPACES = ("shared", "local", "param", "const")
IN_ANY_ORDER = ("add", "min", "max", "and", "or", "xor", "inc", "dec")


def sync_points(graph: Graph) -> set[int]:
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
        back = [(writes(i), sources(i)) for i in instructions]
        deciding = reached([name for end in ends for name in reads(end)], back)
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
