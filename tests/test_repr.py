"""What a profile and a session say of themselves."""

from __future__ import annotations

import pytest
import torch

import profscope
from tests.kernels.add import add_kernel
from tests.support.profiles import profile_metadata, regular_profile


def test_a_profile_says_what_it_holds() -> None:
    profile = regular_profile(launches=2, ctas=8, warps=4, iterations=6)
    assert repr(profile) == "<Profile: 1 kernel, 2 launches, 2,112 spans, 0 dropped records, gpu>"
    launches = profile.launches.assign(dropped=profile.launches["dropped"] + 600)
    emulated = profscope.Profile(profile.df, launches, profile_metadata("emulator"))
    assert repr(emulated).endswith(", 1,200 dropped records, EMULATED>")
    assert repr(profscope.Profile()) == (
        "<Profile: 0 kernels, 0 launches, 0 spans, 0 dropped records, unknown backend>"
    )


@pytest.mark.filterwarnings("default")
def test_a_session_says_whether_it_is_open_and_what_it_holds() -> None:
    session = profscope.session(backend="emulator", instrument="light")
    assert repr(session) == "<Session: the session has not started; use it in a with statement>"
    x = torch.ones(64)
    out = torch.empty_like(x)
    with session as prof:
        assert repr(prof) == "<Session: open, not read yet>"
        add_kernel[(1,)](x, x, out, 64, BLOCK=64)
        assert len(prof.launches) == 1
        spans = len(prof.df)
        held = f"1 kernel, 1 launch, {spans} spans, 0 dropped records, EMULATED"
        assert repr(prof) == f"<Session: open, {held} when last read>"
    assert repr(session) == f"<Session: closed, {held}>"
