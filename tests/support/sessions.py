"""Sessions on the emulator, and small launches to record in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import pandas as pd
import torch
import triton

import profscope
from profscope.compat.programs import manifest_in
from profscope.dispatch.running import Running, running
from profscope.options import Options
from tests.kernels.add import add_kernel
from tests.kernels.cases import cases
from tests.kernels.control_flow import collatz_kernel
from tests.kernels.loops import count_kernel
from tests.kernels.matmul import matmul_kernel

# The small cases that the emulator runs, by name.
CASES = {case.name: case for case in cases("small") if case.capability <= 80}


def session(**options: Any) -> profscope.Session:
    """A session on the emulator."""
    return profscope.session(backend="emulator", **options)


@cache
def heavy(name: str) -> profscope.Profile:
    """A small case recorded at the level heavy."""
    with session(instrument="heavy") as prof:
        CASES[name].launch(CASES[name].inputs("cpu"))
    return prof.profile


def parts_of_session(**options: Any) -> AbstractContextManager[Running]:
    """The parts of a session on the emulator, for tests of what lies between a launch and the tables."""
    return running(Options(backend="emulator", **options))


def write_all(parts: Running) -> None:
    """Bring the launches so far to the host, and end the spool."""
    parts.recorder.close()
    assert parts.recorder.spooler is not None
    parts.recorder.spooler.flush(*parts.so_far(), ends=True)


def launch_add(n: int = 2500) -> torch.Tensor:
    """Launch the add on 0 to n - 1; returns the sums."""
    x = torch.arange(n, dtype=torch.float32)
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(n, 1024),)](x, x, out, n, BLOCK=1024)
    return out


def launch_matmul(stages: int, launches: int = 2) -> None:
    """Launch a matmul of 64 x 64 in tiles of 32, some times."""
    size, tiles = 64, {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 8}
    a, b = (torch.ones(size, size, dtype=torch.float16) for _ in "ab")
    c = torch.empty(size, size, dtype=torch.float16)
    for _ in range(launches):
        matmul_kernel[(4,)](a, b, c, *(size,) * 6, **tiles, num_stages=stages, num_warps=2)


def launch(n: int = 2500) -> Any:
    """Launch the add; returns what the launch does, the bare binary."""
    x = torch.arange(n, dtype=torch.float32)
    return add_kernel[(triton.cdiv(n, 1024),)](x, x, torch.empty_like(x), n, BLOCK=1024)


def launch_collatz(count: int = 30) -> None:
    """Launch the Collatz loop on 1 to `count`, a CTA each."""
    x = torch.arange(1, count + 1, dtype=torch.int32)
    collatz_kernel[(count,)](x, torch.zeros_like(x))


def count(n: int, ctas: int = 1) -> torch.Tensor:
    """Launch a loop of n iterations in CTAs of one warp; returns the sums of 0 to n - 1."""
    out = torch.zeros(ctas * 32, dtype=torch.int32)
    count_kernel[(ctas,)](out, n, BLOCK=32, num_warps=1)
    return out


def recording(kernel: Any) -> bool:
    """Whether a binary is an instrumented one."""
    return manifest_in(kernel.asm["ttgir"]) is not None


def recorded_binaries(prof: profscope.Session) -> list[Any]:
    """The binaries with records of a session, in the order of their kernels' first launches."""
    configurations = prof._parts().dispatcher.configurations.all()
    return [each.recorded.kernel for each in configurations if each.recorded is not None]


def same_bits(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> bool:
    """Whether two sets of outputs agree bit for bit, NaNs included."""
    return first.keys() == second.keys() and all(
        torch.equal(tensor.reshape(-1).view(torch.uint8), second[name].reshape(-1).view(torch.uint8))
        for name, tensor in first.items()
    )


def assert_equal(
    first: profscope.Profile, second: profscope.Profile, but: Sequence[str] = ("began_unix_ns",)
) -> None:
    """Two profiles have the same tables, dtypes and metadata, but for some entries."""
    pd.testing.assert_frame_equal(first.df, second.df)
    for name in ("launches", "ctas", "samples"):
        pd.testing.assert_frame_equal(getattr(first, name), getattr(second, name))
    rest = [{k: v for k, v in each.metadata.items() if k not in but} for each in (first, second)]
    assert rest[0] == rest[1]
