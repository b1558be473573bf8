"""The traces of user-named scopes in a module's text, from the source to the optimised TTGIR.

`profscope.language` emits *markers*, empty inline assembly with a text::

    tt.elementwise_inline_asm "// profscope {\\22do\\22: \\22enter\\22, \\22name\\22: \\22load\\22}" ...

Before any optimisation `tag_scopes` takes those of enter and exit out, so that nothing is in the optimiser's
way, and gives every op between them a location that names its scope: `fused<"profscope:3">["x"("k.py":7:8)]`.
Locations go wherever their ops go. The module's attribute `profscope.scopes` has the scope of number 3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container
from dataclasses import asdict, dataclass
from typing import Any, Final, NoReturn

from profscope.instrument_passes.errors import IRError, PassError
from profscope.instrument_passes.ir import Block, Module, Op, parse
from profscope.instrument_passes.ir.location import SCOPE_PREFIX
from profscope.instrument_passes.ir.tokens import quote, unquote

__all__ = [
    "MARKER",
    "Marker",
    "Site",
    "add_notes",
    "marker_of",
    "marker_text",
    "notes_of",
    "set_sites",
    "sites_of",
    "tag_scopes",
    "without_markers",
    "without_points",
    "without_scopes",
]

MARKER: Final = "// profscope "
_ASM: Final = "tt.elementwise_inline_asm"
_KEPT: Final = re.compile(rf'= {re.escape(_ASM)} "{MARKER}[^\n]*? -> i1')
_SITES: Final = "profscope.scopes"
_NOTES: Final = "profscope.notes"


@dataclass(frozen=True)
class Marker:
    """One call in the source. do: "enter", "exit", "mark" or "payload" (then `name` is the column)."""

    do: str
    name: str


@dataclass(frozen=True)
class Site:
    """A scope, mark or payload of one function, or a call of a function that has some.

    kind: "scope", "mark", "payload" or "call". parent: the index of the scope around it in the same function,
    -1 for none. file, line: where it is entered or called.
    """

    kind: str
    name: str
    parent: int
    file: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def marker_text(do: str, name: str) -> str:
    """The assembly that says so: a comment in every assembler."""
    return MARKER + json.dumps({"do": do, "name": name})


def marker_of(op: Op) -> Marker | None:
    """The marker that an op is, if it is one."""
    if op.name != _ASM or MARKER not in op.first_line:
        return None
    texts = (unquote(piece.text) for piece in op.header.pieces if piece.text.startswith(f'"{MARKER}'))
    try:
        marker = Marker(**json.loads(next(texts, "").removeprefix(MARKER)))
    except (ValueError, TypeError) as error:
        raise op.error("expected a marker as profscope writes it") from error
    if not op.results:
        raise op.error("expected a marker to have a result")
    return marker


def without_markers(text: str) -> str:
    """A module's text with markers of marks and payloads made constants; by no more than a pattern."""
    return _KEPT.sub("= arith.constant true", text)


def sites_of(module: Module) -> tuple[Site, ...]:
    """The scopes behind the numbers in locations; empty for a module without scopes.

    Raises IRError if the table is not as `set_sites` writes it.
    """
    try:
        sites = tuple(Site(**site) for site in _read(module, _SITES))
        if any(not -1 <= site.parent < index for index, site in enumerate(sites)):
            raise ValueError("a scope contains itself")
    except (TypeError, ValueError) as error:
        raise _malformed(module, _SITES) from error
    return sites


def set_sites(module: Module, sites: list[Site]) -> None:
    """Write the table into the module."""
    module.set_attr(_SITES, quote(json.dumps([asdict(site) for site in sites])))


def notes_of(module: Module) -> tuple[str, ...]:
    """The passes' notes on a module; they go into the manifest."""
    return tuple(map(str, _read(module, _NOTES)))


def add_notes(module: Module, notes: list[str]) -> None:
    """Add notes for `lower-records` to put into the manifest."""
    if notes:
        module.set_attr(_NOTES, quote(json.dumps([*notes_of(module), *notes])))


