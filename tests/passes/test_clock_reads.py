"""ptxas must leave every clock read where it stands, or the kernel keeps no sums."""

from __future__ import annotations

import pytest

from instrument_passes.sass.clock_reads import moved_clock_reads
from instrument_passes.toolchain import built
from profscope.launching.hook import CompileHook
from profscope.launching.trials import Trials
from profscope.options import Options
from profscope.recording.programs import manifest_in
from tests.kernels import aot
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA90, Spec

pytestmark = pytest.mark.exhaustive

MOVED = ("gluon_ws_loop", "heavy", "totals")
WITH_SPANS = ("attention", "layer_norm", "matmul_tma", "matmul_ws", "gluon_ws_loop")


def spec_of(name: str) -> Spec:
    return next(spec for spec in specs() if spec.name == name)


def instrumented(spec: Spec, level: str, keep: str) -> str:
    hook = CompileHook(Options(instrument=level, keep=keep))
    with hook.installed():
        texts, _ = aot.lowered(spec, CUDA90, "ttgir", {"instrumentation_mode": hook.mode})
    return texts["ttgir"]


@pytest.mark.parametrize("name", WITH_SPANS)
def test_clocks_of_spans_are_read_where_they_stand(name: str) -> None:
    """Sessions look at sums alone: clocks of spans go to memory soon, from registers of their own."""
    _, left, _ = built(instrumented(spec_of(name), "heavy", "spans"), name)
    assert left["ptx"].count("%clock") > 2
    assert moved_clock_reads(left["ptx"], left["cubin"]) == []


def test_a_kernel_whose_clock_reads_are_moved_keeps_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    name, level, keep = MOVED
    spec = spec_of(name)
    manifest = manifest_in(instrumented(spec, level, keep))
    with monkeypatch.context() as patch:
        patch.setattr(Trials, "possible", lambda backend: False)
        untried = instrumented(spec, level, keep)
    _, left, _ = built(untried, spec.name)
    moved = moved_clock_reads(left["ptx"], left["cubin"])
    assert manifest is not None
    assert manifest.keeps == ("spans" if moved else "sums")
    note = "all its launches keep spans, for it cannot keep totals: the assembler moves its clock reads"
    assert (note in manifest.notes) == bool(moved)
