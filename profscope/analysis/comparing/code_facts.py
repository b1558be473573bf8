"""Facts of a compiled kernel by source line: decisions of the compiler that can be compared with another
kernel's.

    facts_of(ttgir).values["kernels.py", 34, "asynchronous"]     # "cp.async"

A fact is read from parsed ops and from instructions, and has no names, numbers or places of the text in it:
a kernel that is compiled twice, or moved in its file, has the same facts at the same lines of its source.
Facts of the kernel as a whole stand at line 0.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from profscope.analysis.evidence_table import LOAD_OPS, STORE_OPS, about_opcode
from profscope.analysis.variants import configuration
from profscope.binaries.ptx import read_ptx
from profscope.instrument_passes.analyses.graph import Graph
from profscope.instrument_passes.analyses.loop_stages import stages
from profscope.instrument_passes.analyses.metrics import bytes_of
from profscope.instrument_passes.analyses.places import Places, is_library
from profscope.instrument_passes.analyses.values import PRODUCTS, Node, Value, is_data
from profscope.instrument_passes.analyses.walk import kernel_of
from profscope.instrument_passes.functions import function_name
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.ir.signature import elements
from profscope.instrument_passes.ops import info_of

__all__ = [
    "DEPTH", "INSTRUCTIONS", "OPS", "RESOURCES", "CodeFacts", "Instruction", "Place", "about_facts",
    "counts_in", "facts_of", "is_same_ptx", "place_of", "ptx_of", "sass_of", "total_count",
]  # fmt: skip

Place = tuple[str, int]
"""A file's name, without folders, and a line."""

OPS: Final = "ops"
DEPTH: Final = "loop depth"
INSTRUCTIONS: Final = "instructions"
SPILLS: Final = "spill traffic"
_SPILLS: Final = frozenset({"local load", "local store"})

RESOURCES: Final = ("registers", "spills", "shared_bytes", "ctas_per_sm")
# Ops that a line is known by; arithmetic on elements follows from them.
_COUNTED: Final = (
    "load", "store", "atomic", "async_copy", "wait", "mma", "barrier", "reduce", "layout", "local", "call",
    "math", "convert",
)  # fmt: skip
_PLACED: Final = (*_COUNTED, "elementwise")
_WAITING: Final = ("wait", "local", "mma", "store", "atomic", "reduce", "layout", "convert")
_BY_POINTER: Final = {
    "tt.load": "load", "tt.store": "store", "tt.atomic_rmw": "atomic", "tt.atomic_cas": "atomic",
    "ttg.async_copy_global_to_local": "load",
}  # fmt: skip
_HOW: Final = {
    "tt.load": "no", "tt.store": "no", "ttg.async_copy_global_to_local": "cp.async",
    "ttng.async_tma_copy_global_to_local": "TMA", "ttng.async_tma_gather": "TMA",
    "ttng.async_tma_copy_local_to_global": "TMA", "ttng.async_tma_scatter": "TMA",
    "tt.descriptor_load": "TMA", "tt.descriptor_store": "TMA",
}  # fmt: skip
_MMA: Final = {2: "mma.sync", 3: "wgmma", 5: "tcgen05"}
_NEVER: Final = 1 << 20  # columns of K: more than a product has
_TRANSPOSED: Final = ("tt.trans", "ttg.memdesc_trans")
_SAME_ADDRESS: Final = (
    "tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout", "tt.bitcast",
)  # fmt: skip
_ENCODING: Final = re.compile(r", (#.*)>$", re.DOTALL)
_MEMORY: Final = re.compile(r", #(?:\w+\.)?(?:smem|tmem|shared_memory|tensor_memory).*", re.DOTALL)
_ALIAS: Final = re.compile(r"#(?!\w+\.)\w+")
_CLUSTER: Final = re.compile(
    r"(?:, )?(?:CTA\w+|CGALayout|versionMinor) = (?:\[(?:\[[^\]]*\](?:, )?|[\d, ])*\]|\d+)"
)
_WORDS: Final = {
    "sizePerThread": "per thread", "threadsPerWarp": "lanes", "warpsPerCTA": "warps", "#ttg.": "",
    "<{": "(", "}>": ")", " = ": " ",
}  # fmt: skip
_BUFFERS: Final = re.compile(r"!ttg\.memdesc<(\d+)x\d+x(?!i64)")
_NO_CODE: Final = re.compile(r"\s*(?:$|//|\.|[{}]|[$\w]+:)")
_DEBUG: Final = re.compile(r"^\s*\.section\b", re.MULTILINE)
_OF_SOURCE: Final = re.compile(r"\.(?:loc|file)\b|\$L__(?:tmp|func_\w+?)\d+:")
_PTX_OPCODE: Final = re.compile(r"\s*(?:@!?%?\w+\s+)?([a-z]\w*(?:[.:][\w:]+)*)")
_COPY_BYTES: Final = re.compile(r"\],\s*(0x[\da-f]+|\d+)")
_WIDTHS: Final = dict.fromkeys(LOAD_OPS, "load width") | dict.fromkeys(STORE_OPS, "store width")
_RECORD: Final = "st.global.cs.v4.b32"
"""What profscope's records leave a kernel by, in the PTX of a binary that recorded."""


