"""value-probe: what probes count, against torch, in whole sessions on the emulator."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope import emulator
from profscope.analysis.values import value_problems
from profscope.errors import OptionError
from profscope.viewer.screen import show_first_screen
from tests.kernels.add import add_kernel
from tests.kernels.dot import half_product_kernel
from tests.support.profiles import regular_profile
from tests.support.quick import quick
from tests.support.sessions import CASES, same_bits
from tests.support.validation import validate

# ruff: noqa: N803

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e5m2]


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x, mask=offs < n)


def session(*passes: str, **options: Any) -> profscope.Session:
    return profscope.session(backend="emulator", instrument=["kernel-span", "loop-spans", *passes], **options)


def probes(prof: profscope.Session) -> pd.DataFrame:
    return prof.df[prof.df["nans"].notna()]


def expected(values: torch.Tensor) -> dict[str, float]:
    wide, limits = values.double().abs(), torch.finfo(values.dtype)
    finite = values.double()[torch.isfinite(wide)].float()
    return {
        "nans": int(wide.isnan().sum()),
        "infs": int(wide.isinf().sum()),
        "denormals": int(((wide > 0) & (wide < limits.smallest_normal)).sum()),
        "saturated": int((wide == limits.max).sum()),
        "min": float(finite.min()) if len(finite) else np.nan,
        "max": float(finite.max()) if len(finite) else np.nan,
    }


def tensor(n: int, dtype: torch.dtype) -> torch.Tensor:
    """Values of all sizes, some denormal, greatest, or not finite; from element 256 on NaN and infinities."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(n, generator=generator, dtype=torch.float64) * 100
    values[3::17] = float("nan")
    values[5::29] = float("inf")
    values[7::31] = -float("inf")
    limits = torch.finfo(dtype)
    values[2::23], values[9::37] = limits.smallest_normal * 0.75, -limits.max
    values[11::41], values[13::43] = -limits.smallest_normal, limits.tiny / 2
    values[256::2], values[257::2] = float("nan"), float("inf")
    return values.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("num_warps", quick((1, 4), (4,)))
def test_a_load_and_a_store_against_torch(dtype: torch.dtype, num_warps: int) -> None:
    x = tensor(384, dtype)
    with session("value-probe{classes=load;store}") as prof:
        copy_kernel[(3,)](x, torch.empty_like(x), len(x), BLOCK=128, num_warps=num_warps)
    found = probes(prof)
    assert set(found["scope"]) == {"values of load x", "values of store"}
    assert len(found) == 3 * num_warps * 2  # every warp has what the whole CTA counted
    for row in found.itertuples():
        wanted = expected(x[row.cta * 128 : row.cta * 128 + 128])
        for name, value in wanted.items():
            seen = getattr(row, name)
            assert seen == value or (np.isnan(seen) and np.isnan(value)), (row.cta, name)


def test_masked_elements_do_not_count() -> None:
    x = torch.ones(100)
    backing = torch.full((128,), float("nan"))
    backing[:100] = x
    with session("value-probe{classes=load;store}") as prof:
        copy_kernel[(1,)](backing, torch.empty(128), 100, BLOCK=128)
    found = probes(prof)
    assert (found["nans"] == 0).all()
    assert (found[["min", "max"]] == 1).all(axis=None)
    assert prof.values().attrs["first_nan"] is None


def test_the_iteration_in_which_a_float16_sum_overflows() -> None:
    """Each step adds 32 * 30 * 30 = 28,800 to every element: the third is beyond 65,504; then inf - inf."""
    size, k = 64, 256
    a, b = torch.full((size, k), 30.0).half(), torch.full((k, size), 30.0).half()
    b[4 * 32 : 5 * 32] = -float("inf")
    out = torch.empty(size, size).half()
    with session("value-probe{ops=tt.dot}") as prof:
        half_product_kernel[(2, 2)](a, b, out, size, k, BLOCK=32)
    assert out.isnan().all()
    found = probes(prof)
    found = found.drop_duplicates(["cta", "warp", "iteration"], keep="last")  # of a dot done in two halves
    for _, steps in found.groupby(["cta", "warp"]):
        assert steps["iteration"].tolist() == list(range(8))
        assert steps["max"].iloc[:2].tolist() == [28800, 57600]
        assert steps["infs"].tolist() == [0, 0, 1024, 1024, 0, 0, 0, 0]
        assert steps["nans"].tolist() == [0, 0, 0, 0, 1024, 1024, 1024, 1024]
        assert steps["min"].iloc[2:].isna().all()
    first = prof.values().attrs["first_nan"]
    assert first is not None
    assert (first["kernel"], first["launch"], first["iteration"]) == ("half_product_kernel", 0, 4)
    assert Path(first["file"]).name == "dot.py"
    assert "tl.dot(" in Path(first["file"]).read_text().splitlines()[first["line"] - 1]


