"""What binds a kernel: by counters, by counts, or by the types of its ops; and the pipe of each opcode."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from profscope.analysis.kernels.devices import pipe_of
from profscope.analysis.limits import LIMITS_DTYPES, ON_EMULATOR, RESOURCES
from profscope.evidence.metrics import PIPES
from profscope.evidence.tables import counters_table, counts_table
from profscope.profiles import Profile
from tests.support.h200_evidence import KERNELS, counted, number, values
from tests.support.made_up_spans import H200, worked

NAME = "k"
WORK = {("load x", 6): (9.6e6, 0.0), ("store", 9): (2.4e6, 0.0)}


@cache
def counters() -> pd.DataFrame:
    return counters_table([values("gather", kernel=NAME)], number)[0]


@cache
def counts() -> pd.DataFrame:
    """What makes it takes a disassembler."""
    return counts_table([counted("transpose, unswizzled", kernel=NAME)], number)[0]


def profile(**tables: object) -> Profile:
    return Profile.of(replace(worked(WORK).tables, **tables))  # type: ignore[arg-type]


def test_without_the_hardware_types_say_what_dram_does() -> None:
    table = profile().limits()
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == dict(LIMITS_DTYPES)
    assert table["resource"].tolist() == list(RESOURCES)
    rows = table.set_index("resource")
    assert rows.loc["dram", ["used", "unit", "basis"]].tolist() == [pytest.approx(1200), "GB/s", "types"]
    assert rows.loc["dram", ["peak", "peak_pct"]].tolist() == pytest.approx([4800, 25])
    assert rows.drop(index="dram")["used"].isna().all()
    assert table.attrs["bound"] == [[NAME, 0, "bound by: unknown"]]  # nobody knows of L2 and the pipes


def test_dots_are_held_against_the_tensor_cores() -> None:
    rows = worked({("load x", 6): (9.6e6, 0), ("store", 9): (0, 9.894e8)}).limits().set_index("resource")
    assert rows.loc["tensor", ["used", "unit"]].tolist() == [pytest.approx(98.94), "TFLOP/s"]
    assert rows.loc["tensor", "peak_pct"] == pytest.approx(10)
    assert np.isnan(rows.loc["dram", "peak_pct"])


def test_counters_go_before_counts_and_these_before_types() -> None:
    assert set(profile(counters=counters(), counts=counts()).limits()["basis"]) == {"counters"}
    arch = {**H200, "arch": "sm_90"}
    counted_alone = worked(WORK, device=arch).tables
    table = Profile.of(replace(counted_alone, counts=counts())).limits()
    rows = table.set_index("resource")
    assert set(table["basis"]) == {"counts", ""}
    assert rows.loc["issue", "used"] > 0
    assert np.isnan(rows.loc["dram", "used"])


COUNTED = ["shared", "issue", "fma", "alu", "fp64", "xu", "lsu"]


def counted_on(arch: str) -> pd.DataFrame:
    device = {"name": "NVIDIA L40S", "arch": arch, "sm_count": 142}
    return Profile.of(replace(worked(WORK, device=device).tables, counts=counts())).limits()


@pytest.mark.parametrize(
    ("arch", "fma", "fp64"), [("sm_80", 2, 1), ("sm_86", 4, 2 / 32), ("sm_89", 4, 2 / 32), ("sm_90a", 4, 2)]
)
def test_counts_are_held_against_the_rates_of_the_architecture(arch: str, fma: float, fp64: float) -> None:
    """CUDA C++ Programming Guide: lanes of an SM, of which an instruction takes 32."""
    table = counted_on(arch)
    rows = table.set_index("resource")
    assert rows.loc[COUNTED, "peak"].tolist() == [1, 4, fma, 2, fp64, 0.5, 1]
    shares = rows.loc[COUNTED, "used"] / rows.loc[COUNTED, "peak"]
    assert rows.loc[COUNTED, "peak_pct"].tolist() == pytest.approx((100 * shares).tolist())
    unknown = rows.drop(index=COUNTED)
    assert unknown[["used", "peak", "peak_pct"]].isna().all(axis=None)
    assert table.attrs["not_measured"] == [
        "k #0: instruction counts do not tell the use of DRAM, L2, L1 and the tensor pipe; counters do "
        "(session(evidence=True))"
    ]


def test_without_rates_there_are_no_peaks_and_a_reason() -> None:
    table = counted_on("sm_100")
    rows = table.set_index("resource")
    assert (rows.loc[COUNTED, "used"] > 0).any()
    assert table.reindex(columns=["peak", "peak_pct"]).isna().all(axis=None)
    assert table.attrs["not_measured"][-1] == (
        "k #0: no peaks are known of compute capability 10.0; those of 8.0, 8.6, 8.9, 9.0 are"
    )
    assert table.attrs["bound"] == [[NAME, 0, "bound by: unknown"]]


def test_what_binds_each_kernel_stands_in_the_attrs() -> None:
    table = profile(counters=counters()).limits()
    assert table.attrs["bound"] == [[NAME, 0, "bound by L2 (94 %)"]]


def test_what_was_not_measured_is_said() -> None:
    tables = worked(WORK).tables
    missing = {"evidence": {"not_measured": ["no counters: only administrators may"]}}
    asked = Profile.of(replace(tables, metadata={**tables.metadata, **missing}))
    assert "no counters: only administrators may" in asked.limits().attrs["not_measured"]
    assert Profile().limits().empty


def test_the_emulator_has_no_rates() -> None:
    table = worked(WORK, backend="emulator").limits()
    assert table.empty
    assert table.attrs == {"bound": [], "not_measured": [ON_EMULATOR]}


# The pipe of each opcode, against the pipes' counters of an H200.


@pytest.mark.parametrize("name", KERNELS)
def test_each_pipe_executes_what_the_table_says(name: str) -> None:
    entry = KERNELS[name]
    counted: Counter[str] = Counter()
    for opcode, executed in entry["opcodes"].items():
        counted[pipe_of(opcode)] += executed
    assert sum(counted.values()) == entry["totals"]["executed"]
    issued = entry["counters"]["sm__inst_issued.avg.per_cycle_elapsed"]
    for pipe in PIPES:
        share = entry["counters"][f"sm__inst_executed_pipe_{pipe}.avg.per_cycle_elapsed"] / issued
        # One instruction of each warp more uses the LSU pipe: a twelfth of all in the smallest kernel.
        apart = 0.07 if (name, pipe) == ("copy", "lsu") else 0.03
        assert counted[pipe] / counted.total() == pytest.approx(share, abs=apart), pipe


def test_modifiers_tell_tensor_instructions() -> None:
    assert pipe_of("HFMA2.MMA") == "tensor"
    assert pipe_of("HFMA2") == "fma"
    assert pipe_of("HGMMA.64x128x16.F32") == "tensor"
    assert pipe_of("BRA") == ""
