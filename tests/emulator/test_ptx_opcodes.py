"""The class of an instruction of PTX is that of the SASS that ptxas makes of it."""

from __future__ import annotations

import pytest

from profscope.binaries.listing import CLASSES
from profscope.emulator.opcodes import TABLE
from profscope.emulator.ptx_syntax import ptx_class


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("ld.global.v4.b32", "global load"),
        ("ld.relaxed.gpu.global.L1::evict_last.b32", "global load"),
        ("ld.param.b64", "constant load"),
        ("ld.shared.b32", "shared load"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "shared load"),
        ("st.global.v2.b64", "global store"),
        ("st.shared::cta.b32", "shared store"),
        ("st.local.b32", "local store"),
        ("red.global.add.f32", "atomic"),
        ("cp.async.cg.shared.global", "async copy"),
        ("cp.async.wait_group", "barrier"),
        ("bar.sync", "barrier"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma"),
        ("ex2.approx.ftz.f32", "special function"),
        ("cvt.rn.f16x2.f32", "conversion"),
        ("fma.rn.f32", "float"),
        ("mad.lo.s32", "integer"),
        ("div.s64", "integer"),
        ("setp.lt.f32", "predicate"),
        ("mov.b64", "move"),
        ("shfl.sync.bfly.b32", "warp exchange"),
        ("bra.uni", "control"),
    ],
)
def test_class_of(opcode: str, expected: str) -> None:
    assert ptx_class(opcode) == expected


def test_all_opcodes_have_a_class_of_the_table() -> None:
    assert {ptx_class(name) for name in TABLE} <= {*CLASSES, "other"}
