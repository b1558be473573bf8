"""What the lowered records of awkward control flow store, seen in the TTGIR that Triton took."""

from __future__ import annotations

from pathlib import Path

import pytest

from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.options import Options
from tests.kernels.loops import loop_in_branch_kernel
from tests.kernels.spec import Spec
from tests.support.builds import build, manifest, recording_builds


def test_a_branch_that_skips_a_loop_hands_its_row_count_on() -> None:
    signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "rows": "i32"}
    spec = Spec("loop_in_branch", loop_in_branch_kernel, signature, {"BLOCK": 128})
    with recording_builds(Options(instrument="heavy")):
        kernel = build(spec)
    found = manifest(kernel)
    assert found is not None
    assert [frame.parent for frame in found.sections[0].frames] == [-1, 0, 1]
    module = parse(kernel.asm["ttgir"])
    (branch,) = [op for op in module.walk() if op.name == "scf.if"]
    ran, skipped = (list(region.entry.ops)[-1].operands for region in branch.regions)
    counter = ran[-1]  # the count of inner rows, which the loop around it carries on
    assert ran.count(counter) == 2  # once for the row, once to carry on
    kept = [there for here, there in zip(ran, skipped, strict=True) if here == counter]
    assert kept[0] == kept[1]  # what is stored is the count so far, not zero


def test_iterations_without_their_loops_are_refused() -> None:
    text = (Path(__file__).parent / "inputs" / "nested_loops.ttgir").read_text()
    pipeline = parse_pipeline("kernel-span,iteration-spans")
    with pytest.raises(PassError, match=r"put loop-spans before iteration-spans: .*scf\.for"):
        run_pipeline(parse(text, "nested_loops.ttgir"), pipeline, PassContext())
