"""The way through a CTA, and what shortening a span of it brings."""

from __future__ import annotations

import pytest
import torch

from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.analysis.kernels.replay import replay_of
from profscope.profiles import Profile
from tests.kernels.planted import late_warp_kernel
from tests.support.captured import captured
from tests.support.sessions import session

INSTRUMENT = ["kernel-span", "loop-spans", "op-spans{classes=reduce;elementwise}"]


def late(turns: int) -> Profile:
    """Warp 3 goes round `turns` times, the others a tenth of that."""
    each = torch.full((4, 32), turns // 10, dtype=torch.int32)
    each[3] = turns
    with session(instrument=INSTRUMENT) as prof:
        late_warp_kernel[(1,)](torch.ones(128), each, torch.empty(1), 4, BLOCK=128)
    return prof.profile


def test_a_shorter_span_ends_the_cta_as_much_earlier_as_was_said() -> None:
    whole, shorter = late(1000), late(750)
    path = whole.timeline.critical_path()
    asm = path.iloc[0]
    assert asm["scope"] == "inline asm x"
    assert asm["share"] > 0.9  # the way goes through the late warp, not the others
    real_pct = 100 * (1 - _cycles(shorter) / _cycles(whole))
    assert asm["earlier_pct"] == pytest.approx(real_pct, abs=1.0)


def _cycles(profile: Profile) -> int:
    roots = profile.df[profile.df["depth"] == 0]
    return int((roots["start_cycle"] + roots["duration_cycles"]).max() - roots["start_cycle"].min())


@pytest.mark.parametrize(
    "name", ["softmax-heavy-0", "matmul-heavy-0", "matmul_ws-heavy-0", "layer_norm-heavy-0"]
)
def test_run_again_unchanged_a_cta_takes_what_it_took(name: str) -> None:
    (judged,) = kernel_analyses(captured(name))
    assert isinstance(judged, KernelAnalysis)
    for cta in range(len(judged.ctas)):
        replay = replay_of(judged, cta)
        assert replay.cycles == judged.ctas["cycles"].iloc[cta]
        assert replay.run({}) == pytest.approx(replay.cycles, rel=0.02)
        assert sum(replay.path().values()) == pytest.approx(replay.cycles, rel=0.02)
