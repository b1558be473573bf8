"""Calls of liger-kernel: its norms, activations, softmax and losses, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch

from bench.libraries.calls import Call, Calls
from tests.gpu import liger

__all__ = ["MODULE", "cases"]

MODULE: Final = "liger_kernel"


def cases(device: str) -> dict[str, Calls]:
    """The calls of each op by its name; what the tests run on the GPU, too."""
    return {
        case.name.removeprefix("liger_"): partial(_one, case.inputs, case.launch, device)
        for case in liger.cases("small")
    }


def _one(
    inputs: Callable[[str], Mapping[str, torch.Tensor]],
    launch: Callable[[Mapping[str, torch.Tensor]], Any],
    device: str,
) -> dict[str, Call]:
    return {"float32": lambda: launch(inputs(device))}
