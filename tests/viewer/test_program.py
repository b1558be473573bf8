"""What the header says of the program around the kernels."""

from __future__ import annotations

from tests.support.around import program
from tests.support.profiles import regular_profile
from viewer.header import make_header, render_header
from viewer.select import Selection


def test_the_header_has_gpu_time_and_the_longest_scopes() -> None:
    profile = program()
    header = make_header(profile, "trace.json", Selection(), len(profile.tables.df))
    busy, triton, *scopes = header.program
    assert busy.startswith("GPU 0 busy for ")
    assert triton == f"{100 * profile.gpu_time().attrs['triton_share']:.1f}% of its time is Triton's"
    assert [scope.split(" x ")[0] for scope in scopes] == [
        "scope step 1", "scope step > backward 1", "scope step > forward 1",
    ]  # fmt: skip
    assert scopes[0].endswith("3 launches each")
    assert any("Program" in line.plain for line in render_header(header, 80))


def test_without_any_it_says_nothing() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=1)
    header = make_header(profile, "trace.json", Selection(), len(profile.tables.df))
    assert header.program == []
    assert not any("Program" in line.plain for line in render_header(header, 80))
