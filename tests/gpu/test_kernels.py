"""The checks of run_kernels, on the small size of every kernel."""

from __future__ import annotations

import pytest
import torch

from tests.gpu.run_kernels import LEVELS, all_cases, measure
from tests.kernels.cases import Case

_GPU = torch.cuda.is_available()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not _GPU, reason="needs an NVIDIA GPU")]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", all_cases("small") if _GPU else [], ids=lambda c: c.name)
def test_profile_is_sound_and_outputs_are_the_same(case: Case, level: str) -> None:
    for result in measure(case, level, timed=False):
        assert result.problems == ()
        assert result.identical
