"""What sums may cost in registers, and what is left out where they cost more."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instrument_passes.analyses.occupancy import limits_of
from instrument_passes.analyses.opclasses import SPANNABLE
from instrument_passes.economy import FOLDED, STEPS, Demand, Step, afford, loses
from instrument_passes.ir import parse
from instrument_passes.opt import main
from instrument_passes.passes import PassContext
from instrument_passes.passes.lower_records import LowerRecords, manifest_of
from instrument_passes.pipeline import parse_pipeline, run_pipeline
from tests.kernels import add, softmax
from tests.kernels.aot import ttgir
from tests.kernels.spec import CUDA80

H100 = limits_of("cuda:90")
assert H100 is not None
BARE = Demand(warps=4, registers=126, shared_bytes=1024, local_bytes=0)


def needs(registers: int, local_bytes: int = 0) -> Demand:
    return Demand(4, registers, 1024, local_bytes)


def test_a_lost_cta_or_spills_count_and_nothing_else() -> None:
    assert loses(BARE, needs(128), H100) == ""  # registers come in eights
    assert loses(BARE, needs(129), H100) == "1 of 4 CTAs"
    assert loses(BARE, needs(120, 8), H100) == "8 bytes of spills"
    assert loses(needs(126, 8), needs(126, 8), H100) == ""
    assert loses(BARE, needs(200), None) == ""


@given(st.lists(st.integers(100, 255), min_size=len(STEPS), max_size=len(STEPS)), st.sampled_from(STEPS))
def test_no_more_is_left_out_than_must_be(registers: list[int], first: Step) -> None:
    asked: list[Step] = []

    def build(step: Step) -> Demand:
        asked.append(step)
        return needs(registers[STEPS.index(step)])

    step, lost = afford(first, BARE, build, H100)
    steps = STEPS[STEPS.index(first) :]
    fit = [H100.fit(4, registers[STEPS.index(each)], 1024) for each in steps]
    best = fit.index(max(min(each, 4) for each in fit)) if max(fit) < 4 else next(
        at for at, each in enumerate(fit) if each >= 4
    )  # fmt: skip
    assert step == steps[best]
    assert lost == ("" if fit[best] >= 4 else f"{4 - fit[best]} of 4 CTAs")
    assert asked == list(steps[: best + 1] if fit[best] >= 4 else steps)


def test_steps_keep_less_and_less() -> None:
    assert STEPS[0] == Step("sums")
    for before, after in pairwise(STEPS):
        assert set(before.fold) <= set(after.fold)
        assert before != after
    assert not {"load", "store", "atomic", "async_copy", "wait", "mma", "barrier", "call"} & set(FOLDED)
    assert set(FOLDED) <= set(SPANNABLE)


def test_folded_ops_have_no_site_of_their_own() -> None:
    def sites(lowering: str) -> tuple[set[str], tuple[str, ...]]:
        module = parse(ttgir(softmax.specs()[0], CUDA80), "softmax")
        run_pipeline(module, parse_pipeline(f"heavy,{lowering}"), PassContext())
        manifest = manifest_of(module)
        assert manifest is not None
        return {span.op for section in manifest.sections for span in section.spans}, manifest.notes

    everything, notes = sites("lower-records{keep=totals}")
    assert "tt.reduce" in everything
    assert notes == ()
    fewer, notes = sites("lower-records{keep=totals fold=reduce}")
    assert everything - fewer == {"tt.reduce"}
    assert notes == ("to save registers these sites have no sums of their own: 2 of reduce",)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [({"fold": ("load",), "keep": "sums"}, "fold=load is none of"), ({"fold": ("math",)}, "give keep=sums")],
)
def test_what_cannot_be_folded_is_refused(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        LowerRecords(**wrong)  # type: ignore[arg-type]


@pytest.mark.exhaustive
def test_cost_shows_sums(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "add.ttgir"
    file.write_text(ttgir(add.specs()[0], CUDA80))
    passes = "kernel-span,op-spans{classes=load},lower-records{keep=sums},allocate-buffer"
    assert main([str(file), "--cost", "-p", passes]) == 0
    said = capfd.readouterr().out
    assert "registers per thread" in said
    assert "\n6 records, " in said
    assert "sums cost" not in said
    assert "the assembler moves" not in said
    monkeypatch.setattr("instrument_passes.cost.moved_clock_reads", lambda ptx, cubin: [7])
    for more, moves in (("", True), (" pinned=true", False)):
        assert main([str(file), "--cost", "-p", passes.replace("=sums", f"=sums{more}")]) == 0
        said = capfd.readouterr().out
        line = "the assembler moves 1 clock read: a session builds with lower-records{pinned=true}"
        assert (line in said.splitlines()) is moves
