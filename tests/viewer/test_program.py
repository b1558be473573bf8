"""What the header says of the program around the kernels."""

from __future__ import annotations

import re
from dataclasses import replace

from profscope.viewer.header import render_foot, render_header, render_top
from tests.support.around import program
from tests.support.models import shown
from tests.support.profiles import regular_profile


def test_the_header_has_gpu_time_and_the_longest_scopes() -> None:
    profile = program()
    header = shown(profile)
    around = header.model.program
    text = " ".join(" ".join(line.plain for line in render_foot(header, 300)).split())
    (gpu,) = around.gpus
    assert f"GPU {gpu.device} busy for " in text
    assert around.triton_share == profile.program.gpu_time().attrs["triton_share"]
    assert f"; {100 * around.triton_share:.1f}% of its time is Triton's (" in text
    assert [scope.path for scope in around.scopes] == ["step", "step > backward", "step > forward"]
    assert re.search(r"; scope step \S+, 3 launches;", text), "once: neither 1 x nor each"
    for render, said in ((render_header, True), (render_foot, True), (render_top, False)):
        assert any("Program" in line.plain for line in render(header, 80)) == said


def test_notes_that_say_the_same_of_many_kernels_are_told_once() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=1)
    notes = [f"k{at}: {at} of 64 CTAs were recorded" for at in range(1, 9)] + [
        "a: 2",
        "alone: something else",
    ]
    profile = replace(profile, metadata={**profile.metadata, "notes": notes})
    header = shown(profile)
    text = " ".join(" ".join(line.plain for line in render_header(header, 200)).split())
    assert "Note k1: 1 of 64 CTAs were recorded (and 7 notes like it, in --format json)" in text
    assert "k2: " not in text
    assert "Note alone: something else" in text
    assert list(header.header.notes) == notes
    foot = "\n".join(line.plain for line in render_foot(header, 200))
    assert " ".join(foot.split()) in text
    assert foot.count("Note") == 3
