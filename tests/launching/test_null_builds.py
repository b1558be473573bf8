"""Bare kernels whose code is shifted: what is in them, who launches them, and when."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import CompiledKernel

import profscope
from profscope.errors import CompileError
from profscope.launching import null_builds
from profscope.launching.null_builds import SHIFTS, NullBuilds, null_build, shifted
from tests.support.builds import build
from tests.support.sessions import launch_add, session

NAME = "add_kernel"
PTX = ".visible .entry add_kernel(\n\t.param .u64 a\n)\n.reqntid 128\n{\n\tret;\n}\n"


@pytest.fixture(scope="module")
def bare() -> Any:
    return build()


def test_the_kernel_begins_with_so_many_instructions_more() -> None:
    text = shifted(PTX, NAME, 3)
    assert re.sub(r"\s*\{ (pmevent 0; ){3}\}", "", text) == PTX
    assert text.index("pmevent") < text.index("ret")


def test_other_functions_are_left_alone() -> None:
    other = PTX.replace(NAME, f"{NAME}_2")
    assert shifted(other + PTX, NAME, 1) == other + shifted(PTX, NAME, 1)
    with pytest.raises(CompileError, match="no kernel k"):
        shifted(PTX, "k", 1)


def test_the_assembler_keeps_each_and_the_rest_is_the_same(bare: CompiledKernel) -> None:
    null = null_build(bare, 2)
    own, other = (names_of(kernel) for kernel in (bare, null))
    assert other.count("PMTRIG") == 2
    assert "PMTRIG" not in own
    assert sorted(name for name in other if name != "PMTRIG") == sorted(own)
    assert null.kernel == null.asm["cubin"] != bare.kernel
    assert (null.module, null.function) == (None, None)
    assert null.metadata is bare.metadata


def names_of(kernel: CompiledKernel) -> list[str]:
    return [name for name in profscope.instructions(kernel)["opcode"] if name != "NOP"]


def test_triton_s_cache_keeps_it(bare: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    first = null_build(bare, 1)
    monkeypatch.setattr(CUDABackend, "make_cubin", None)
    assert null_build(bare, 1).kernel == first.kernel


def test_with_other_registers_it_is_more_than_shifted(
    bare: CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes = iter([(40, 0), (38, 0)])
    monkeypatch.setattr(null_builds, "resources_of", lambda cubin: next(takes))
    with pytest.raises(CompileError, match="other registers"):
        null_build(bare, 1)


def test_they_are_assembled_beside_the_program(bare: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slow(kernel: CompiledKernel, instructions: int) -> Any:
        assert go_on.wait(20)
        if instructions == SHIFTS[-1]:
            raise CompileError("no")
        return instructions

    monkeypatch.setattr(null_builds, "null_build", slow)
    nulls = NullBuilds()
    nulls.begin(bare)
    nulls.begin(bare)
    assert nulls.ready(bare, SHIFTS[0]) is None
    go_on.set()
    nulls.wait()
    assert [nulls.ready(bare, shift) for shift in SHIFTS[:-1]] == list(SHIFTS[:-1])
    with pytest.raises(CompileError):
        nulls.ready(bare, SHIFTS[-1])
    nulls.end()
    assert nulls.ready(bare, SHIFTS[0]) == SHIFTS[0]


def test_what_has_not_begun_when_a_session_ends_never_does(
    bare: CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def slow(kernel: CompiledKernel, instructions: int) -> Any:
        begun.set()
        assert go_on.wait(20)

    monkeypatch.setattr(null_builds, "null_build", slow)
    nulls = NullBuilds()
    nulls.begin(bare)
    assert begun.wait(20)
    threading.Timer(0.05, go_on.set).start()
    nulls.end()
    assert nulls.ready(bare, SHIFTS[-1]) is None
    assert not [each for each in threading.enumerate() if each.name.startswith("profscope-null")]


def test_their_turns_come_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the emulator, with the bare binary itself in the place of each."""
    asked: list[int] = []

    def begin(nulls: NullBuilds, bare: CompiledKernel) -> None:
        pass

    def ready(nulls: NullBuilds, bare: CompiledKernel, shift: int) -> Any:
        asked.append(shift)
        if shift == SHIFTS[2]:
            raise CompileError("no room")
        return bare if shift != SHIFTS[3] else None

    monkeypatch.setattr(NullBuilds, "begin", begin)
    monkeypatch.setattr(NullBuilds, "ready", ready)
    with session(baseline=2) as prof:
        outputs = [launch_add() for _ in range(50)]
    assert all(torch.equal(out, outputs[0]) for out in outputs)
    assert asked[::2] == asked[1::2] == [*SHIFTS, *SHIFTS[:2]]  # at launches 6 and 7, 14 and 15, ...
    (timed,) = prof.metadata["baseline"]["kernels"][NAME]
    pairs = {pair["shift"]: len(pair["bare_ns"]) for pair in timed["pairs"]}
    assert pairs == {0: 8, SHIFTS[0]: 2, SHIFTS[1]: 2}
    assert len(timed["bare_ns"]) == 8
    notes = prof.metadata["notes"]
    assert f"{NAME}: no launch ran with its code shifted: CompileError: no room" in notes
    assert any("24 launches ran bare to be timed" in note and "8 of them" in note for note in notes)


def test_the_emulator_has_none() -> None:
    with session(baseline=2) as prof:
        for _ in range(18):
            launch_add()
    (timed,) = prof.metadata["baseline"]["kernels"][NAME]
    assert [(pair["shift"], len(pair["bare_ns"])) for pair in timed["pairs"]] == [(0, 4)]
    overhead = prof.overhead()
    assert overhead["null_builds"].tolist() == [0]
    assert any("layout noise: the emulator" in text for text in overhead.attrs["not_measured"])
