"""What `explain` finds and tries, on kernels that the emulator runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.analysis.cause import FINDINGS_TITLE
from profscope.errors import CompileError, OptionError, SessionError
from profscope.tuning.explanation import Explanation
from tests.kernels.reductions import row_sums_kernel
from tests.support.page_kernels import matmul_kernel

pytestmark = pytest.mark.usefixtures("builds_are_shared")

EMULATOR = {"backend": "emulator"}
# ruff: noqa: N803


@triton.jit
def increased(x_ptr, count, BY: tl.constexpr, BLOCK: tl.constexpr):
    """In place: launched twice without a restore, it gives another result."""
    tl.static_assert(BLOCK != 96, "no blocks of 96")
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, at < count) + BY, at < count)


def blocks(given: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(given["count"], given["BLOCK"]),)


def row(explanation: Explanation, options: str) -> pd.Series[Any]:
    return explanation.tries.set_index("options").loc[options]


@pytest.fixture(scope="module")
def explained() -> Explanation:
    """Two CTAs, so that most SMs are idle."""
    x = torch.arange(4096, dtype=torch.float32)
    found = profscope.explain(
        increased, x, 4096, 1, grid=blocks, BLOCK=2048, vary={"BLOCK": [256, 96, 8192]}, **EMULATOR
    )
    assert torch.equal(x, torch.arange(4096, dtype=torch.float32)), "memory is as it was before"
    return found


def test_every_launch_starts_from_the_same_memory(explained: Explanation) -> None:
    same = explained.tries.set_index("options")["same_results"]
    assert same[["as launched", "BLOCK=256", "BLOCK=8192"]].tolist() == ["bit-equal"] * 3


def test_times_are_cycles_on_the_emulator(explained: Explanation) -> None:
    assert explained.tries.attrs["unit"] == "kcycles"
    assert list(explained.tries)[:4] == ["options", "kcycles", "low_kcycles", "high_kcycles"]
    ran = explained.tries[explained.tries["failed"] == ""]
    assert ran["kcycles"].is_monotonic_increasing
    assert (ran["low_kcycles"] == ran["high_kcycles"]).all()
    launch = explained.profile.launches.iloc[0]
    cycles = (launch["end_ns"] - launch["start_ns"]) * 1.25  # of the emulator's clock of 1.25 GHz
    assert cycles / 2 < 1e3 * row(explained, "as launched")["kcycles"] < 2 * cycles


def test_what_does_not_compile_is_a_row(explained: Explanation) -> None:
    failed = row(explained, "BLOCK=96")
    assert failed["failed"].startswith("Comp")
    assert "\n" not in failed["failed"]
    assert pd.isna(failed["kcycles"])
    assert failed["same_results"] == ""


def test_the_screen(explained: Explanation) -> None:
    lines = repr(explained).splitlines()
    assert lines[0] == "EMULATED: cycles of a cost model, not GPU time"
    time = row(explained, "as launched")["kcycles"]
    assert lines[1] == f"increased, as launched: {time:.4g} kcycles, bare"
    assert "idle-sms" in lines[3]
    assert lines[4] == FINDINGS_TITLE
    assert any("idle-sms" in line and "BLOCK=256 saved" in line for line in lines)
    assert any(line.startswith("BLOCK=96: ") for line in lines)
    assert lines[-1].startswith("best: BLOCK=256, ")
    assert max(map(len, lines)) <= 110
    assert " us" not in repr(explained)


def matmul_arguments() -> list[Any]:
    return [*(torch.ones(*size).half() for size in ((32, 128), (128, 32), (32, 32))), 128]


def test_other_results_and_what_runs_out_of_shared_memory_are_never_the_best() -> None:
    found = profscope.explain(
        matmul_kernel,
        *matmul_arguments(),
        grid=(1,),
        M=32,
        STAGES=1,
        vary={"M": [16], "STAGES": [3, 64]},
        **EMULATOR,
    )
    assert row(found, "M=16")["same_results"] == "different"
    assert "shared memory" in row(found, "STAGES=64")["failed"]
    assert found.best == "STAGES=3"


def test_without_time_nothing_is_tried() -> None:
    found = profscope.explain(
        matmul_kernel,
        *matmul_arguments(),
        grid=(1,),
        M=32,
        STAGES=1,
        vary={"STAGES": [3]},
        limit_s=1e-9,
        **EMULATOR,
    )
    assert found.tries["options"].tolist() == ["as launched"]
    assert "STAGES=3" in found.tries.attrs["left_out"]
    assert "out of time (limit_s=) before" in repr(found)
    assert repr(found).splitlines()[-1] == "best: as launched; nothing was tried"
    assert (found.findings["tried"] == "").all()
    assert found.findings["measured_pct"].isna().all()


@triton.jit
def two_loops(x_ptr, out_ptr, steps, FIRST: tl.constexpr, SECOND: tl.constexpr):
    at = tl.arange(0, 128)
    total = tl.zeros((128,), tl.float32)
    for step in range(0, steps, FIRST):
        for more in tl.static_range(FIRST):
            total += tl.load(x_ptr + (step + more) * 128 + at)
    for step in range(0, steps, SECOND):
        for more in tl.static_range(SECOND):
            total += tl.load(x_ptr + (step + more) * 128 + at)
    tl.store(out_ptr + at, total)


def test_the_best_steps_are_tried_together() -> None:
    x, out = torch.randn(16, 128), torch.empty(128)
    found = profscope.explain(
        two_loops, x, out, 16, grid=(1,), FIRST=1, SECOND=1, vary={"FIRST": [4], "SECOND": [8]}, **EMULATOR
    )
    alone = {row(found, "FIRST=4")["kcycles"], row(found, "SECOND=8")["kcycles"]}
    assert max(alone) < row(found, "as launched")["kcycles"]
    together = found.tries[found.tries["options"].str.contains(", ")]
    assert set(together["options"].iloc[0].split(", ")) == {"FIRST=4", "SECOND=8"}
    assert together["kcycles"].iloc[0] < min(alone)
    assert found.best == together["options"].iloc[0]


CONFIGS = [triton.Config({"STEP": step}, num_warps=1) for step in (48, 32, 256)]


@triton.autotune(CONFIGS, key=["count"], reset_to_zero=["total_ptr"])
@triton.jit
def add_up(x_ptr, total_ptr, count, SCALE: tl.constexpr, STEP: tl.constexpr):
    total = tl.zeros((STEP,), tl.float32)
    for start in range(0, count, STEP):
        total += tl.load(x_ptr + start + tl.arange(0, STEP)) * SCALE
    tl.atomic_add(total_ptr, tl.sum(total, 0))


scaled = triton.heuristics({"SCALE": lambda given: 2 if given["count"] > 100 else 1})(add_up)


@pytest.mark.parametrize(("kernel", "options"), [(add_up, {"SCALE": 2}), (scaled, {})])
def test_of_an_autotuned_kernel_the_configurations_are_tried(kernel: Any, options: dict[str, Any]) -> None:
    total = torch.full((1,), 7.0)
    before = dict(vars(add_up))
    found = profscope.explain(kernel, torch.ones(2048), total, 2048, grid=(2,), **options, **EMULATOR)
    assert total.item() == 7.0
    assert dict(vars(add_up)) == {**before, "nargs": None, "restore_copies": {}} | {
        name: value for name, value in vars(add_up).items() if name in ("nargs", "restore_copies")
    }
    step = "STEP={}, num_warps=1, num_stages=3"
    assert found.tries["options"].tolist() == [step.format(size) for size in (256, 32, 48)]
    assert found.tries["same_results"].tolist() == ["bit-equal", "bit-equal", ""]
    assert found.best == found.launched == step.format(256)
    assert len(found.profile.launches) == 1
    assert found.findings["tried"].tolist() == [""] * len(found.findings)


def test_an_error_of_the_launch_itself_is_raised() -> None:
    x = torch.ones(2048)
    with pytest.raises(ZeroDivisionError):
        profscope.explain(increased, x, 2048, 1, BLOCK=256, grid=lambda meta: (1 // 0,), **EMULATOR)
    with pytest.raises(CompileError, match=r"increased cannot be built: .*no blocks of 96|power of 2"):
        profscope.explain(increased, x, 2048, 1, BLOCK=96, grid=(1,), **EMULATOR)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kernel": blocks}, "is no Triton kernel"),
        ({"grid": (0,)}, r"grid=\(0,\); .* at least one CTA"),
        ({"grid": None}, "grid=None"),
        ({"grid": ()}, r"^explain: grid=\(\); a grid is one to three sizes, such as \(64,\)"),
        ({"grid": 4}, r"^explain: grid=4; a grid is"),
        ({"grid": lambda meta: ()}, r"^explain: the grid function returns \(\); a grid is"),
        ({"num_warps": 3}, r"^explain: num_warps=3: .*num_warps must be a power of 2$"),
        ({"num_warps": "four"}, r"^explain: num_warps=four: "),
        ({"vary": {"BLOK": [1]}}, "'BLOK' is no constexpr of increased; these are BY, BLOCK"),
        ({"vary": {"count": [1]}}, "'count' is no constexpr"),
        ({"vary": {"BLOCK": 64}}, "BLOCK takes a list of values, not 64"),
        ({"limit_s": 0}, "limit_s=0 must be a number of seconds above 0"),
        ({"num_warp": 4}, "num_warp was specified but unrecognised"),
        ({"args": (torch.ones(8),)}, "increased needs its argument 'count'"),
        ({"args": (torch.ones(8), 8, 1, 8, 8)}, "takes 4 arguments, 5 were given"),
        ({"kernel": add_up, "STEP": 32}, "STEP= is chosen by the autotuner of add_up"),
        ({"kernel": add_up, "SCALE": 1, "vary": {"STEP": [32]}}, "add_up is autotuned"),
        ({"kernel": scaled, "vary": {"SCALE": [1]}}, "add_up is autotuned"),
    ],
)
def test_bad_calls(change: dict[str, Any], says: str) -> None:
    given = {
        "kernel": increased,
        "grid": (1,),
        "args": (torch.ones(8), 8, 1),
        "BLOCK": 8,
        **EMULATOR,
        **change,
    }
    if given["kernel"] is not increased:
        given.pop("BLOCK")
    args = given.pop("args")
    with pytest.raises(OptionError, match=says):
        profscope.explain(given.pop("kernel"), *args, **given)


def test_not_in_a_session() -> None:
    with profscope.session(**EMULATOR) as prof, pytest.raises(SessionError, match="outside of it"):
        profscope.explain(increased, torch.ones(8), 8, 1, grid=(1,), BLOCK=8, **EMULATOR)
    assert not len(prof.launches)


@triton.jit
def stores_then_fails(x_ptr, far_ptr, FAR: tl.constexpr):
    tl.store(x_ptr, 5.0)
    tl.store(far_ptr + FAR, 1.0)


def test_what_a_failing_try_has_written_is_restored() -> None:
    x, far = torch.zeros(1), torch.zeros(1)
    found = profscope.explain(
        stores_then_fails, x, far, grid=(1,), FAR=0, vary={"FAR": [1 << 40]}, **EMULATOR
    )
    assert row(found, f"FAR={1 << 40}")["failed"]
    assert (x.item(), far.item()) == (0.0, 0.0)


# Launches that are out of the ordinary, and tries that cannot be launched: each is a row.

# ruff: noqa: N803


@triton.jit
def activated(x_ptr, D: tl.constexpr, ACT: tl.constexpr, BLOCK: tl.constexpr = 64):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if ACT is not None:
        x = tl.exp(x)
    tl.store(x_ptr + at, x * D)


def explain_activated(**changed: Any) -> Any:
    x = torch.ones(64)
    return profscope.explain(activated, x, **{"D": 2, "ACT": "exp", "grid": (1,), **EMULATOR, **changed})


def rows(found: Any) -> dict[str, dict[str, Any]]:
    return found.tries.set_index("options").to_dict("index")


def test_a_value_of_another_type_is_tried() -> None:
    found = rows(explain_activated(vary={"D": [2, 2.0, 4.0]}))
    assert list(found) == ["as launched", "D=4.0", "D=2.0"], "2 is what was launched"
    assert found["D=2.0"]["failed"] == "the compiler makes the same code"
    assert "D=True" in rows(explain_activated(D=1, vary={"D": [True]}))


def test_a_default_is_tried_and_sizes_of_a_grid_may_be_numbers_of_numpy() -> None:
    assert "BLOCK=64" in rows(explain_activated(grid=(np.int64(1),), vary={"BLOCK": [64]}))


@pytest.mark.parametrize("given", [ValueError("not 32"), 1])
def test_a_grid_function_may_refuse_one_value(given: Any) -> None:
    def grid(meta: dict[str, Any]) -> Any:
        if meta["BLOCK"] != 32:
            return (64 // meta["BLOCK"],)
        if isinstance(given, Exception):
            raise given
        return given

    found = rows(explain_activated(grid=grid, vary={"BLOCK": [32, 16]}))
    says = "ValueError: not 32" if isinstance(given, Exception) else f"the grid function returns {given!r};"
    assert found["BLOCK=32"]["failed"].startswith(says)
    assert found["BLOCK=16"]["same_results"] == "bit-equal"


@triton.jit
def stores_far(x_ptr, far_ptr, FAR: tl.constexpr):
    tl.store(x_ptr, tl.load(x_ptr) + 1.0)
    tl.store(far_ptr + FAR, 1.0)


def tuned(*configs: triton.Config) -> Any:
    return triton.autotune(list(configs), key=[])(stores_far)


def test_a_configuration_that_fails_at_launch_is_a_row() -> None:
    far = 1 << 40
    kernel = tuned(*(triton.Config({"FAR": value}, num_warps=1) for value in (far, 0, far + 1)))
    x = torch.zeros(1)
    found = profscope.explain(kernel, x, torch.zeros(1), grid=(1,), **EMULATOR)
    assert x.item() == 0.0, "what the failing ones stored is restored"
    tried = rows(found)
    for value in (far, far + 1):
        assert "out of bounds" in tried[f"FAR={value}, num_warps=1, num_stages=3"]["failed"]
    assert found.best == found.launched == "FAR=0, num_warps=1, num_stages=3"
    assert tried[found.best]["same_results"] == "bit-equal"


def test_if_all_tries_fail_the_last_line_says_so() -> None:
    far = 1 << 40
    found = profscope.explain(
        stores_far, torch.zeros(1), torch.zeros(1), grid=(1,), FAR=0, vary={"FAR": [far]}, **EMULATOR
    )
    failed = rows(found)[f"FAR={far}"]["failed"]
    assert "(its memory: 0 to 4)" in failed
    assert failed.endswith("; the grid stays (1,), as it is no function")
    lines = repr(found).splitlines()
    assert failed in " ".join(lines), "all of it is shown"
    assert max(map(len, lines)) <= 110
    assert lines[-1] == "best: as launched; nothing that was tried could be timed, as said above"


def test_what_is_known_without_findings_is_shown_whole() -> None:
    tensors = (torch.ones(32, 32).half() for _ in range(3))
    found = profscope.explain(matmul_kernel, *tensors, 32, grid=(16,), M=32, STAGES=3, **EMULATOR)
    assert not len(found.findings)
    (known,) = found.findings.attrs["clean"].values()
    assert known in " ".join(repr(found).splitlines())
    assert max(map(len, repr(found).splitlines())) <= 110


def test_without_a_configuration_that_can_be_launched() -> None:
    kernel = tuned(triton.Config({"FAR": 1 << 40}), triton.Config({"FAR": 1 << 41}))
    says = rf"no configuration of stores_far can be launched; FAR={1 << 40}, .*out of bounds"
    with pytest.raises(CompileError, match=says):
        profscope.explain(kernel, torch.zeros(1), torch.zeros(1), grid=(1,), **EMULATOR)


def test_the_account_is_of_the_launch_not_of_what_its_hooks_launch() -> None:
    """A hook launches the same function, in another configuration and for longer."""
    other = torch.ones(1 << 16)

    def hook(named: dict[str, Any]) -> None:
        activated[(64,)](other, 1, "exp", BLOCK=1024)

    config = triton.Config({"BLOCK": 64}, num_warps=1, pre_hook=hook)
    kernel = triton.autotune([config], key=[])(activated)
    found = profscope.explain(kernel, torch.ones(64), D=2, ACT=None, grid=(1,), **EMULATOR)
    launches = found.profile.launches
    assert len(launches) == 2
    own = launches[launches["variant"] == found.variant].iloc[0]
    assert own["grid_x"] == 1
    assert set(found.findings["variant"]) == {found.variant}
    lines = repr(found).splitlines()
    assert sum(line.startswith("█████") for line in lines) == 1
    assert any("idle-sms 94%" in line for line in lines), "one CTA on 16 SMs"


def test_the_account_divides_the_time_that_is_printed_above_it() -> None:
    x = torch.ones(512, 64, dtype=torch.float16)
    found = profscope.explain(
        row_sums_kernel, x, torch.zeros(512), 512, 64, grid=(1,), limit_s=1e-9, **EMULATOR
    )
    (account,) = found.profile.overhead().to_dict("records")
    bare_kcycles = found.tries["kcycles"].iloc[0]
    assert account["bare_ns"] * 1.25 / 1e3 == pytest.approx(bare_kcycles, rel=0.02)
    # the account's cycles are those of four warps that end together
    of_a_warp = found.profile.samples["samples"].sum() / 4 / 1e3
    assert of_a_warp == pytest.approx(bare_kcycles, rel=0.02)
