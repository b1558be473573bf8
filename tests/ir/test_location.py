"""Locations lead to the source lines of the kernels."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import Location, parse
from profscope.instrument_passes.ir.location import Caller, resolve_location
from tests.kernels.spec import CUDA90, TARGETS
from tests.support.corpus import printed
from tests.support.quick import quick


def _source(location: Location) -> str:
    return linecache.getline(location.file, location.line).strip()


@pytest.mark.parametrize("target", quick(TARGETS, (CUDA90,)))
@pytest.mark.parametrize(
    ("kernel", "op_name", "source", "names"),
    [
        ("add", "tt.load", "= tl.load(", {"x", "y"}),
        ("add", "tt.store", "tl.store(out_ptr + offs, x + y, mask=mask)", {""}),
        ("add", "tt.get_program_id", "pid = tl.program_id(0)", {"pid"}),
        ("softmax", "math.exp", "e = tl.exp(x)", {"e"}),
        ("attention", "math.exp2", "tl.exp2(", {"p", "shrink"}),
        ("while", "arith.select", "value = tl.where(", {"value"}),
        ("early_return", "tt.return", "return", {""}),
        ("noinline", "tt.call", "(", {"y", ""}),
    ],
)
def test_ops_lead_to_their_lines(
    kernel: str, op_name: str, source: str, names: set[str], target: str
) -> None:
    module = parse(printed(kernel, target))
    found = [op.loc for op in module.walk() if op.name == op_name]
    assert found
    for location in found:
        assert location.line > 0
        assert Path(location.file).stem in (kernel, "control_flow")
        if op_name != "tt.return":  # 3.8 and 3.9 give a kernel's own return the line of its def
            assert source in _source(location)
    assert {location.name for location in found} <= names


@pytest.mark.parametrize("target", TARGETS)
def test_inlined_ops_name_their_callers(target: str) -> None:
    module = parse(printed("attention", target))
    found = [op.loc for op in module.walk() if op.name == "math.exp2"]
    for location in found:
        assert "tl.exp2(" in _source(location)
        (caller,) = location.callers
        assert Path(caller.file).name == "attention.py"
        # 3.6 and 3.7 give the line of the call's last argument.
        assert any(
            part in linecache.getline(caller.file, caller.line) for part in ("_accumulate(", "BLOCK_N, HEAD")
        )
    assert len({location.callers for location in found}) == 2


@pytest.mark.parametrize("target", TARGETS)
def test_library_code_leads_back_to_the_kernel(target: str) -> None:
    module = parse(printed("softmax", target))
    reductions = [op.loc for op in module.walk() if op.name == "tt.reduce"]
    lines = [linecache.getline(*location.callers[-1][:2]).strip() for location in reductions]
    assert list(dict.fromkeys(lines)) == ["x = x - tl.max(x, axis=0)", "y = e / tl.sum(e, axis=0)"]
    assert {Path(location.file).name for location in reductions} == {"standard.py"}


ALIASES = {
    "#loc": "loc(unknown)",
    "#loc1": 'loc("a.py":1:2)',
    "#loc2": 'loc("b.py":20:3)',
    "#loc3": 'loc("name"(#loc1))',
    "#loc4": "loc(callsite(#loc3 at #loc2))",
    "#loop": "loc(#loop)",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Location()),
        ("loc(unknown)", Location()),
        ("#loc1", Location("a.py", 1, 2)),
        ("loc(#loc1)", Location("a.py", 1, 2)),
        ('loc("q\\22 \\\\(1).py":7:0)', Location('q" \\(1).py', 7, 0)),
        ('loc("a.py":7:1 to :9)', Location("a.py", 7, 1)),
        ('loc("a.py":7:1 to 8:9)', Location("a.py", 7, 1)),
        ('loc("x")', Location(name="x")),
        ('loc("x"("a.py":1:2))', Location("a.py", 1, 2, "x")),
        ('loc("outer"("inner"(#loc1)))', Location("a.py", 1, 2, "outer")),
        ("loc(#loc4)", Location("a.py", 1, 2, "name", (Caller("b.py", 20, 3),))),
        (
            "loc(callsite(#loc1 at #loc4))",
            Location("a.py", 1, 2, "", (Caller("a.py", 1, 2, "name"), Caller("b.py", 20, 3))),
        ),
        (
            "loc(callsite(#loc4 at #loc1))",
            Location("a.py", 1, 2, "name", (Caller("b.py", 20, 3), Caller("a.py", 1, 2))),
        ),
        ("loc(fused[#loc, #loc2, #loc1])", Location("b.py", 20, 3)),
        ('loc(fused<{a = ">", b = <1>}>[unknown, "a.py":3:4])', Location("a.py", 3, 4)),
        ("loc(fused[unknown])", Location()),
        ('loc(fused<"profscope:7">["x"(#loc1)])', Location("a.py", 1, 2, "x", scopes=(7,))),
        ('loc(fused<"profscope:x">[#loc1])', Location("a.py", 1, 2)),
        (
            'loc(callsite(fused<"profscope:5">[#loc1] at callsite(#loc2 at fused<"profscope:0">[#loc2])))',
            Location("a.py", 1, 2, "", (Caller("b.py", 20, 3), Caller("b.py", 20, 3)), (0, 5)),
        ),
    ],
)
def test_forms(text: str, expected: Location) -> None:
    assert resolve_location(text, ALIASES) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loc(#gone)", "location alias #gone is not defined"),
        ("loc(#loop)", "location alias #loop leads to itself"),
        ('loc("a.py":1)', "expected ':', found ')'"),
        ('loc("a.py":x:1)', "expected a line number, found 'x'"),
        ("loc(callsite(#loc1 #loc2))", "expected 'at', found '#loc2'"),
        ("loc(unknown) loc", "expected nothing more, found 'loc'"),
        ("loc(fused<a[unknown])", "expected '>', found the end"),
        ("loc(", "expected a location, found the end"),
        ("loc(" * 3000, "a location is nested too deeply"),
    ],
)
def test_bad_locations(text: str, message: str) -> None:
    with pytest.raises(IRError, match="location") as caught:
        resolve_location(text, ALIASES)
    assert message in str(caught.value)


def test_undefined_alias_names_the_op_and_line() -> None:
    module = parse("module {\n  a.b loc(#loc7)\n}\n", "m.ttgir")
    with pytest.raises(IRError, match=r"^m.ttgir:2: location alias #loc7 is not defined: a.b loc\(#loc7\)$"):
        _ = module.body.ops[0].loc