class Instruction(NamedTuple):
    """op: in SASS's words, without modifiers. bytes: that a thread accesses, if it is an access."""

    file: str
    line: int
    op: str
    cls: str
    bytes: int


@dataclass(frozen=True)
class CodeFacts:
    """values: by place and fact. waits_for: by place, the places whose results are waited for there; a loop
    waits for its body, a function for the rest. files: by name, with their folders."""

    values: dict[tuple[str, int, str], str] = field(default_factory=dict)
    waits_for: dict[Place, set[Place]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def place_of(file: str, line: int) -> Place:
    return re.split(r"[\\/]", file)[-1], line


def facts_of(
    ttgir: str,
    instructions: Sequence[Instruction] = (),
    classes: Mapping[Place, Counter[str]] | None = None,
    about: Mapping[str, str] | None = None,
    bodies: int = 1,
) -> CodeFacts:
    """instructions: for the width of accesses; classes: by place, how many instructions of each class; if it
    is None, those of `instructions`. about: of the kernel as a whole. bodies: how often the TTGIR has the
    kernel's body. Without TTGIR there are no facts of lines but counts of instructions.

    Raises IRError or PassError for a text that is no module of one kernel.
    """
    facts = CodeFacts()
    if ttgir:
        read = _Reader(ttgir, bodies)
        read.ops()
        read.loops()
        read.widths(instructions)
        facts = CodeFacts(read.values(), read.waits_for(), read.files)
    for place, counts in (_counted(instructions) if classes is None else classes).items():
        for fact, shown in ((SPILLS, _SPILLS), (INSTRUCTIONS, counts.keys() - _SPILLS)):
            if told := ", ".join(f"{cls} {counts[cls]}" for cls in sorted(shown & counts.keys())):
                facts.values[*place, fact] = told
    for name, value in (about or {}).items():
        facts.values["", 0, name] = value
    return facts


def _counted(instructions: Iterable[Instruction]) -> dict[Place, Counter[str]]:
    found: dict[Place, Counter[str]] = defaultdict(Counter)
    for each in instructions:
        if each.line:
            found[place_of(each.file, each.line)][each.cls] += 1
    return found


class _Reader:
    """Collects what ops say, by place and fact."""

    def __init__(self, ttgir: str, bodies: int) -> None:
        self._module = parse(ttgir)
        self._graph = Graph(self._module)
        self._bodies = bodies
        self._said: dict[tuple[str, int, str], dict[str, None]] = defaultdict(dict)
        self.files: dict[str, str] = {}
        places = Places()
        self._at: dict[Node, Place] = {}
        for node in self._graph.nodes:
            place = places.of(node.op)
            self._at[node] = place_of(place.file, place.line)
            self.files.setdefault(self._at[node][0], place.file)

    def values(self) -> dict[tuple[str, int, str], str]:
        return {key: "; ".join(sorted(said)) for key, said in self._said.items()}

    def _say(self, node: Node, fact: str, value: str) -> None:
        if self._at[node][1] and value:
            self._said[*self._at[node], fact][value] = None

    def ops(self) -> None:
        """Each op by itself, and how many there are of each class where the line's loops are deepest."""
        deepest: dict[tuple[Place, str], int] = {}
        found: dict[tuple[Place, str], list[Node]] = {}
        for node in self._graph.nodes:
            info = info_of(node.op)
            self._facts_of_op(node)
            if info is None or info.cls not in _PLACED:
                continue
            key, depth = (self._at[node], info.cls), len(node.loops)
            if depth > deepest.get(key, -1):
                deepest[key], found[key] = depth, []
            if depth == deepest[key]:
                found[key].append(node)
        for (place, cls), nodes in found.items():
            if not place[1]:
                continue
            self._said[*place, DEPTH][f"{cls.replace('_', ' ')} {deepest[place, cls]}"] = None
            number = max(1, len(nodes) // self._bodies)
            if cls in _COUNTED:
                self._said[*place, OPS][f"{cls.replace('_', ' ')} {number}"] = None
            if cls in ("layout", "local"):
                moved = sum(bytes_of(node.op) for node in nodes) // self._bodies
                fact = "layout conversions" if cls == "layout" else "shared traffic"
                if moved:
                    self._said[*place, fact][f"{number} ({moved:,} B)"] = None

    def _facts_of_op(self, node: Node) -> None:
        self._say(node, "asynchronous", _HOW.get(node.name, ""))
        if kind := _BY_POINTER.get(node.name):
            self._access(node, kind)
        elif node.name in _TRANSPOSED:
            self._say(node, "transposed operand", "yes")
        elif node.name == "tt.call":
            self._say(node, "calls", function_name(node.op.symbol or ""))
        elif node.name in ("ttg.async_wait", "ttng.warp_group_dot_wait") and node.loops:
            pending = node.op.attributes.get("num") or node.op.attributes.get("pendings") or "0"
            self._say(node, "left in flight", pending.partition(" ")[0])
        elif node.name == "ttg.local_alloc":
            kind = node.results[0].type
            self._say(node, "shared layout", self._layout(kind))
            buffers = _BUFFERS.match(kind)
            is_array = any(user.name == "ttg.memdesc_index" for user in node.results[0].users)
            self._say(node, "buffers", buffers[1] if buffers and is_array else "")
        elif PRODUCTS.search(node.name):
            self._product(node)

    def _access(self, node: Node, kind: str) -> None:
        """Of an access by pointers."""
        if not node.operands:
            return
        pointers = node.operands[0]
        layout = self._layout(pointers.type)
        self._say(node, f"{kind} layout", layout)
        if layout:
            threads = [self._module.integer(name, 1) for name in ("ttg.num-warps", "ttg.threads-per-warp")]
            each = elements(pointers.type) // max(1, math.prod(threads))
            self._say(node, "elements a thread", str(max(1, each)))
            masked = any("xi1" in value.type for value in node.operands)
            self._say(node, "masked", "yes" if masked else "no")
        self._say(node, f"{kind} index bits", self._index_bits(pointers))

    def _index_bits(self, pointers: Value) -> str:
        """The widest offset that is added to the pointers of an access."""
        bits = {
            int(match[1])
            for made in self._graph.backward([pointers], lambda each: each.name in _SAME_ADDRESS)
            if made.name == "tt.addptr"
            and (match := re.search(r"(?:x|^)i(\d+)\b", made.operands[-1].type.partition(",")[0]))
        }
        return str(max(bits, default=""))

    def _product(self, node: Node) -> None:
        kinds = [value.type for value in node.operands]
        layout = self._layout(node.results[0].type) if node.results else ""
        version = re.search(r"versionMajor (\d)", layout)
        shape = re.search(r"instrShape \[([\d, ]+)\]", layout)
        how = _MMA[5] if "tc_gen5" in node.name else _MMA.get(int(version[1]), "mma") if version else "FMA"
        self._say(node, "mma", f"{how} {shape[1].replace(', ', ' x ') if shape else ''}".strip())
        for number, kind in enumerate(kinds[:2]):
            where = "shared memory" if "memdesc" in kind else "registers"
            element = re.search(r"x([a-z]\w*)[,>]", kind)
            self._say(node, f"operand {number}", f"{element[1] if element else ''} in {where}".strip())
        if any(re.search(r"xf8", kind) for kind in kinds[:2]):
            every = node.op.integer("maxNumImpreciseAcc", 0) or 0
            self._say(node, "fp8 promotion", "never" if every >= _NEVER else f"every {every} of K")

    def _layout(self, kind: str) -> str:
        """The layout of a type in words, without names; "" of a type without."""
        match = _ENCODING.search(kind)
        if match is None:
            return ""
        text = _MEMORY.sub("", match[1])
        while (wider := _ALIAS.sub(lambda at: self._module.aliases.get(at[0], ""), text)) != text:
            text = wider
        text = _CLUSTER.sub("", text)
        for word, plain in _WORDS.items():
            text = text.replace(word, plain)
        return text

    def loops(self) -> None:
        """How far the pipeliner moved ops ahead."""
        by_op = {node.op: node for node in self._graph.nodes}
        for op, stage in stages(kernel_of(self._module)).items():
            if stage.part == "steady" and stage.ahead and op in by_op:
                self._say(by_op[op], "iterations ahead", str(stage.ahead))

    def widths(self, instructions: Iterable[Instruction]) -> None:
        """The bytes that a thread moves at once, at the lines of accesses."""
        accesses = {self._at[node] for node in self._graph.nodes if node.name in _BY_POINTER}
        found: dict[tuple[Place, str], set[int]] = defaultdict(set)
        for each in instructions:
            place = place_of(each.file, each.line)
            if each.op in _WIDTHS and place in accesses:
                found[place, _WIDTHS[each.op]].add(each.bytes)
        for (place, fact), widths in found.items():
            self._said[*place, fact][", ".join(f"{each} B" for each in sorted(widths, reverse=True))] = None

    def waits_for(self) -> dict[Place, set[Place]]:
        found: dict[Place, set[Place]] = defaultdict(set)
        for node in self._graph.nodes:
            here, info = self._at[node], info_of(node.op)
            for around in node.loops or node.around[-1:]:
                found[self._at[around]].add(here)
            if info is None or info.cls not in _WAITING:
                continue
            for made in self._graph.backward(node.operands, lambda each: not is_data(each)):
                if is_data(made):
                    found[here].add(self._at[made])
        return {place: made - {place, ("", 0)} for place, made in found.items()}


def counts_in(text: str) -> dict[str, int]:
    """The numbers in a fact that counts: "integer 12, float 4"."""
    parts = (each.rpartition(" ") for each in re.split("[,;] ", text) if " " in each)
    return {cls: int(count) for cls, _, count in parts}


def total_count(text: str) -> int:
    return sum(counts_in(text).values())


def about_facts(entry: Mapping[str, Any], build: Mapping[str, Any]) -> dict[str, str]:
    """The kernel as a whole. entry: its configuration, as `metadata["variants"]` has it; build: resources of
    its binary."""
    told = configuration(entry) | {name: build[name] for name in RESOURCES if build.get(name) is not None}
    facts = {name: str(value) for name, value in told.items()}
    for name, known in (entry.get("specialisation") or {}).items():
        words = ", ".join(" ".join(map(str, each)).removeprefix("tt.") for each in known)
        facts[f"known of {name}"] = words.replace("divisibility", "divisible by")
    return facts


def ptx_of(text: str) -> Iterator[Instruction]:
    """The instructions of PTX by the lines that a user wrote; without profscope's records."""
    for line, chain in zip(text.splitlines(), read_ptx(text).chains, strict=True):
        match = None if _NO_CODE.match(line) or not chain else _PTX_OPCODE.match(line)
        if match is None or match[1] == _RECORD:
            continue
        frame = next((frame for frame in chain if not is_library(frame.file)), chain[-1])
        op, cls, size, *_ = about_opcode(match[1])
        if op == "LDGSTS" and (copied := _COPY_BYTES.findall(line)):
            size = int(copied[-1], 0)
        yield Instruction(frame.file, frame.line, op, cls, size)


def is_same_ptx(a: str, b: str) -> bool:
    """Whether two texts have the same code, wherever in its source; False if one is empty."""
    one, other = (
        [line for line in map(_code_in, _DEBUG.split(text)[0].splitlines()) if line] for text in (a, b)
    )
    return bool(one) and one == other


def _code_in(line: str) -> str:
    """Without a comment; "" of a line that says where code is from."""
    text = line.partition("//")[0].strip()
    return "" if _OF_SOURCE.match(text) else text


def sass_of(rows: Iterable[tuple[str, str, int]]) -> Iterator[Instruction]:
    """rows: of each instruction its opcode with modifiers, file and line."""
    for opcode, file, line in rows:
        op, cls, size, *_ = about_opcode(opcode)
        yield Instruction(file, line, op, cls, size)
