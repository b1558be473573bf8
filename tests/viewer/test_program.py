"""What the header says of the program around the kernels."""

from __future__ import annotations

from dataclasses import replace

from tests.support.around import program
from tests.support.profiles import regular_profile
from viewer.header import make_header, render_foot, render_header, render_top
from viewer.select import Selection


def test_the_header_has_gpu_time_and_the_longest_scopes() -> None:
    profile = program()
    header = make_header(profile, "trace.json", Selection(), len(profile.tables.df))
    busy, triton, *scopes = header.program
    assert busy.startswith("GPU 0 busy for ")
    share = profile.program.gpu_time().attrs["triton_share"]
    assert triton.startswith(f"{100 * share:.1f}% of its time is Triton's (")
    assert [scope.rsplit(" ", 3)[0] for scope in scopes] == [
        "scope step", "scope step > backward", "scope step > forward",
    ]  # fmt: skip
    assert scopes[0].endswith(", 3 launches"), "once: neither 1 x nor each"
    for render, said in ((render_header, True), (render_foot, True), (render_top, False)):
        assert any("Program" in line.plain for line in render(header, 80)) == said


def test_without_any_it_says_nothing() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=1)
    header = make_header(profile, "trace.json", Selection(), len(profile.tables.df))
    assert header.program == []
    assert not any("Program" in line.plain for line in render_header(header, 80))


def test_notes_that_say_the_same_of_many_kernels_are_told_once() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=1)
    notes = [f"k{at}: {at} of 64 CTAs were recorded" for at in range(1, 9)] + [
        "a: 2",
        "alone: something else",
    ]
    profile = replace(profile, metadata={**profile.metadata, "notes": notes})
    header = make_header(profile, "trace.json", Selection(), len(profile.tables.df))
    text = " ".join(" ".join(line.plain for line in render_header(header, 200)).split())
    assert "Note k1: 1 of 64 CTAs were recorded (and 7 notes like it, in --format json)" in text
    assert "k2: " not in text
    assert "Note alone: something else" in text
    assert header.notes == notes
    foot = "\n".join(line.plain for line in render_foot(header, 200))
    assert " ".join(foot.split()) in text
    assert foot.count("Note") == 3
