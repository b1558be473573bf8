"""Clocks: of the device, of the launching thread, and rounds that interleave what is compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import torch

from bench.table import Cell
from bench.variants import Variant

__all__ = ["Sampler", "device_us", "host_us", "interleave", "synchronize", "why"]

_SLEEP_CYCLES: Final = (20_000_000, 400_000_000)  # about 10 and 200 ms

Sampler = Callable[[str], Mapping[str, float]]
"""Figures of one sample by name, for the variant that is named."""


def interleave(variants: Mapping[str, Variant], sample: Sampler, rounds: int) -> dict[str, dict[str, Cell]]:
    """Rounds of `sample(name)` in each variant's context in turn: cells by figure, then by variant.

    A variant that fails in one round is left out after it: its cells keep what it has and say why.
    """
    values: dict[str, dict[str, list[float]]] = {}
    errors: dict[str, str] = {}
    for _ in range(rounds):
        for name in [name for name in variants if name not in errors]:
            try:
                with variants[name]():
                    found = sample(name)
                for figure, value in found.items():
                    values.setdefault(figure, {}).setdefault(name, []).append(value)
            except Exception as error:  # noqa: BLE001  the others' figures still count
                errors[name] = why(error)
    if not values:
        raise RuntimeError("; ".join(f"{name}: {text}" for name, text in errors.items()))
    return {
        figure: {name: Cell(tuple(by_name.get(name, ())), errors.get(name, "")) for name in variants}
        for figure, by_name in values.items()
    }


def why(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def device_us(run: Callable[[], object], launches: int) -> float:
    """Device time per launch of back-to-back launches, in us.

    The device sleeps first, so that the host is ahead of it; longer if it was not. Without a GPU: wall time,
    for a dry run. Raises RuntimeError if the host cannot get ahead.
    """
    if not torch.cuda.is_available():
        return host_us(run, launches)[1]
    for sleep in _SLEEP_CYCLES:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(sleep)
        start.record()
        for _ in range(launches):
            run()
        ahead = not start.query()
        end.record()
        end.synchronize()
        if ahead:
            return float(start.elapsed_time(end)) * 1e3 / launches
    raise RuntimeError("the device waited for the host, so its time per launch is unknown")


def host_us(run: Callable[[], object], launches: int) -> tuple[float, float]:
    """Per launch, in us: what the launching thread spends, and from the first launch to the end."""
    synchronize()
    start = time.perf_counter()
    for _ in range(launches):
        run()
    launched = time.perf_counter()
    synchronize()
    end = time.perf_counter()
    return (launched - start) * 1e6 / launches, (end - start) * 1e6 / launches


def synchronize() -> None:
    """Wait for the device, if there is one. Raises RuntimeError when it has faulted."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
