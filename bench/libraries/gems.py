"""Calls of flag-gems: torch's own ops, on torch's own samples of them, with flag-gems in torch's place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, Final

import torch

from bench.libraries.calls import Call, Calls, gradients, random_like

__all__ = ["MODULE", "cases"]

MODULE: Final = "flag_gems"
_DTYPES: Final = (torch.float32, torch.float16, torch.int64)
_LOOKED_AT: Final = 24  # samples of an op that some are chosen of
_SAMPLES: Final = 3


def cases(device: str) -> dict[str, Calls]:
    """The calls of each op of torch's database by its name."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.formatted_name: partial(_calls, op, device) for op in op_db}


def _calls(op: Any, device: str) -> dict[str, Call]:
    """A few samples of each dtype; as they are, with gradients if there are any, and in place."""
    found: dict[str, Call] = {}
    for dtype in _DTYPES:
        if dtype not in op.supported_dtypes("cuda"):
            continue
        name = str(dtype).removeprefix("torch.")
        with_gradients = op.supports_autograd and dtype.is_floating_point
        try:
            samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=with_gradients), _LOOKED_AT))
        except Exception as error:  # noqa: BLE001  named in the table
            found[name] = partial(_raise, error)
            continue
        step = max(1, len(samples) // _SAMPLES)
        chosen = samples[::step][:_SAMPLES]
        for index, sample in enumerate(chosen):
            found[f"{name} {index}"] = partial(_run, op, sample, device, with_gradients)
        if op.inplace_variant is not None and chosen:
            found[f"{name} in place"] = partial(_run, op.inplace_variant, chosen[-1], device, False)
    return found


def _raise(error: Exception) -> None:
    raise error


def _run(op: Callable[..., Any], sample: Any, device: str, with_gradients: bool) -> Any:
    import flag_gems

    moved = sample.transform(lambda value: _moved(value, device, with_gradients))
    inputs = (moved.input, moved.args, moved.kwargs)
    with flag_gems.use_gems():
        found = op(moved.input, *moved.args, **moved.kwargs)
        if not with_gradients:
            return found, inputs
        found = moved.output_process_fn_grad(found)
    given = random_like(found)
    with flag_gems.use_gems():
        return found, gradients(found, inputs, given), inputs


def _moved(value: Any, device: str, with_gradients: bool) -> Any:
    """A tensor's copy on the device, gradients asked of it as of the sample; dtypes come as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    moved = value.detach().clone().to(device)
    return moved.requires_grad_(value.requires_grad and with_gradients)
