"""What `explain` says of an autotuned kernel's configurations."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources

import profscope
from profscope.emulator.compiler import EmulatorBackend
from profscope.errors import OptionError, SessionError
from profscope.tuning.reasons import why

CONFIGS = [triton.Config({"STEP": step}, num_warps=1) for step in (32, 256)]


@triton.autotune(CONFIGS, key=["count"], reset_to_zero=["total_ptr"])
@triton.jit
def add_up(x_ptr, total_ptr, count, SCALE: tl.constexpr, STEP: tl.constexpr):  # noqa: N803
    total = tl.zeros((STEP,), tl.float32)
    for start in range(0, count, STEP):
        total += tl.load(x_ptr + start + tl.arange(0, STEP)) * SCALE
    tl.atomic_add(total_ptr, tl.sum(total, 0))


@triton.heuristics({"SCALE": lambda given: 2 if given["count"] > 100 else 1})
@triton.autotune(CONFIGS, key=["count"])
@triton.jit
def scaled(x_ptr, out_ptr, count, SCALE: tl.constexpr, STEP: tl.constexpr):  # noqa: N803
    for start in range(0, count, STEP):
        at = start + tl.arange(0, STEP)
        tl.store(out_ptr + at, tl.load(x_ptr + at) * SCALE)


X = torch.ones(2048)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    total = torch.full((1,), 7.0)
    table = profscope.explain(add_up, X, total, 2048, SCALE=3, grid=(2,), options={"backend": "emulator"})
    assert total.item() == 7.0, "the copy was written, not the tensor"
    return table


def test_a_row_for_each_configuration(table: pd.DataFrame) -> None:
    names = ["STEP=256, num_warps=1, num_stages=3", "STEP=32, num_warps=1, num_stages=3"]
    assert table["configuration"].tolist() == names
    assert table["best"].tolist() == [True, False]
    assert table["time_us"].is_monotonic_increasing
    assert (table["failed"] == "").all()
    assert (table["exposed_pct"].between(0, 100)).all()
    # Two CTAs, and so 14 of 16 SMs stand empty: as the finding counts it, by what there is room for.
    assert table["tail_pct"].tolist() == pytest.approx([87.5, 87.5], abs=0.5)


def test_the_line_says_who_won_and_by_how_much(table: pd.DataFrame) -> None:
    slower = 100 * (table["time_us"][1] / table["time_us"][0] - 1)
    begin = f"STEP=256, num_warps=1, num_stages=3: {table['time_us'][0]:.4g} us, STEP=32"
    assert table.attrs["why"].startswith(begin)
    assert f"takes {slower:.1f} % longer" in table.attrs["why"]
    assert "emulated" in table.attrs["basis"]


def test_heuristics_around_an_autotuner() -> None:
    out = torch.zeros(2048)
    table = profscope.explain(scaled, X, out, 2048, grid=(1,), options={"backend": "emulator"})
    assert len(table) == 2
    assert (out == 2).all()


def test_the_autotuner_is_as_before() -> None:
    total = torch.zeros(1)
    before = dict(vars(add_up))
    profscope.explain(
        add_up, X, total, 2048, SCALE=1, grid=lambda meta: (1,), options={"backend": "emulator"}
    )
    after = dict(vars(add_up))
    for own in ("nargs", "restore_copies"):  # what each trial of an autotuner leaves
        assert not after.pop(own, None)
        assert not before.pop(own, None)
    assert after == before


def test_what_cannot_be_built_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    run = type(add_up.fn).run

    def too_large(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs["STEP"] == 256:
            raise OutOfResources(400_000, 232_448, "shared memory")
        return run(self, *args, **kwargs)

    monkeypatch.setattr(type(add_up.fn), "run", too_large)
    total = torch.zeros(1)
    table = profscope.explain(add_up, X, total, 2048, SCALE=1, grid=(1,), options={"backend": "emulator"})
    assert table["failed"].tolist()[0] == ""
    assert "shared memory" in table["failed"][1]
    assert pd.isna(table["time_us"][1])
    assert "the only configuration that can be built" in table.attrs["why"]


@triton.jit
def halves(x, STEP: tl.constexpr):  # noqa: N803
    tl.static_assert(STEP != 64, "no halves of 64")
    return tl.reshape(x, (2, STEP // 2))


@triton.autotune([triton.Config({"STEP": step}, num_warps=1) for step in (32, 48, 64, 128)], key=["count"])
@triton.jit
def some_compile(x_ptr, out_ptr, count, STEP: tl.constexpr):  # noqa: N803
    at = tl.arange(0, STEP)
    x = halves(tl.load(x_ptr + at), STEP)
    if STEP == 128:
        x = tl.dot(x, x)
    tl.store(out_ptr + at, tl.reshape(x, (STEP,)))


def test_what_does_not_compile_is_a_row_and_the_others_stand() -> None:
    table = profscope.explain(some_compile, X, X.clone(), 1, grid=(1,), options={"backend": "emulator"})
    failed = table.set_index("configuration")["failed"]
    assert failed.pop("STEP=32, num_warps=1, num_stages=3") == ""
    assert all("\n" not in text for text in failed)
    assert failed["STEP=48, num_warps=1, num_stages=3"].startswith(
        "CompilationError: at `at = tl.arange(0, STEP)`: "
    )
    assert failed["STEP=64, num_warps=1, num_stages=3"] == (
        'CompileTimeAssertionFailure: at `tl.static_assert(STEP != 64, "no halves of 64")`: no halves of 64'
    )
    assert failed["STEP=128, num_warps=1, num_stages=3"].startswith(
        "CompilationError: at `x = tl.dot(x, x)`: "
    )
    assert "STEP=32, num_warps=1, num_stages=3 is the only configuration" in table.attrs["why"]


@triton.autotune(CONFIGS, key=["count"])
@triton.jit
def copied(x_ptr, out_ptr, count, STEP: tl.constexpr):  # noqa: N803
    at = tl.arange(0, STEP)
    tl.store(out_ptr + at, tl.load(x_ptr + at, at < count), at < count)


def test_a_pass_that_fails_is_a_row_and_an_error_of_a_launch_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(self: Any, *args: Any) -> Any:
        raise RuntimeError("PassManager::run failed")

    options, make = {"backend": "emulator"}, EmulatorBackend.make_llir
    monkeypatch.setattr(triton.knobs.compilation, "always_compile", True)
    monkeypatch.setattr(EmulatorBackend, "make_llir", failing)
    table = profscope.explain(copied, X, X.clone(), 2048, grid=(1,), options=options)
    assert table["failed"].tolist() == ["RuntimeError: PassManager::run failed"] * 2
    monkeypatch.setattr(EmulatorBackend, "make_llir", make)
    with pytest.raises(ZeroDivisionError):
        profscope.explain(copied, X, X.clone(), 2048, grid=lambda meta: (1 // 0,), options=options)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kernel": add_up.fn}, "has no @triton.autotune"),
        ({"STEP": 64}, "STEP= is chosen by the autotuner of add_up"),
        ({"options": {"instruments": "light"}}, "did you mean instrument="),
        ({"grid": (0,)}, r"grid=\(0,\); .* at least one CTA"),
        ({"grid": None}, "grid=None"),
        ({"grid": 5}, r"grid=5; it is as at a launch, such as grid=\(64,\)"),
        (
            {"instrument": "light"},
            r"instrument= is an option of session\(\); give options=",
        ),
        ({"args": (X,)}, "needs its argument 'total_ptr'"),
        ({"args": (X, X, 1, 2, 3, 4)}, "takes 5 arguments, 6 were given"),
    ],
)
def test_bad_calls(change: dict[str, Any], says: str) -> None:
    given = {"kernel": add_up, "grid": (1,), **change}
    args = given.pop("args", (X, torch.zeros(1), 2048))
    with pytest.raises(OptionError, match=says):
        profscope.explain(given.pop("kernel"), *args, **given)


def test_not_in_a_session() -> None:
    with profscope.session(backend="emulator"), pytest.raises(SessionError, match="do not nest"):
        profscope.explain(add_up, X, torch.zeros(1), 2048, SCALE=1, grid=(1,))


def row(name: str, time: float, **more: Any) -> dict[str, Any]:
    nothing = {
        "low_us": time * 0.99,
        "high_us": time * 1.01,
        "spills": 0,
        "ctas_per_sm": 2,
        "exposed_pct": 10.0,
    }
    nothing |= {"tail_pct": 2.0, "finding": "", "line": pd.NA, "gain_pct": None, "failed": ""}
    return {"configuration": name, "time_us": time, **nothing, **more}


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"exposed_pct": 40.0}, "waits are 10 % of its time against 40 %"),
        ({"tail_pct": 40.0}, "its tail leaves 2 % of the launch empty against 40 %"),
        ({"spills": 32}, "it spills no registers against 32"),
        ({"ctas_per_sm": 1}, "2 CTAs fit on an SM against 1"),
        ({"finding": "tail", "line": 7, "gain_pct": 31.0}, "the other one has tail at line 7, 31 % to gain"),
        ({}, "what was recorded does not say why"),
        ({"low_us": 9.0, "high_us": 15.0}, "there is no clear winner"),
    ],
)
def test_reasons(second: dict[str, Any], says: str) -> None:
    table = pd.DataFrame([row("A=1", 10.0), row("A=2", 12.0, **second)])
    assert says in why(table)
    assert why(table).startswith("A=1: 10 us, A=2 takes 20.0 % longer")


def test_a_small_lead_has_no_reason() -> None:
    """Not even where times do not vary, as the emulator's, and a finding is at hand."""
    idle = {"finding": "idle-sms", "line": 4, "gain_pct": 75.0}
    exact = [{"low_us": time, "high_us": time} for time in (0.439, 0.442)]
    table = pd.DataFrame([row("A=1", 0.439, **exact[0]), row("A=2", 0.442, **exact[1], **idle)])
    assert why(table).endswith(
        "takes 0.7 % longer, less than where the code lies can change (3%): too close to explain"
    )


def test_nothing_can_be_built() -> None:
    assert (
        why(pd.DataFrame([row("A=1", 1.0, failed="OutOfResources")])) == "no configuration can be built here"
    )
