"""Calls of noinline functions: every call path gets a copy of its callee, so that records have own places.

Which word of a row a record goes to is static. A function that is called from several places is therefore
cloned for each call that records may follow, and its clones' calls are treated likewise; Triton has no
recursion. A clone records into the row of its caller: it is handed the row's address. The call has a span of
its own, which shows the path.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from profscope.instrument_passes.analyses.places import Places, call_name
from profscope.instrument_passes.analyses.walk import callee_of, recordable_blocks
from profscope.instrument_passes.dialect import BEGIN, SpanIds, begin, end, is_record
from profscope.instrument_passes.ir import Module, Op

__all__ = ["MAX_CLONES", "expand_calls"]

MAX_CLONES: Final = 64  # of one kernel; each is code of its own
_ID: Final = re.compile(r"(?<=[{ ]id = )\d+")


def expand_calls(module: Module, kernel: Op, places: Places) -> tuple[dict[Op, Op], list[str]]:
    """Give every call that leads to records a clone of its callee; returns the clones by call, and notes.

    Shallow calls come first. Calls beyond MAX_CLONES keep the function itself, which records nothing.
    """
    originals = [f for f in module.functions if f is not kernel]
    recording = {f for f in originals if _holds_records(f)}
    clones: dict[Op, Op] = {}
    left_bare: dict[str, None] = {}
    ids = SpanIds.of(module)
    callers = deque([kernel])
    while callers:
        for call in _calls(callers.popleft()):
            callee = callee_of(call)
            if callee is None or callee not in recording:
                continue
            if len(clones) == MAX_CLONES:
                left_bare[call_name(call, places).removeprefix("call ")] = None
                continue
            _bracket(call, ids, places)
            clones[call] = _clone(module, call, callee, len(clones), ids)
            callers.append(clones[call])
    _clean(module, originals, recording)
    said = f"has more than {MAX_CLONES} call paths that record; what runs in further ones is not recorded"
    return clones, [f"the kernel {said}: {', '.join(left_bare)}"] if left_bare else []


def _holds_records(function: Op) -> bool:
    return any(is_record(op) for block in recordable_blocks(function) for op in block.ops)


def _calls(function: Op) -> list[Op]:
    blocks = recordable_blocks(function, into_calls=False)
    return [op for block in blocks for op in tuple(block.ops) if op.name == "tt.call"]


def _bracket(call: Op, ids: SpanIds, places: Places) -> None:
    """A span around the call, unless a pass has put one there."""
    assert call.parent is not None
    at = call.parent.ops.index(call)
    before = call.parent.ops[at - 1] if at else None
    if before is not None and before.name == BEGIN and before.attributes.get("op") == '"tt.call"':
        return
    span = ids.new()
    call.insert_before(begin(span, "op", call_name(call, places), "tt.call"))
    call.insert_after(end(span))


def _clone(module: Module, call: Op, callee: Op, number: int, ids: SpanIds) -> Op:
    """A copy of the function for one call, with span ids of its own."""
    symbol = f'@"{callee.symbol}__ps{number}"'
    (clone,) = module.body.insert(len(module.body.ops), str(callee), "")
    for op in (call, clone):
        header = op.header
        piece = next(p for p in header.pieces[header.name_index :] if p.kind == "symbol")
        op.splice([(piece.part, piece.start, piece.end, symbol)])
    fresh: dict[str, str] = {}

    def renumbered(match: re.Match[str]) -> str:
        if match[0] not in fresh:
            fresh[match[0]] = str(ids.new())
        return fresh[match[0]]

    for op in clone.walk():
        if op.name.startswith("profscope."):
            op.set_part(0, _ID.sub(renumbered, str(op.parts[0]), count=1))
    return clone


def _clean(module: Module, originals: list[Op], recording: set[Op]) -> None:
    """Take the records out of the functions themselves, and the functions without a caller."""
    for function in originals:
        if function in recording:
            for op in tuple(function.walk()):
                if op.name.startswith("profscope."):
                    op.erase()
    left = recording
    while True:  # a function that goes takes its calls with it
        called = {op.symbol for op in module.walk() if op.name == "tt.call"}
        unused = {f for f in left if f.symbol not in called}
        if not unused:
            return
        for function in unused:
            function.erase()
        left = left - unused