def _read(module: Module, name: str) -> list[Any]:
    text = module.attr(name)
    if text is None:
        return []
    try:
        entries = json.loads(unquote(text))
    except (ValueError, RecursionError) as error:
        raise _malformed(module, name) from error
    if not isinstance(entries, list):
        raise _malformed(module, name)
    return entries


def _malformed(module: Module, name: str) -> IRError:
    return IRError(
        f"the module's attribute {name} is not what profscope writes", module.filename, module.op.line
    )


# Takes the markers of scopes out of a module that is not optimised yet, and tags the ops between them.
#
# Here the ops still stand in the order of the source, whatever was unrolled or specialised at compile time,
# so what a scope covers is exact, and a scope that is not closed properly is found.


def tag_scopes(text: str, filename: str) -> str:
    """The text of a printed TTIR module without the markers of scopes, its ops tagged with their scopes.

    Markers of marks and payloads stay, because those are points and values of their own. Raises PassError, at
    the line of the kernel's source, for a scope that is left open, closed without being open, closed twice or
    crossed; for a payload outside any.
    """
    module = parse(text, filename)
    tagger = _Tagger({f.symbol or "": f for f in module.functions})
    for function in module.functions:
        for region in function.regions:
            for block in region.blocks:
                tagger.block(block, -1)
    set_sites(module, tagger.sites)
    aliases = (f"{alias} = loc({location})" for location, alias in tagger.aliases.items())
    return "\n".join([str(module).rstrip("\n"), *aliases, ""])


