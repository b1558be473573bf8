"""What a session on the emulator counts, against figures that follow from the kernels' addresses, and against
what an H200 has counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import triton
import triton.language as tl

import profscope
from bench.evidence_kernels import (
    atomics_kernel,
    copy_kernel,
    float64_kernel,
    gather_kernel,
    softmax_kernel,
    swizzled,
    transpose_kernel,
    unswizzled,
)
from profscope.analysis.limits import bare_time, bound_by, limits_of
from profscope.instrument_passes.toolchain import triton_version
from profscope.schema import COUNT_DTYPES, SAMPLE_DTYPES
from tests.kernels.add import add_kernel
from tests.kernels.matmul import matmul_kernel
from tests.support.h200_evidence import KERNELS
from tests.support.quick import quick

BLOCK = 128  # an element for each thread
CTAS = 4
WARPS = CTAS * BLOCK // 32


def counted(launch: Callable[[], Any], times: int = 1, **options: Any) -> profscope.Profile:
    with profscope.session(backend="emulator", **options) as prof:
        for _ in range(times):
            launch()
    return prof.profile


def rows(counts: pd.DataFrame, opcode: str) -> pd.DataFrame:
    return counts[counts["opcode"].astype("str").str.startswith(opcode)]


def sectors_of(counts: pd.DataFrame, opcode: str) -> list[tuple[int, int]]:
    table = rows(counts, opcode)
    return list(zip(table["sectors"].tolist(), table["sectors_ideal"].tolist(), strict=True))


def apart() -> torch.Tensor:
    """Indices of float32 in sectors of their own, in random order."""
    return 8 * torch.randperm(CTAS * BLOCK, generator=torch.Generator().manual_seed(0)).to(torch.int32)


def test_a_gather() -> None:
    n = CTAS * BLOCK
    x, index, out = torch.randn(8 * n), apart(), torch.empty(n)
    prof = counted(lambda: gather_kernel[(CTAS,)](x, index, out, BLOCK=BLOCK), times=2)
    counts = prof.counts
    assert {name: str(dtype) for name, dtype in counts.dtypes.items()} == dict(COUNT_DTYPES)
    assert set(counts["launches"]) == {2}
    assert sectors_of(counts, "ld.global") == [
        (2 * 4 * WARPS, 2 * 4 * WARPS),
        (2 * 32 * WARPS, 2 * 4 * WARPS),
    ]
    assert sectors_of(counts, "st.global") == [(2 * 4 * WARPS, 2 * 4 * WARPS)]
    loads = rows(counts, "ld.global")
    assert loads["executed"].tolist() == [2 * WARPS] * 2
    assert loads["threads"].tolist() == [2 * n] * 2
    lines = prof.lines()
    (line,) = set(loads["line"])
    row = lines[lines["line"] == line].iloc[0]
    assert "tl.load(index_ptr" in row["source"]
    assert row["sectors_over_ideal"] == pytest.approx((4 + 32 + 4) / (4 + 4 + 4))
    assert row["active_threads"] == 32


def launch_of(name: str) -> Callable[[], Any]:
    """CTAS programs of what an H200 has run more programs of (`bench.evidence_kernels.CASES`)."""
    x, out = torch.randn(CTAS * 4096), torch.empty(CTAS * 4096)
    if name == "atomics":
        counter, sums = torch.zeros(1), torch.empty(CTAS)
        return lambda: atomics_kernel[(CTAS,)](x, counter, sums, 16, EACH=True, BLOCK=256)
    if name.startswith("transpose"):
        layout = swizzled() if name == "transpose, swizzled" else unswizzled()
        return lambda: transpose_kernel[(CTAS,)](x, out, 32, SIZE=64, SHARED=layout, num_warps=4)
    if name == "softmax":
        return lambda: softmax_kernel[(CTAS,)](x, out, 4096, BLOCK=4096, num_warps=8)
    kernel = {"copy": copy_kernel, "float64": float64_kernel}[name]
    return lambda: kernel[(CTAS,)](x, out, BLOCK=1024)


@pytest.mark.skipif(triton_version() >= (3, 8), reason="other code than the H200's, which Triton 3.6 made")
@pytest.mark.parametrize(
    ("name", "programs_there"),
    quick(
        [
            ("copy", 1 << 16),
            ("softmax", 8192),
            ("float64", 1 << 14),
            ("atomics", 1056),
            ("transpose, unswizzled", 1056),
            ("transpose, swizzled", 1056),
        ],
        [("softmax", 8192), ("atomics", 1056), ("transpose, unswizzled", 1056)],
    ),
)
def test_as_many_sectors_and_wavefronts_as_on_an_h200(name: str, programs_there: int) -> None:
    counts, there = counted(launch_of(name)).counts, KERNELS[name]["totals"]
    for column in ("sectors", "sectors_ideal", "wavefronts", "wavefronts_ideal", "local_sectors"):
        assert counts[column].sum() / CTAS == there[column] / programs_there, column


def matmul(size: int = 128) -> Callable[[], Any]:
    a, b, c = (torch.randn(size, size).half() for _ in range(3))
    tiles = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}
    numbers = (size,) * 6
    return lambda: matmul_kernel[((size // 64) ** 2,)](a, b, c, *numbers, **tiles)


ACCESSES = ("ld.global", "st.global", "cp.async.cg", "ldmatrix", "ld.shared", "st.shared", "mma")


def test_records_count_nowhere() -> None:
    """Whatever is recorded, and in whichever CTAs, the accesses are those of the kernel."""
    found = []
    for options in ({"instrument": "light"}, {"instrument": "heavy", "ctas": 2}):
        counts = counted(matmul(), **options).counts
        kind = counts["opcode"].astype("str").str.extract(f"^({'|'.join(ACCESSES)})")[0]
        figures = [*list(COUNT_DTYPES)[list(COUNT_DTYPES).index("executed") : -1]]
        found.append(counts.assign(kind=kind).dropna().groupby(["kind", "line"])[figures].sum())
    pd.testing.assert_frame_equal(*found)


def test_counts_are_saved_and_spooled(tmp_path: Path) -> None:
    x, out = torch.randn(CTAS * BLOCK), torch.empty(CTAS * BLOCK)
    prof = counted(lambda: copy_kernel[(CTAS,)](x, out, BLOCK=BLOCK), times=2, spool=str(tmp_path / "spool"))
    prof.save(tmp_path / "prof.json")
    assert prof.counts["sectors"].sum() == 2 * 2 * 4 * WARPS
    (spool,) = (tmp_path / "spool").iterdir()
    for path in (tmp_path / "prof.json", spool):
        pd.testing.assert_frame_equal(profscope.load(path).counts, prof.counts)


@triton.jit
def narrowed_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr, SQUARED: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for step in range(8):
        x = tl.load(x_ptr + step * BLOCK + at)
        if SQUARED:
            for _ in tl.static_range(48):
                x = x * x + x
        tl.store(out_ptr + step * BLOCK + at, x.to(tl.float32))


@pytest.mark.parametrize("squared", [False, True])
def test_float64_that_is_only_converted_is_no_float64_arithmetic(squared: bool) -> None:
    x, out = torch.randn(9 * BLOCK * CTAS, dtype=torch.float64), torch.empty(9 * BLOCK * CTAS)
    prof = counted(lambda: narrowed_kernel[(CTAS,)](x, out, BLOCK=BLOCK, SQUARED=squared))
    assert ("fp64-arithmetic" in prof.findings()["finding"].tolist()) is squared


def reasons(samples: pd.DataFrame) -> dict[str, int]:
    return {str(stall): int(count) for stall, count in samples.groupby("stall")["samples"].sum().items()}


def test_samples_are_the_cycles_of_all_warps() -> None:
    """Those of the launches, as long as their CTAs run, but for what records take."""
    prof = counted(matmul(), times=2, instrument=["kernel-span"])
    samples = prof.samples
    assert {name: str(dtype) for name, dtype in samples.dtypes.items()} == dict(SAMPLE_DTYPES)
    assert set(samples["launch"]) == {-1}
    of_ctas = 4 * int(prof.ctas["duration_cycles"].sum())
    assert 0.9 * of_ctas < samples["samples"].sum() < 1.1 * of_ctas
    (binary,) = prof.metadata["sampler"]["binaries"]
    assert binary["launches"] == 2
    assert binary["samples"] == samples["samples"].sum()
    waits = samples[(samples["stall"] == "long_scoreboard") & (samples["class"] == "barrier")]
    assert set(waits["blamed_class"]) == {"async copy"}
    assert {"selected", "barrier", "math_pipe_throttle", "mio_throttle"} <= set(reasons(samples))
    at_mma = samples[samples["class"] == "mma"]
    assert set(prof.counts.set_index("pc").loc[at_mma["pc"], "opcode"].astype("str").str[:3]) == {"mma"}


def test_bank_conflicts_are_seen_in_the_breakdown() -> None:
    found = []
    for layout in (unswizzled, swizzled):
        x, out = torch.randn(64, 64), torch.empty(CTAS, 64, 64)
        prof = counted(
            lambda layout=layout, x=x, out=out: transpose_kernel[(CTAS,)](
                x, out, 3, SIZE=64, SHARED=layout(), num_warps=4
            )
        )
        table = prof.breakdown()
        table = table[table["basis"] == "model"]
        found.append(table.loc[table["reason"] == "shared memory", "share"].sum() / table["share"].sum())
    assert found[0] > 0.5 > found[1]


def moved(prof: profscope.Profile) -> dict[str, float]:
    table = prof.counters
    return dict(zip(table["counter"].astype("str"), table["value"], strict=True))


def test_sectors_of_views_of_one_tensor_are_the_tensor_s() -> None:
    """The second half of x overlaps the first one by half."""
    x, out = torch.randn(2 * CTAS * BLOCK), torch.empty(CTAS * BLOCK)
    n = CTAS * BLOCK
    prof = counted(lambda: add_kernel[(CTAS,)](x[:n], x[n // 2 :], out, n, BLOCK=BLOCK))
    assert moved(prof)["dram_read"] == 4 * (n + n // 2)
    assert moved(prof)["dram_read_alone"] == 4 * n  # CTAs 2 and 3 load what 0 and 1 have of the second view


def modelled_limits(prof: profscope.Profile) -> pd.DataFrame:
    """What findings rest on; `prof.limits()` leaves it out."""
    (kernel,) = set(prof.launches["kernel"])
    time = bare_time(prof.tables, pd.Series(dtype="float64"), prof.launches, (kernel, 0))
    assert time is not None
    return limits_of(prof.counters, prof.counts, {(kernel, 0): time}).set_index("resource")


def test_limits_are_of_a_launch_that_fills_all_sms() -> None:
    prof = counted(matmul(), times=2)
    table = modelled_limits(prof)
    assert set(table["basis"]) == {"counts"}
    ctas = prof.ctas[prof.ctas["launch"] == prof.ctas["launch"].min()]
    room = 167936 // (int(prof.metadata["variants"]["matmul_kernel"][0]["builds"][0]["shared_bytes"]) + 1024)
    cycles = ctas["duration_cycles"].mean() / room * len(ctas)  # of an SM
    mmas = 128**3 // (16 * 8 * 16)
    scale = 2 * mmas / table.loc["tensor", "used"] / cycles  # 1 if no resource needs longer than the warps
    assert scale >= 1
    assert bool(table["peak_pct"].max() > 94.9) is bool(scale > 1.001)
    assert table.loc["l1", ["unit", "peak"]].tolist() == ["sectors/cycle", 4.0]
    wavefronts = prof.counts["wavefronts"].sum() / 2
    assert table.loc["shared", "used"] == pytest.approx(wavefronts / cycles / scale, rel=0.01)
    alone = moved(prof)["dram_read_alone"] + moved(prof)["dram_write_alone"]
    assert table.loc["dram", "used"] == pytest.approx(alone / cycles / scale, rel=0.01)
    assert table["peak_pct"].tolist() == pytest.approx((100 * table["used"] / table["peak"]).tolist())
    assert (table["peak_pct"] < 96).all()


def test_conflicts_bind_a_kernel_by_shared_memory() -> None:
    x, out = torch.randn(64, 64), torch.empty(64, 64, 64)
    prof = counted(lambda: transpose_kernel[(64,)](x, out, 3, SIZE=64, SHARED=unswizzled(), num_warps=4))
    assert bound_by(modelled_limits(prof).reset_index()).startswith("bound by shared memory (")


def test_findings_cite_what_one_launch_moves() -> None:
    x, out = torch.randn(64, 64), torch.empty(8, 64, 64)

    def launch() -> None:
        transpose_kernel[(8,)](x, out, 3, SIZE=64, SHARED=unswizzled(), num_warps=4)

    found = [counted(launch, times).findings() for times in (1, 3)]
    assert "bank-conflict" in set(found[0]["finding"])
    assert found[0]["evidence"].tolist() == found[1]["evidence"].tolist()
