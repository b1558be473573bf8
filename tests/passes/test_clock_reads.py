"""ptxas must leave every clock read where it stands."""

from __future__ import annotations

import pytest

from instrument_passes.sass.clock_reads import moved_clock_reads
from instrument_passes.toolchain import built, triton_version
from profscope.launching import hook
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
SUMMED = [("add", "totals"), ("attention", "totals"), ("layer_norm", "sums"), ("softmax", "sums")]
NOTE = "all its launches keep spans, for it cannot keep totals: the assembler moves its clock reads"


def spec_of(name: str) -> Spec:
    return next(spec for spec in specs() if spec.name == name)


def instrumented(spec: Spec, level: str, keep: str) -> str:
    compiling = CompileHook(Options(instrument=level, keep=keep))
    with compiling.installed():
        texts, _ = aot.lowered(spec, CUDA90, "ttgir", {"instrumentation_mode": compiling.mode})
    return texts["ttgir"]


@pytest.mark.parametrize("name", WITH_SPANS)
def test_clocks_of_spans_are_read_where_they_stand(name: str) -> None:
    """Sessions look at sums alone: clocks of spans go to memory soon, from registers of their own."""
    _, left, _ = built(instrumented(spec_of(name), "heavy", "spans"), name)
    assert left["ptx"].count("%clock") > 2
    assert moved_clock_reads(left["ptx"], left["cubin"]) == []


@pytest.mark.parametrize(("name", "keep"), SUMMED)
def test_clocks_that_are_read_once_are_pinned(name: str, keep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a second build, but for the assembler of Triton 3.9, which moves one in a loop of attention;
    most reads of these kernels are outside of loops."""
    if triton_version() < (3, 9):
        monkeypatch.setattr(Trials, "possible", lambda backend: False)
    _, left, _ = built(instrumented(spec_of(name), "heavy", keep), name)
    assert left["ptx"].count("%clock") > 2
    assert moved_clock_reads(left["ptx"], left["cubin"]) == []


def test_a_kernel_whose_clock_reads_are_moved_is_built_with_all_pinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, level, keep = MOVED
    spec = spec_of(name)
    with monkeypatch.context() as patch:
        patch.setattr(Trials, "possible", lambda backend: False)
        untried = instrumented(spec, level, keep)
    text = instrumented(spec, level, keep)
    manifest = manifest_in(text)
    _, left, _ = built(text, spec.name)
    assert manifest is not None
    assert (manifest.keeps, NOTE in manifest.notes) == ("sums", False)
    assert moved_clock_reads(left["ptx"], left["cubin"]) == []
    _, left, _ = built(untried, spec.name)
    assert untried != text or not moved_clock_reads(left["ptx"], left["cubin"])


def test_a_kernel_whose_clock_reads_stay_moved_keeps_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "pinned", list)
    monkeypatch.setattr(Trials, "clocks_stay", lambda trials, text: False)
    manifest = manifest_in(instrumented(spec_of("add"), "default", "totals"))
    assert manifest is not None
    assert manifest.keeps == "spans"
    assert NOTE in manifest.notes