class _Tagger:
    def __init__(self, functions: dict[str, Op]) -> None:
        self.sites: list[Site] = []
        self.aliases: dict[str, str] = {}  # location text -> its alias
        self._calls = {
            name: {op.symbol for op in f.walk() if op.name == "tt.call"} for name, f in functions.items()
        }
        self._marked = {name for name, f in functions.items() if any(marker_of(op) for op in f.walk())}

    def block(self, block: Block, around: int) -> None:
        """`around` is the innermost scope that is open where the block begins, -1 for none."""
        opened: list[int] = []  # in this block and not closed yet
        closed: dict[str, int] = {}  # name -> line where it was closed last
        for op in tuple(block.ops):
            inner = opened[-1] if opened else around
            marker = marker_of(op)
            if marker is None:
                self._plain(op, inner)
            elif marker.do == "enter":
                opened.append(self._site("scope", marker.name, inner, op))
                op.erase()
            elif marker.do == "exit":
                self._exit(op, marker, opened, closed, around)
                op.erase()
            else:
                if marker.do == "payload":
                    self._check_payload(op, marker, opened, inner)
                self._keep(op, self._site(marker.do, marker.name, inner, op))
        if opened:
            self._left_open(block, opened[-1])

    def _plain(self, op: Op, inner: int) -> None:
        site = inner
        if op.name == "tt.call" and self._reaches(op.symbol or "", set()):
            site = self._site("call", op.symbol or "", inner, op)
        if site >= 0 and not (op.name == "llvm.intr.assume" and self._is_tagged(op)):
            self._tag(op, site)
        for region in op.regions:
            for block in region.blocks:
                self.block(block, inner)

    def _keep(self, op: Op, site: int) -> None:
        """A mark or payload: the op that keeps it alive behind it carries the tag as well."""
        self._tag(op, site)
        self._tag(_keeper(op), site)

    def _site(self, kind: str, name: str, parent: int, op: Op) -> int:
        self.sites.append(Site(kind, name, parent, op.loc.file, op.loc.line))
        return len(self.sites) - 1

    def _tag(self, op: Op, site: int) -> None:
        """Name the site in the op's location; by an alias, which may stand behind what it is made of."""
        old = op.loc_text
        inside = old[len("loc(") : -1] if old else "unknown"
        location = f'fused<"{SCOPE_PREFIX}{site}">[{inside}]'
        alias = self.aliases.setdefault(location, f"#profscope{len(self.aliases)}")
        last = len(op.parts) - 1
        op.set_part(last, f"{str(op.parts[last]).removesuffix(old).rstrip()} loc({alias})")

    def _is_tagged(self, op: Op) -> bool:
        return op.loc_text.startswith("loc(#profscope")

    def _reaches(self, function: str, seen: set[str]) -> bool:
        """Whether a function, or one that it calls, has markers."""
        if function in self._marked:
            return True
        seen.add(function)
        return any(
            self._reaches(name, seen) for name in self._calls.get(function, ()) if name and name not in seen
        )

    # What is wrong with a scope.

    def _exit(self, op: Op, marker: Marker, opened: list[int], closed: dict[str, int], around: int) -> None:
        name = marker.name
        if opened and self.sites[opened[-1]].name == name:
            opened.pop()
            closed[name] = op.loc.line
            return
        mine = next((self.sites[i] for i in reversed(opened) if self.sites[i].name == name), None)
        outer = around
        while outer >= 0 and self.sites[outer].name != name:
            outer = self.sites[outer].parent
        if mine is not None:
            inner = self.sites[opened[-1]]
            what = (
                f", entered on line {mine.line}, is closed while scope {inner.name!r}, entered inside of it "
                f"on line {inner.line}, is still open; close {inner.name!r} first"
            )
        elif name in closed:
            what = (
                f" is closed twice: it was closed on line {closed[name]} already; remove one exit_scope, or "
                "enter the scope again before it"
            )
        elif outer >= 0:
            what = (
                f", entered on line {self.sites[outer].line}, is closed inside a loop or branch that it was "
                "entered outside of; enter and close a scope in the same block"
            )
        else:
            what = f" is closed but not open here; put enter_scope({name!r}) before it, in the same block"
        _fail(op, f"scope {name!r}{what}")

    def _left_open(self, block: Block, site: int) -> NoReturn:
        scope = self.sites[site]
        end = "at the end of the loop or branch that it was entered in"
        if block.parent_op is not None and block.parent_op.name == "tt.func":
            end = "when its function returns"
        raise PassError(
            f"scope {scope.name!r} is still open {end}; put exit_scope({scope.name!r}) before that, or use "
            f"`with scope({scope.name!r}):`",
            scope.file,
            scope.line,
        )

    def _check_payload(self, op: Op, marker: Marker, opened: list[int], inner: int) -> None:
        what = ""
        if inner < 0:
            what = "outside of any scope; put it in the scope that it describes"
        elif not opened:
            scope = self.sites[inner]
            what = (
                f"in a loop or branch inside scope {scope.name!r} (line {scope.line}), so it has no one "
                "value; put it outside of that, or enter a scope around it"
            )
        for site in self.sites:
            if (site.kind, site.name, site.parent) == ("payload", marker.name, inner):
                what = f"in scope {self.sites[inner].name!r} already, on line {site.line}; take another name"
        if what:
            _fail(op, f"payload {marker.name!r} is {what}")


def _keeper(marker: Op) -> Op:
    """The assumption that keeps the marker of a mark or payload alive."""
    name, block = marker.results[0].name, marker.parent
    for op in () if block is None else block.ops[block.ops.index(marker) :]:
        if op.name == "llvm.intr.assume" and name in op.operands:
            return op
    raise marker.error("nothing keeps this marker alive")


def _fail(op: Op, message: str) -> NoReturn:
    raise PassError(message, op.loc.file, op.loc.line)


def without_scopes(text: str, filename: str) -> str:
    """The text of a printed TTIR module without any markers."""
    return _without(text, filename, ("enter", "exit", "mark", "payload"))


def without_points(text: str, filename: str) -> str:
    """The text of a printed TTIR module without the markers of marks and payloads.

    For kernels that Triton's optimiser fails on with them; `scope-spans` notes that they have no records.
    """
    return _without(text, filename, ("mark", "payload"))


def _without(text: str, filename: str, what: Container[str]) -> str:
    module = parse(text, filename)
    for op in tuple(module.walk()):
        marker = marker_of(op)
        if marker is None or marker.do not in what:
            continue
        if marker.do in ("mark", "payload"):
            _keeper(op).erase()
        op.erase()
    return str(module)
