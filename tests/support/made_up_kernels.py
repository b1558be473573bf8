"""Kernels made up by the tests, as TTGIR: nests of whatever control flow there is, run on the emulator.

A kernel has one number, %s, which every step changes and which decides what is done next: how often a loop
iterates, which side of a branch runs. It differs from CTA to CTA, and is stored now and then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

__all__ = [
    "Call",
    "Group",
    "Join",
    "Kernel",
    "Node",
    "Repeat",
    "Return",
    "Scope",
    "Side",
    "Specialize",
    "Step",
    "While",
    "kernels",
    "text_of",
]


@dataclass(frozen=True)
class Step:
    """Change %s, and store it."""


@dataclass(frozen=True)
class Scope:
    """A span; with `on`, around nothing, there is none where %s is even. numbers: types of its payloads."""

    body: tuple[Node, ...] = ()
    on: bool = False
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Repeat:
    """scf.for; trips is None where %s decides."""

    body: tuple[Node, ...]
    trips: int | None = None


@dataclass(frozen=True)
class While:
    body: tuple[Node, ...]


@dataclass(frozen=True)
class Side:
    """scf.if; otherwise is None where there is no else."""

    then: tuple[Node, ...]
    otherwise: tuple[Node, ...] | None = None


@dataclass(frozen=True)
class Call:
    """A noinline function, called `times` times."""

    body: tuple[Node, ...]
    times: int = 1


@dataclass(frozen=True)
class Join:
    """Two paths of blocks that meet; at the top of a function only."""

    first: tuple[Node, ...]
    second: tuple[Node, ...]


@dataclass(frozen=True)
class Return:
    """Return early if %s is odd; at the top of a function only."""


@dataclass(frozen=True)
class Specialize:
    """ttg.warp_specialize: a default region and partitions of one warp; in the kernel only."""

    default: tuple[Node, ...]
    partitions: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class Group:
    """Records of asynchronous work on one queue: `parts` in turn, each an op of its own."""

    parts: tuple[str, ...]


Node = Step | Scope | Repeat | While | Side | Call | Join | Return | Specialize | Group


@dataclass(frozen=True)
class Kernel:
    body: tuple[Node, ...]


# What may stand anywhere, and what only the kernel, or a function, may have.
_leaves = st.sampled_from(
    [Step(), Scope(), Scope(on=True), Scope(numbers=("i32", "f32")), Scope(on=True, numbers=("f32",))]
)


def _bodies(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[tuple[Node, ...]]:
    return st.lists(nodes, min_size=1, max_size=3).map(tuple)


_nodes: st.SearchStrategy[Node] = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(Scope, _bodies(inner)),
        st.builds(Repeat, _bodies(inner), st.sampled_from([None, None, 0, 2])),
        st.builds(While, _bodies(inner)),
        st.builds(Side, _bodies(inner), st.none() | _bodies(inner)),
    ),
    max_leaves=5,
)
_inner = _bodies(_nodes)
_calls = st.builds(Call, st.lists(_nodes | st.just(Return()), min_size=1, max_size=3).map(tuple), st.just(2))
_specialized = st.builds(Specialize, _inner, st.lists(_inner, min_size=1, max_size=2).map(tuple))
kernels: st.SearchStrategy[Kernel] = st.builds(
    Kernel,
    st.lists(
        st.one_of(
            _nodes,
            _calls,
            st.builds(Join, _inner, _inner),
            st.just(Return()),
            st.builds(lambda call: Repeat((call,)), _calls),
            _specialized,
            st.builds(lambda one: Repeat((one,)), _specialized),
        ),
        min_size=2,
        max_size=5,
    ).map(tuple),
)


@dataclass
class _Writer:
    """The text of one function or partition so far. s: the name of its number."""

    module: _Module
    s: str
    out: str
    lines: list[str] = field(default_factory=list)

    def op(self, text: str) -> None:
        self.lines.append(f'{text} loc("made_up.py":{self.module.line()}:1)')

    def fresh(self) -> str:
        return self.module.fresh()

    def let(self, text: str) -> str:
        name = self.fresh()
        self.op(f"{name} = {text}")
        return name

    def constant(self, value: int) -> str:
        return self.let(f"arith.constant {value} : i32")

    def step(self) -> None:
        factor, more = self.constant(1664525), self.constant(1013904223)
        product = self.let(f"arith.muli {self.s}, {factor} : i32")
        self.s = self.let(f"arith.addi {product}, {more} : i32")

    def small(self) -> str:
        """0 to 3, by the upper bits of %s, which vary most."""
        self.step()
        return self.let(f"arith.shrui {self.s}, {self.constant(30)} : i32")

    def odd(self) -> str:
        bit = self.let(f"arith.andi {self.small()}, {self.constant(1)} : i32")
        return self.let(f"arith.cmpi ne, {bit}, {self.constant(0)} : i32")

    def store(self) -> None:
        slot = self.constant(self.module.slot())
        pid = self.let("tt.get_program_id x : i32")
        at = self.let(f"arith.muli {pid}, {self.constant(1024)} : i32")
        at = self.let(f"arith.addi {at}, {slot} : i32")
        address = self.let(f"tt.addptr {self.out}, {at} : !tt.ptr<i32>, i32")
        self.op(f"tt.store {address}, {self.s} : !tt.ptr<i32>")

    def nodes(self, nodes: tuple[Node, ...], end: str) -> None:
        """end: the op that returns."""
        for node in nodes:
            self.node(node, end)

    def below(self, nodes: tuple[Node, ...], start: str, end: str) -> None:
        """The ops of a region, in which %s is `start` at first; `end` takes it, and its type, out of it."""
        outer, self.s = self.s, start
        self.nodes(nodes, "")
        self.op(f"{end} {self.s} : i32")
        self.s = outer

    def node(self, node: Node, end: str) -> None:
        match node:
            case Step():
                self.step()
                self.store()
            case Scope():
                self.scope(node)
            case Repeat():
                self.repeat(node)
            case While():
                self.loop_while(node)
            case Side():
                self.side(node)
            case Call():
                function = self.module.function(node)
                for _ in range(node.times):
                    self.s = self.let(
                        f"tt.call @{function}({self.out}, {self.s}) : (!tt.ptr<i32>, i32) -> i32"
                    )
            case Join():
                self.join(node)
            case Return():
                condition, gone, on = self.odd(), self.module.block(), self.module.block()
                self.op(f"cf.cond_br {condition}, {gone}, {on}")
                self.lines.append(f"{gone}:")
                self.op(end.replace("%s", self.s))
                self.lines.append(f"{on}:")
            case Specialize():
                self.specialize(node)
            case Group():
                for part in node.parts:
                    self.async_op(part)

    def record(self, attributes: str, operand: str = "") -> int:
        number = self.module.line()
        kind = "i1" if operand else ""
        self.op(
            f'"profscope.begin"({operand}) {{id = {number} : i32, kind = "op", name = "n{number}", '
            f'op = "made.up"{attributes}}} : ({kind}) -> ()'
        )
        return number

    def end(self, number: int) -> None:
        self.op(f'"profscope.end"() {{id = {number} : i32}} : () -> ()')

    def scope(self, node: Scope) -> None:
        number = self.record("", self.odd() if node.on else "")
        for kind in node.numbers:
            value = self.s if kind == "i32" else self.float()
            self.op(
                f'"profscope.payload"({value}) {{id = {number} : i32, name = "of_{kind}"}} : ({kind}) -> ()'
            )
        self.nodes(node.body, "")
        self.end(number)

    def float(self) -> str:
        """%s as a float; at times NaN."""
        nan, value = (
            self.let("arith.constant 0x7FC00000 : f32"),
            self.let(f"arith.sitofp {self.s} : i32 to f32"),
        )
        return self.let(f"arith.select {self.odd()}, {value}, {nan} : f32")

    def async_op(self, part: str) -> None:
        name, _, pending = part.partition(" ")
        self.step()
        said = f', part = "{name}"' + (f", pending = {pending} : i32" if pending else "")
        number = self.record(said)
        self.step()
        self.end(number)

    def repeat(self, node: Repeat) -> None:
        zero, one = self.constant(0), self.constant(1)
        bound = self.small() if node.trips is None else self.constant(node.trips)
        result, induction, inside = self.fresh(), self.fresh(), self.fresh()
        self.lines.append(
            f"{result} = scf.for {induction} = {zero} to {bound} step {one} "
            f"iter_args({inside} = {self.s}) -> (i32) : i32 {{"
        )
        self.below(node.body, inside, "scf.yield")
        self.op("}")
        self.s = result

    def loop_while(self, node: While) -> None:
        zero, one, bound = self.constant(0), self.constant(1), self.small()
        result, s, k = self.fresh(), self.fresh(), self.fresh()
        inside, j, more, goes_on = self.fresh(), self.fresh(), self.fresh(), self.fresh()
        self.lines.append(
            f"{result}:2 = scf.while ({s} = {self.s}, {k} = {zero}) : (i32, i32) -> (i32, i32) {{"
        )
        self.op(f"{goes_on} = arith.cmpi slt, {k}, {bound} : i32")
        self.op(f"scf.condition({goes_on}) {s}, {k} : i32, i32")
        self.lines += ["} do {", f"^bb0({inside}: i32, {j}: i32):"]
        outer, self.s = self.s, inside
        self.nodes(node.body, "")
        self.op(f"{more} = arith.addi {j}, {one} : i32")
        self.op(f"scf.yield {self.s}, {more} : i32, i32")
        self.op("}")
        self.s = outer
        self.s = self.let(f"arith.addi {result}#0, {zero} : i32")

    def side(self, node: Side) -> None:
        condition, result = self.odd(), self.fresh()
        if node.otherwise is None:
            self.lines.append(f"scf.if {condition} {{")
            before = self.s
            self.nodes(node.then, "")
            self.op("}")
            self.s = before
            return
        self.lines.append(f"{result} = scf.if {condition} -> (i32) {{")
        self.below(node.then, self.s, "scf.yield")
        self.lines.append("} else {")
        self.below(node.otherwise, self.s, "scf.yield")
        self.op("}")
        self.s = result

    def join(self, node: Join) -> None:
        condition = self.odd()
        first, second, met, s = self.module.block(), self.module.block(), self.module.block(), self.fresh()
        self.op(f"cf.cond_br {condition}, {first}, {second}")
        before = self.s
        for label, nodes in ((first, node.first), (second, node.second)):
            self.lines.append(f"{label}:")
            self.s = before
            self.nodes(nodes, "")
            self.op(f"cf.br {met}({self.s} : i32)")
        self.lines.append(f"{met}({s}: i32):")
        self.s = s

    def specialize(self, node: Specialize) -> None:
        result = self.fresh()
        self.lines += [f"{result} = ttg.warp_specialize({self.out}, {self.s})", "default {"]
        self.below(node.default, self.s, "ttg.warp_yield")
        self.lines.append("}")
        for number, nodes in enumerate(node.partitions):
            inner = _Writer(self.module, self.fresh(), self.fresh())
            self.lines.append(f"partition{number}({inner.out}: !tt.ptr<i32>, {inner.s}: i32) num_warps(1) {{")
            inner.nodes(nodes, "")
            inner.op("ttg.warp_return")
            self.lines += [*inner.lines, "}"]
        self.lines.pop()
        self.op("} : (!tt.ptr<i32>, i32) -> i32")
        self.s = result


class _Module:
    def __init__(self) -> None:
        self._names = self._lines = self._blocks = self._slots = 0
        self.functions: list[str] = []

    def fresh(self) -> str:
        self._names += 1
        return f"%v{self._names}"

    def line(self) -> int:
        self._lines += 1
        return self._lines

    def block(self) -> str:
        self._blocks += 1
        return f"^bb{self._blocks}"

    def slot(self) -> int:
        self._slots += 1
        return self._slots

    def function(self, call: Call) -> str:
        """A function for a call; its name."""
        name = f"f{self.line()}"
        writer = _Writer(self, "%s", "%out")
        writer.nodes(call.body, "tt.return %s : i32")
        writer.op(f"tt.return {writer.s} : i32")
        self.functions.append(
            f"tt.func private @{name}(%out: !tt.ptr<i32>, %s: i32) -> i32 "
            "attributes {noinline = true, ws_num_warps = 4 : i32} {\n"  # the latter for Triton 3.8
            + "\n".join(writer.lines)
            + f'\n}} loc("made_up.py":{self.line()}:1)'
        )
        return name


def text_of(kernel: Kernel) -> str:
    """The kernel as TTGIR, one op a line."""
    module = _Module()
    writer = _Writer(module, "", "%out")
    writer.s = writer.let("tt.get_program_id x : i32")
    writer.step()
    writer.nodes(kernel.body, "tt.return")
    writer.store()
    writer.op("tt.return")
    body = "\n".join(writer.lines)
    attributes = '"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:80"'
    return "\n".join(
        [
            f'module attributes {{{attributes}, "ttg.threads-per-warp" = 32 : i32}} {{',
            "tt.func public @made_up(%out: !tt.ptr<i32>) attributes {noinline = false} {",
            body,
            '} loc("made_up.py":9999:1)',
            *module.functions,
            "} loc(unknown)\n",
        ]
    )
