"""Sums that a kernel has registers for: what is tried while it is compiled, and what is left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend

import profscope.launching.trials
from profscope.emulator.compiler import ARCH, BACKEND_NAME, EmulatorBackend
from profscope.launching.hook import CompileHook
from profscope.launching.trials import Trials
from profscope.options import Options
from profscope.recording.programs import PROGRAMS
from tests.kernels.aot import gpu_target
from tests.kernels.spec import CUDA80
from tests.support.builds import build, manifest

SUMS = Options(keep="sums", instrument="light")
Assembled = list[bytes]


@pytest.fixture
def assembled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Assembled:
    """The cubins that are made, in a cache folder of the test's own."""
    made: Assembled = []
    make = CUDABackend.make_cubin

    def counted(*args: Any) -> Any:
        made.append(make(*args))
        return made[-1]

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(CUDABackend, "make_cubin", counted)
    return made


@pytest.fixture
def takes(assembled: Assembled, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Says how many registers the cubins take that are tried, in turn; the last number holds for the rest."""

    def say(*registers: int) -> None:
        def resources_of(cubin: bytes) -> tuple[int, int]:
            return registers[min(assembled.index(cubin), len(registers) - 1)], 0

        monkeypatch.setattr(profscope.launching.trials, "resources_of", resources_of)

    return say


def compiled(options: Options = SUMS) -> Any:
    with CompileHook(options).installed(), PROGRAMS.asking():
        kernel = build()
        program = PROGRAMS.program(kernel)
        assert program is not None
        assert not program.manifest.failure  # the binary is the manifest's
        return kernel


def test_a_kernel_with_registers_to_spare_is_assembled_once(assembled: Assembled) -> None:
    kernel = compiled()
    assert assembled == [kernel.asm["cubin"]]
    told = manifest(kernel)
    assert told is not None
    assert told.notes == ()
    assert told.twin
    assert {column.kind for column in told.sections[0].frames[0].columns} == {"sum", "longest"}


def test_what_costs_a_cta_is_left_out(assembled: Assembled, takes: Callable[..., None]) -> None:
    takes(129, 128, 129, 128)  # with everything, bare, with one body, without the longest
    kernel = compiled()
    told = manifest(kernel)
    assert told is not None
    assert told.notes == ("no longest durations are kept: with all of them sums cost 1 of 4 CTAs",)
    assert {column.kind for column in told.sections[0].frames[0].columns} == {"sum"}
    assert kernel.asm["cubin"] == assembled[-1]
    assert len(assembled) == 5  # that with the note is another one


def test_nothing_is_left_out_in_vain(assembled: Assembled, takes: Callable[..., None]) -> None:
    takes(129, 128, 129)
    told = manifest(compiled())
    assert told is not None
    assert told.notes == ("sums take registers, which costs 1 of 4 CTAs; keeping fewer would cost as much",)
    assert "longest" in {column.kind for column in told.sections[0].frames[0].columns}


def test_what_the_bare_kernel_lacks_too_is_not_the_sums_fault(
    assembled: Assembled, takes: Callable[..., None]
) -> None:
    takes(200, 200)
    kernel = compiled()
    assert len(assembled) == 2
    assert kernel.asm["cubin"] == assembled[0]
    assert manifest(kernel).notes == ()  # type: ignore[union-attr]


def test_a_trial_that_fails_changes_nothing(assembled: Assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(cubin: bytes) -> tuple[int, int]:
        raise RuntimeError("no tool")

    monkeypatch.setattr(profscope.launching.trials, "resources_of", fails)
    kernel = compiled()
    assert kernel.asm["cubin"] == assembled[-1]
    assert manifest(kernel).notes == ()  # type: ignore[union-attr]


def test_spans_the_emulator_and_overridden_stages_try_nothing(
    assembled: Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CompileHook(Options()).installed():
        build()
    assert len(assembled) == 1
    emulated = EmulatorBackend(GPUTarget(BACKEND_NAME, ARCH, 32))
    assert not Trials.possible(emulated)
    backend = CUDABackend(gpu_target(CUDA80))
    assert Trials.possible(backend)
    monkeypatch.setattr(knobs.compilation, "override", True)
    assert not Trials.possible(backend)


@pytest.mark.parametrize(("options", "has_one"), [({}, False), ({"ctas": 8}, True)])
def test_a_second_body_that_costs_a_cta_is_for_those_who_choose_ctas(
    options: dict[str, Any], has_one: bool, assembled: Assembled, takes: Callable[..., None]
) -> None:
    takes(129, 128, 128)  # with it, bare, without it; with fewer sums, where it stays
    told = manifest(compiled(Options(keep="sums", instrument="light", **options)))
    assert told is not None
    assert told.twin is has_one
    assert bool(told.notes) is has_one
    assert has_one or len(assembled) == 3  # each is assembled once
