"""The emulator's tests once more, each launch also on a GPU: the same PTX must leave the same memory.

Left out is what a GPU may do in another order each time, and what would hang it.
"""

import pytest
import torch

from profscope.emulator.launch import Launch
from tests.emulator.test_control_flow import (  # noqa: F401
    test_branch_in_loop,
    test_device_functions,
    test_dropout_and_normal_numbers,
    test_early_return,
    test_half_precision_atomic_add,
    test_lock_between_ctas,
    test_nested_loops,
    test_philox,
    test_while_loops_that_end_at_different_times,
)
from tests.emulator.test_dots import *  # noqa: F403
from tests.emulator.test_elementwise import *  # noqa: F403
from tests.emulator.test_reductions import *  # noqa: F403
from tests.emulator.test_shaping import (  # noqa: F401
    test_choices,
    test_compare_and_swap,
    test_inline_assembly_of_a_kernel,
    test_shapes,
)
from tests.support.hardware import run_on_both

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


@pytest.fixture(autouse=True)
def hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Launch, "run", run_on_both)
