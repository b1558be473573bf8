"""From a parsed module to one kernel's control flow graph: calls inlined, blocks ordered, liveness known.

The order matters: threads that part at a branch are run lowest block first, so with loops contiguous and
every block before the blocks it leads to, they meet again at the immediate post-dominator at the latest.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from profscope.emulator.opcodes import lookup
from profscope.emulator.ptx import (
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Register,
    Symbol,
    Vector,
)
from profscope.errors import EmulatorError

__all__ = ["Block", "Graph", "build", "reads", "writes"]

INTRINSICS = ("vprintf", "__assertfail")
CARRY = "%cc"


@dataclass
class Block:
    """Instructions that run one after the other; `end` is how it ends: jump, branch, barrier or exit.

    `next` is the block after a jump or barrier, or where a branch goes when its condition is false; `taken`
    is where it goes when it is true. Both are positions in `Graph.blocks`. `end_instruction` is the branch or
    barrier itself, if there is one.
    """

    instructions: list[Instruction] = field(default_factory=list)
    end: str = "exit"
    end_instruction: Instruction | None = None
    next: int = -1
    taken: int = -1
    live_in: frozenset[str] = frozenset()
    live_out: frozenset[str] = frozenset()

    def successors(self) -> list[int]:
        return [s for s in (self.next, self.taken) if s >= 0]


@dataclass
class Graph:
    """`registers` maps names to PTX types; `locals` gives each local variable its offset in local memory."""

    name: str
    blocks: list[Block]
    registers: dict[str, str]
    params: list[str]
    pointers: list[bool]
    locals: dict[str, int]
    local_bytes: int
    threads: int


def build(module: Module, name: str) -> Graph:
    """The control flow graph of the kernel `name`. Raises EmulatorError for what the opcode table lacks."""
    entry = module.functions[name]
    flat = _Inliner(module)
    flat.inline(entry, "", [], [], "", ())
    blocks = _order(_blocks(flat.body))
    _liveness(blocks)
    return Graph(
        name=name,
        blocks=blocks,
        registers=flat.registers,
        params=[p.name for p in entry.params],
        pointers=[p.is_pointer for p in entry.params],
        locals=flat.locals,
        local_bytes=flat.local_bytes,
        threads=entry.threads,
    )


# --- calls ---


class _Inliner:
    """Copies callees to where they are called; parameters become registers."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.body: list[Instruction | Symbol] = []
        self.registers: dict[str, str] = {CARRY: "pred"}
        self.locals: dict[str, int] = {}
        self.local_bytes = 0
        self.calls = 0

    def inline(
        self,
        function: Function,
        prefix: str,
        arguments: list[str],
        results: list[str],
        return_label: str,
        callers: tuple[str, ...],
    ) -> None:
        """Append `function`'s body. `arguments` and `results` are names of the caller's parameter space."""
        if function.name in callers:
            raise EmulatorError(f"{function.name} calls itself: recursion is not supported")
        for register, kind in function.registers.items():
            self.registers[prefix + register] = kind
        for variable, size in function.locals.items():
            self.locals[prefix + variable] = self.local_bytes
            self.local_bytes += (size + 15) // 16 * 16
        names = dict(zip([p.name for p in function.params], arguments, strict=False))
        names.update(zip(function.results, results, strict=False))
        for item in function.body:
            if isinstance(item, Symbol):
                self.body.append(Symbol(prefix + item.name))
                continue
            instruction = self.renamed(item, function, prefix, names)
            base = instruction.opcode.split(".")[0]
            if base == "call":
                self.call(instruction, prefix, (*callers, function.name))
            elif base == "ret" and return_label:
                target = (Symbol(return_label),)
                self.body.append(replace(instruction, opcode="bra.uni", operands=target))
            elif instruction.opcode.startswith(("ld.param", "st.param")):
                self.parameter_access(instruction)
            else:
                self.body.append(instruction)

    def renamed(
        self, item: Instruction, function: Function, prefix: str, names: dict[str, str]
    ) -> Instruction:
        labels = {s.name for s in function.body if isinstance(s, Symbol)} if prefix else set()

        def rename(operand: Operand) -> Operand:
            if isinstance(operand, Register):
                return Register(prefix + operand.name) if operand.name in function.registers else operand
            if isinstance(operand, Vector):
                return Vector(tuple(rename(i) for i in operand.items))
            if isinstance(operand, Address):
                base = rename(operand.base)
                assert isinstance(base, Register | Symbol | Immediate)
                return Address(base, operand.offset)
            if isinstance(operand, Symbol):
                if operand.name in names:
                    return Symbol(names[operand.name])
                if operand.name in labels or operand.name in function.locals or "." in operand.name:
                    return Symbol(prefix + operand.name)
            return operand

        predicate = item.predicate and (Register(prefix + item.predicate[0].name), item.predicate[1])
        return replace(item, operands=tuple(rename(o) for o in item.operands), predicate=predicate)

    def slot(self, name: str, offset: int, kind: str) -> Register:
        """The register that stands for bytes of a call's parameter space."""
        slot = f"param {name}+{offset}"
        self.registers.setdefault(slot, "b" + kind[1:])
        return Register(slot)

    def parameter_access(self, instruction: Instruction) -> None:
        """Loads and stores of call parameters become moves; the kernel's own parameters stay loads."""
        is_load = instruction.opcode.startswith("ld")
        value, where = instruction.operands if is_load else reversed(instruction.operands)
        assert isinstance(where, Address)
        if not isinstance(where.base, Symbol) or "." not in where.base.name:
            self.body.append(instruction)
            return
        kind = instruction.opcode.split(".")[-1]
        items = value.items if isinstance(value, Vector) else (value,)
        for index, item in enumerate(items):
            slot = self.slot(where.base.name, where.offset + index * int(kind[1:]) // 8, kind)
            operands = (item, slot) if is_load else (slot, item)
            self.body.append(replace(instruction, opcode=f"mov.b{kind[1:]}", operands=operands))

    def call(self, instruction: Instruction, prefix: str, callers: tuple[str, ...]) -> None:
        operands = list(instruction.operands)
        results: list[str] = []
        if isinstance(operands[0], Vector):
            results = [i.name for i in operands.pop(0).items if isinstance(i, Symbol)]  # type: ignore[union-attr]
        callee = operands.pop(0)
        arguments = [
            i.name for o in operands if isinstance(o, Vector) for i in o.items if isinstance(i, Symbol)
        ]
        if not isinstance(callee, Symbol):
            raise EmulatorError(f"PTX line {instruction.line}: indirect calls are not supported")
        if callee.name in INTRINSICS:
            widths = ("b64", "b64", "b32", "b64", "b64")
            slots = [self.slot(name, 0, width) for name, width in zip(arguments, widths, strict=False)]
            outputs = [self.slot(name, 0, "b32") for name in results]
            self.body.append(replace(instruction, opcode=f"call.{callee.name}", operands=(*outputs, *slots)))
            return
        function = self.module.functions.get(callee.name)
        if function is None:
            raise EmulatorError(f"PTX line {instruction.line}: call of unknown function {callee.name!r}")
        self.calls += 1
        inner = f"{callee.name}#{self.calls}:"
        after = f"{inner}return"
        self.inline(function, inner, arguments, results, after, callers)
        self.body.append(Symbol(after))


# --- blocks ---


def _ends_block(instruction: Instruction) -> str:
    opcode = instruction.opcode
    name = opcode.split(".")[0]
    if name == "bra":
        return "branch"
    if name in ("ret", "exit"):
        return "exit"
    if name in ("bar", "barrier") and not opcode.startswith("bar.warp"):
        return "barrier"
    return ""


def _blocks(body: list[Instruction | Symbol]) -> list[Block]:
    """Basic blocks in the order of the text; the last one is the exit."""
    targets = {
        operand.name
        for item in body
        if isinstance(item, Instruction) and _ends_block(item) == "branch"
        for operand in item.operands
        if isinstance(operand, Symbol)
    }
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
    target = labels[last.operands[0].name] if kind == "branch" else final  # type: ignore[union-attr]
    if last.predicate is None:
        block.next = target
    else:
        block.end, block.taken = "branch", target


def _order(blocks: list[Block]) -> list[Block]:
    """The reachable blocks, loops contiguous, so that only edges to a loop's head go back."""
    order = list(_topological(blocks, _reachable(blocks), 0))
    position = {old: new for new, old in enumerate(order)}
    result = [blocks[old] for old in order]
    for block in result:
        block.next = position.get(block.next, -1)
        block.taken = position.get(block.taken, -1)
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


def _topological(blocks: list[Block], inside: set[int], head: int) -> Iterator[int]:
    """Strongly connected components in topological order; within each, its head and the same again."""
    for component in _components(blocks, inside, head):
        if len(component) == 1:
            yield from component
            continue
        entered = {
            successor
            for number, block in enumerate(blocks)
            if number not in component
            for successor in block.successors()
            if successor in component
        }
        yield from _topological(blocks, component, min(entered or component))


def _components(blocks: list[Block], inside: set[int], head: int) -> list[set[int]]:
    """Strongly connected components (Tarjan) without the edges into `head`, topologically sorted."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    found: list[set[int]] = []

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
                    found.append(set(stack[cut:]))
                    del stack[cut:]
            elif successor not in index:
                index[successor] = low[successor] = len(index)
                stack.append(successor)
                work.append((successor, iter(edges(successor))))
            elif successor in stack:
                low[number] = min(low[number], index[successor])
    return found[::-1]


# --- liveness ---


def _registers(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.name
        elif isinstance(operand, Vector):
            yield from _registers(operand.items)
        elif isinstance(operand, Address):
            yield from _registers((operand.base,))


def writes(instruction: Instruction) -> list[str]:
    """Names of the registers an instruction sets."""
    row, form = lookup(instruction)
    names = list(_registers(instruction.operands[: row.result_count]))
    return [*names, CARRY] if form.has("cc") else names


def reads(instruction: Instruction) -> list[str]:
    """Names of the registers whose values an instruction needs, also the old ones of those it may keep."""
    row, _ = lookup(instruction)
    names = list(_registers(instruction.operands[row.result_count :]))
    if row.name in ("addc", "subc", "madc"):
        names.append(CARRY)
    if instruction.predicate is not None:
        names.append(instruction.predicate[0].name)
        names.extend(writes(instruction))
    return names


def _liveness(blocks: list[Block]) -> None:
    uses: list[set[str]] = []
    defs: list[set[str]] = []
    for block in blocks:
        used: set[str] = set()
        defined: set[str] = set()
        for instruction in block.instructions:
            used.update(name for name in reads(instruction) if name not in defined)
            defined.update(writes(instruction))
        end = block.end_instruction
        if end is not None:
            used.update(name for name in reads(end) if name not in defined)
        uses.append(used)
        defs.append(defined)
    live_in = [frozenset[str]() for _ in blocks]
    live_out = [frozenset[str]() for _ in blocks]
    changed = True
    while changed:
        changed = False
        for number in range(len(blocks) - 1, -1, -1):
            out = frozenset[str]().union(*(live_in[s] for s in blocks[number].successors()))
            into = frozenset(uses[number] | (out - defs[number]))
            if into != live_in[number] or out != live_out[number]:
                live_in[number], live_out[number] = into, out
                changed = True
    for block, into, out in zip(blocks, live_in, live_out, strict=True):
        block.live_in, block.live_out = into, out
