"""Benchmarks and tuners on the emulator: they measure emulated time, the same on every machine."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
from triton.runtime import driver

import profscope
from profscope.emulator.driver import EmulatorDriver
from tests.kernels.add import add_kernel

X = torch.ones(4096)


def launch(block: int, warps: int, out: torch.Tensor) -> None:
    add_kernel[(triton.cdiv(4096, block),)](X, X, out, 4096, BLOCK=block, num_warps=warps)


def emulated_ms(emulator: EmulatorDriver, block: int, warps: int) -> float:
    start = emulator.device.cycles
    launch(block, warps, torch.zeros(4096))
    return (emulator.device.cycles - start) / emulator.device.model.clock_khz


def test_do_bench_gives_emulated_time(emulator: EmulatorDriver) -> None:
    out = torch.zeros(4096)
    calls = []

    def call() -> None:
        calls.append(1)
        launch(512, 4, out)

    measured = triton.testing.do_bench(call, return_mode="all")
    expected = emulated_ms(emulator, 512, 4)
    assert measured == [expected] * len(measured)
    assert len(calls) < 30  # not the thousands that fit into 125 emulated milliseconds
    quantiles = triton.testing.do_bench(call, warmup=1, rep=1, quantiles=(0.5, 0.2, 0.8))
    assert quantiles == pytest.approx([expected] * 3)


def by_events(call: Callable[[], Any], quantiles: tuple[float, ...]) -> list[float]:
    """A tuner's own measurement."""
    interface = driver.active.get_device_interface()
    start, end = interface.Event(enable_timing=True), interface.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    end.synchronize()
    interface.synchronize()
    assert end.query()
    return [start.elapsed_time(end)] * len(quantiles)


@pytest.mark.filterwarnings("ignore:.*warmup, rep, and use_cuda_graph:DeprecationWarning")
@pytest.mark.parametrize("options", [{"warmup": 2, "rep": 5}, {"do_bench": by_events}, {}])
def test_autotuning_picks_what_is_faster_in_emulated_time(
    options: dict[str, Any], emulator: EmulatorDriver
) -> None:
    blocks = (32, 1024)
    configs = [triton.Config({"BLOCK": b}, num_warps=1) for b in blocks]
    tuned = triton.autotune(configs, key=["n"], **options)(add_kernel)
    out = torch.zeros(4096)
    tuned[lambda meta: (triton.cdiv(4096, meta["BLOCK"]),)](X, X, out, 4096)
    assert torch.equal(out, X + X)
    times = {block: emulated_ms(emulator, block, 1) for block in blocks}
    assert times[32] != times[1024]
    assert tuned.best_config.kwargs["BLOCK"] == min(times, key=times.__getitem__)
    for config, measured in tuned.configs_timings.items():
        assert measured[0] == pytest.approx(times[config.kwargs["BLOCK"]])


def test_a_launch_takes_the_same_cycles_in_a_profile_whatever_ran_before() -> None:
    def spans(earlier: int) -> Any:
        with profscope.session(backend="emulator") as prof:
            for at in range(earlier):
                launch(512, 1 + at % 2, torch.zeros(4096))
            launch(1024, 4, torch.zeros(4096))
        rows = prof.df[prof.df["launch"] == earlier]
        timed = prof.metadata["baseline"]["kernels"]["add_kernel"]
        return rows["duration_cycles"].tolist(), timed[-1]["bare_ns"], timed[-1]["instrumented_ns"]

    alone = spans(0)
    assert len(alone[0]) == 64
    assert spans(3) == alone


def test_events_that_have_no_time_say_so(emulator: EmulatorDriver) -> None:
    interface = driver.active.get_device_interface()
    start, end, plain = interface.Event(enable_timing=True), interface.Event(True), interface.Event()
    start.record()
    plain.record()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        start.elapsed_time(plain)
    with pytest.raises(RuntimeError, match="must be recorded before"):
        start.elapsed_time(end)
    assert interface.current_device() == torch.cpu.current_device()
