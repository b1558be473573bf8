"""What `bench.stalls` makes of samples that an H200 took of a pointer chase."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.stalls import Case, cases, judged, main, sampled
from profscope import emulator
from profscope.evidence.subject import SampledLaunch

CAPTURE = Path(__file__).parents[1] / "data/sampler/chase.npz"


def chased(binary: str = "bare") -> SampledLaunch:
    held = np.load(CAPTURE)
    return SampledLaunch(
        kernel="chase_kernel",
        variant_key="",
        launch=-1,
        binary=binary,
        period_log2=int(held["period_log2"]),
        taken=int(held["taken"]),
        dropped=int(held["dropped"]),
        rows=held["rows"],
        reasons=tuple(held["reasons"].tolist()),
        cubin=held["cubin"].tobytes(),
        ptx=str(held["ptx"]),
    )


def test_the_wait_for_a_load_is_charged_to_its_line() -> None:
    case = Case("chase", lambda: None, ("long_scoreboard",), "", 0.95)
    verdict = judged(case, [chased(), chased(), chased("spans")])
    assert verdict.reason == "long_scoreboard"
    assert verdict.share > 0.95
    assert verdict.right
    assert verdict.samples == 2 * chased().taken
    assert verdict.line.startswith("cold.py:")


@pytest.mark.parametrize(("reasons", "share"), [(("barrier",), 0.0), (("long_scoreboard",), 0.9999)])
def test_what_is_not_as_expected_is_wrong(reasons: tuple[str, ...], share: float) -> None:
    assert not judged(Case("chase", lambda: None, reasons, "", share), [chased()]).right


def test_without_samples_of_the_bare_kernel_there_is_no_verdict() -> None:
    with pytest.raises(RuntimeError, match="no samples"):
        judged(Case("chase", lambda: None, ("wait",), ""), [chased("spans")])


def test_the_command_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cases", "no such case"]) == 2
    assert "needs an NVIDIA GPU" in capsys.readouterr().err


def test_the_cases_can_be_launched() -> None:
    with emulator.activate():
        by_name = {case.name: case for case in cases("cpu", tiny=True)}
        launches, notes = sampled(by_name["FMA chain"])
    assert launches == []
    assert notes == []