@pytest.mark.parametrize(
    "name",
    quick(
        ("attention", "matmul", "layer_norm", "nested_loops", "branch_in_loop"),
        ("nested_loops", "branch_in_loop"),
    ),
)
def test_probes_change_no_result(name: str) -> None:
    case = CASES[name]
    inputs = case.inputs("cpu")
    with emulator.activate():
        bare = case.launch(inputs)
    with session("value-probe{classes=load;mma;reduce;math;store}", "op-spans") as prof:
        outputs = case.launch(inputs)
    assert same_bits(bare, outputs)
    assert validate(prof.profile.tables) == []
    (note,) = prof.metadata["notes"]
    assert note.endswith("instructions are not counted with value-probe, which adds some")
    assert (probes(prof)["nans"] == 0).all()
    with session("op-spans") as plain:  # the ops of a probe have no spans of their own
        case.launch(inputs)
    scopes = set(prof.df["scope"].unique())
    assert {scope for scope in scopes if not scope.startswith("values of")} == set(plain.df["scope"].unique())


def test_conditions_narrow_the_choice() -> None:
    line = next(
        number
        for number, text in enumerate(Path(add_kernel.fn.__code__.co_filename).read_text().splitlines(), 1)
        if "tl.load(y_ptr" in text
    )
    for options, wanted in (
        (f"lines={line}", {"values of load y"}),
        ("names=x;y", {"values of load x", "values of load y"}),
        (f"classes=store;load lines={line}", {"values of load y"}),
        ("ops=tt.store", {"values of store"}),
        ("classes=mma", set()),
    ):
        x = torch.ones(1024)
        with session(f"value-probe{{{options}}}") as prof:
            add_kernel[(1,)](x, x, torch.empty_like(x), 1024, BLOCK=1024)
        assert {s for s in set(prof.df["scope"]) if s.startswith("values of")} == wanted, options


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(OptionError, match="choose ops by classes=, ops=, lines= or names="):
        session("value-probe")
    with pytest.raises(OptionError, match="unknown op class 'dots'"):
        session("value-probe{classes=dots}")
    with pytest.raises(OptionError, match="lines=12-14 is not a line's number"):
        session("value-probe{lines=12-14}")
    nothing = profscope.profiles.Profile().values()
    assert nothing.empty
    assert nothing.attrs["first_nan"] is None
    assert nothing.attrs["not_measured"][0].startswith("values: none were recorded")


@triton.jit
def halves_kernel(x_ptr, out_ptr, scale, BLOCK: tl.constexpr):
    """Products as float16, which the kernel keeps from being infinite."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs) * scale
    tl.store(out_ptr + offs, tl.clamp(x, -65504.0, 65504.0).to(tl.float16))


def test_what_is_wrong_in_values_is_said_and_is_no_finding() -> None:
    """A scale that is too small, too large, and right."""
    wanted = {1e-6: "denormals", 1e6: "saturation", 10.0: None}
    x, lines = torch.linspace(1, 2, 256), halves_kernel.fn.__code__.co_firstlineno
    for scale, problem in wanted.items():
        with session("value-probe{classes=store}") as prof:
            halves_kernel[(2,)](x, torch.empty(256).half(), scale, BLOCK=128)
        table = prof.values()
        (row,) = table[table["problem"] != ""].to_dict("records") if problem else [None]
        assert row is None or (row["problem"], row["line"], row["greatest"]) == (problem, lines + 5, 128)
        assert not set(prof.findings()["finding"]) & {"nan", "infinity", "denormals", "saturation"}
        where = f"in values of store (test_first_nan.py:{lines + 5}) (prof.values())"
        said = f"{problem} {where}" if problem else ""
        assert value_problems(prof.profile.tables) == said
        assert prof.report()["header"]["values"] == (said or None)
        shown = StringIO()
        show_first_screen(prof.profile, "t.json", shown)
        assert (f"Values    {problem} in values of store" in shown.getvalue()) is (problem is not None)


@pytest.mark.parametrize(
    ("scope", "said"), [("loop L22", ""), ("values of acc", "saturation in values of acc")]
)
def test_a_payload_is_no_probes_count(scope: str, said: str) -> None:
    plain = regular_profile(launches=1, ctas=2)
    df = plain.tables.df.assign(
        scope=plain.df["scope"].astype(str).replace("loop L22", scope).astype("category")
    )
    df["saturated"] = pd.array([pd.NA] * len(df), "Int32")
    df.loc[df["scope"] == scope, "saturated"] = 3
    told = value_problems(profscope.Profile(df, plain.launches, plain.metadata).tables)
    assert told.partition(" (")[0] == said
