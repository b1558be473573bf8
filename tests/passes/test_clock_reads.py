"""ptxas must leave every clock read where it stands."""

from __future__ import annotations

import pytest

from profscope.binaries.listing import read_line_tables, read_listing
from profscope.instrument_passes.toolchain import built, disassembled
from profscope.options import Options
from tests.kernels import aot
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA90
from tests.support.builds import recording_builds

pytestmark = pytest.mark.exhaustive


def moved_clock_reads(ptx: str, cubin: bytes) -> list[int]:
    """The PTX lines, from 1, whose clock reads the binary has not, and those that read the clock only
    there."""
    written = {at for at, line in enumerate(ptx.splitlines(), 1) if "%clock" in line}
    text = disassembled(cubin)
    lines = read_line_tables(text)[1]
    assert lines
    read = {
        lines.get(each.pc, 0)
        for each in read_listing(text).instructions
        if any("CLOCKLO" in operand for operand in each.operands)
    }
    return sorted(written ^ read)


@pytest.mark.parametrize("name", ["attention", "layer_norm", "matmul_tma", "matmul_ws", "gluon_ws_loop"])
def test_clocks_of_spans_are_read_where_they_stand(name: str) -> None:
    spec = next(spec for spec in specs() if spec.name == name)
    with recording_builds(Options(instrument="heavy")):
        texts, _ = aot.lowered(spec, CUDA90, "ttgir")
    _, left, _ = built(texts["ttgir"], name)
    assert left["ptx"].count("%clock") > 2
    assert moved_clock_reads(left["ptx"], left["cubin"]) == []
