"""Of a program's launches one is kept: of the configuration with most time, with the contents it had."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.device.backend import Backend, select
from profscope.errors import EmulatorError, OptionError
from profscope.tuning.program_launches import ProgramLaunches
from profscope.tuning.search import explained

pytestmark = pytest.mark.usefixtures("builds_are_shared")

# ruff: noqa: N803


@triton.jit
def summed(lengths_ptr, x_ptr, out_ptr):
    """As many steps as the lengths say."""
    total = tl.zeros((128,), tl.float32)
    for step in range(tl.load(lengths_ptr + tl.program_id(0))):
        total += tl.load(x_ptr + step * 128 + tl.arange(0, 128))
    tl.store(out_ptr + tl.program_id(0) * 128 + tl.arange(0, 128), total)


@triton.jit
def increased(x_ptr, far, STEPS: tl.constexpr):
    for _ in range(STEPS):
        tl.store(x_ptr, tl.load(x_ptr) + 1.0)
    tl.store(x_ptr + far, tl.load(x_ptr + far))


@triton.autotune([triton.Config({"STEPS": 8}, num_warps=warps) for warps in (1, 2, 4, 8)], key=[])
@triton.jit
def tuned(x_ptr, STEPS: tl.constexpr):
    for _ in range(STEPS):
        tl.store(x_ptr, tl.load(x_ptr) + 1.0)


@dataclass
class Watched:
    """Launches are watched in the body of `programs`."""

    machine: Backend

    @contextlib.contextmanager
    def program(self, kernels: str | None = None, memory_mib: int = 1024) -> Iterator[ProgramLaunches]:
        launches = ProgramLaunches(kernels, memory_mib, self.machine)
        with launches.watched():
            yield launches


@pytest.fixture
def watched() -> Iterator[Watched]:
    with select("emulator") as machine:
        yield Watched(machine)


def of_lengths(length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.full((4,), length, dtype=torch.int32), torch.zeros(length, 128), torch.zeros(4, 128)


def time_of(found: Any) -> float:
    return float(found.tries["kcycles"].iloc[0])


def test_a_launch_is_explained_with_the_contents_that_it_had(watched: Watched) -> None:
    arguments = of_lengths(40)
    with watched.program() as launches:
        summed[(4,)](*arguments)
        arguments[0].zero_()
    kept = launches.biggest()
    found = explained(kept.launch, {}, 60.0, "emulator", kept.contents, kept.note)
    assert not arguments[0].any(), "the program's memory is as the program left it"
    expected = profscope.explain(summed, *of_lengths(40), grid=(4,), backend="emulator")
    assert time_of(found) == time_of(expected) > 10
    assert found.note == ""


def test_without_room_for_the_contents_it_says_so(watched: Watched) -> None:
    arguments = of_lengths(3000)  # 1.5 MiB
    with watched.program(memory_mib=1) as launches:
        summed[(4,)](*arguments)
        arguments[0].zero_()
    kept = launches.biggest()
    assert kept.contents is None
    changed = "Its arguments may have changed since the launch"
    assert kept.note == f"{changed}: a copy takes 2 MiB, more than --memory 1 (MiB) allows"
    found = explained(kept.launch, {}, 60.0, "emulator", kept.contents, kept.note)
    assert time_of(found) < 10
    assert kept.note in " ".join(repr(found).split())


def test_a_session_of_the_program_hides_which_configuration_is_the_biggest(watched: Watched) -> None:
    with watched.program() as launches, profscope.session(backend="emulator"):
        summed[(4,)](*of_lengths(10))
        summed[(4,)](*of_lengths(40))
    assert launches.biggest().note.startswith(
        "It is the first of 2 configurations, and not known to take most"
    )
    with watched.program() as launches:
        summed[(4,)](*of_lengths(10))
        summed[(4,)](*of_lengths(40))
    assert launches.biggest().note == ""


def test_tensors_of_other_launches_are_freed(watched: Watched) -> None:
    def live_bytes() -> int:
        gc.collect()
        tensors = [each for each in gc.get_objects() if type(each) is torch.Tensor]
        return sum({each.data_ptr(): each.untyped_storage().nbytes() for each in tensors}.values())

    before = live_bytes()
    with watched.program() as launches:
        for count in range(20):
            increased[(1,)](torch.zeros((1 << 18) + count), 0, STEPS=1)
    assert live_bytes() - before < 2.1 * (1 << 20), "one of 1 MiB, and its copy"
    del launches
    assert live_bytes() - before < 1 << 20


def test_the_configuration_with_most_time_is_kept(watched: Watched) -> None:
    """It overtakes the other one at its twelfth launch or so, and leads by a tenth then."""
    x, other = torch.zeros(1), torch.zeros(2)
    with watched.program() as launches:
        increased[(1,)](other, 0, STEPS=40)
        for number in range(15):
            assert x.item() == 4 * number
            increased[(1,)](x, 0, STEPS=4)
            if number == 6:
                assert launches.biggest().launch.args[0] is other
    kept = launches.biggest()
    assert kept.launch.args[0] is x
    assert kept.contents is not None
    kept.contents.reset()
    assert x.item() in {4 * number for number in range(8, 15)}, "as it was before one of the last launches"


def test_trials_of_an_autotuner_are_no_time_of_the_program(watched: Watched) -> None:
    with watched.program() as launches:
        tuned[(1,)](torch.zeros(1))
        for _ in range(2):
            increased[(1,)](torch.zeros(1), 0, STEPS=8)
    assert launches.biggest().launch.name == "increased"
    with watched.program() as launches:
        for _ in range(2):
            tuned[(1,)](torch.zeros(1))
        increased[(1,)](torch.zeros(1), 0, STEPS=8)
    assert launches.biggest().launch.name == "tuned"


def test_a_launch_that_failed_is_not_kept(watched: Watched) -> None:
    with watched.program() as launches, contextlib.suppress(EmulatorError):
        increased[(1,)](torch.zeros(1), 1 << 40, STEPS=1)
    with pytest.raises(OptionError, match="launched no Triton kernel"):
        launches.biggest()


def test_of_kernels_that_do_not_match_nothing_is_kept(watched: Watched) -> None:
    with watched.program("^summed$") as launches:
        increased[(1,)](torch.zeros(1), 0, STEPS=8)
        with pytest.raises(
            OptionError, match=r"no launched kernel matches '\^summed\$'; there are: increased$"
        ):
            launches.biggest()
        summed[(1,)](*of_lengths(1))
    assert launches.biggest().launch.name == "summed"


def test_a_session_within_the_program_records(watched: Watched) -> None:
    x = torch.zeros(1)
    with watched.program() as launches:
        increased[(1,)](x, 0, STEPS=1)
        with profscope.session(backend="emulator") as prof:
            for _ in range(3):
                increased[(1,)](x, 0, STEPS=1)
        increased[(1,)](x, 0, STEPS=1)
    assert len(prof.launches) == 3
    assert x.item() == 5
    assert launches.biggest().launch.name == "increased"


def test_what_tritons_interpreter_runs_is_not_seen(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    interpreted, x = triton.jit(increased.fn), torch.zeros(1)
    with watched.program() as launches:
        interpreted[(1,)](x, 0, STEPS=2)
    assert x.item() == 2
    with pytest.raises(OptionError, match="launched no Triton kernel"):
        launches.biggest()
