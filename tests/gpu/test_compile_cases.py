"""What torch.compile can make of a model, on a real device: its Triton kernels are recorded, each way."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import profscope
from tests.support.validation import validate

pytestmark = pytest.mark.filterwarnings("ignore")  # Inductor's own, about the machine


@triton.jit
def users_own_kernel(x, out, n, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * 3, at < n)


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Inductor without what it kept of earlier runs."""
    from torch._inductor import config
    from triton.runtime import _allocation

    allocator = _allocation._allocator.get()  # Inductor sets its own and leaves it
    torch._dynamo.reset()
    with config.patch(force_disable_caches=True):
        yield
    torch._dynamo.reset()
    _allocation._allocator.set(allocator)


def recorded(run: Callable[[], Any], **options: Any) -> profscope.Session:
    """A session around three runs, which all are recorded."""
    with profscope.session(backend="gpu", wait=True, **options) as prof:
        for _ in range(3):
            run()
    print(prof.launches["kernel"].value_counts().to_dict(), prof.metadata["notes"])
    return prof


def kernels(prof: profscope.Session) -> set[str]:
    assert not [note for note in prof.metadata["notes"] if "ran bare" in note or "unrecorded" in note]
    assert validate(prof.profile.tables) == []
    return set(prof.launches["kernel"])


def test_users_kernels_in_the_graph() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        users_own_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return torch.nn.functional.gelu(out + 1)

    function, x = torch.compile(scaled), torch.randn(5000, device="cuda")
    prof = recorded(lambda: function(x))
    torch.testing.assert_close(function(x), torch.nn.functional.gelu(x * 3 + 1))
    assert any("users_own_kernel" in kernel for kernel in kernels(prof))


def test_a_template_of_a_matmul() -> None:
    from torch._inductor import config

    def act(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w)

    x, w = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(2))
    with config.patch(max_autotune=True, max_autotune_gemm_backends="TRITON"):
        function = torch.compile(act)
        prof = recorded(lambda: function(x, w))
    assert any("mm" in kernel for kernel in kernels(prof))
    # Whether relu is fused into the template is Inductor's to choose. None of those that it timed is here.
    assert set(prof.launches["kernel"].value_counts()) == {3}


def test_flex_attention() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    shape = 2, 4, 512, 64
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 512, 512, device="cuda")
    function = torch.compile(flex_attention)
    prof = recorded(lambda: function(q, k, v, block_mask=mask))
    assert any("flex" in kernel for kernel in kernels(prof))


def test_compiled_autograd() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256)).cuda()
    x = torch.randn(64, 256, device="cuda")
    with torch._dynamo.config.patch(compiled_autograd=True):
        function = torch.compile(model)
        prof = recorded(lambda: function(x).square().mean().backward())
    assert any("backward" in kernel or "red" in kernel for kernel in kernels(prof))


_AHEAD_OF_TIME = """
import sys, torch, profscope
model = torch.nn.Sequential(torch.nn.GELU(), torch.nn.LayerNorm(256)).cuda()
x = torch.randn(64, 256).cuda()
package = torch._inductor.aoti_compile_and_package(torch.export.export(model, (x,)), package_path=sys.argv[1])
loaded = torch._inductor.aoti_load_package(package)
torch.testing.assert_close(loaded(x), model(x))
print("loaded", flush=True)
with profscope.session() as prof:
    out = loaded(x)
torch.testing.assert_close(out, model(x))
print(prof.metadata["notes"])
"""


def test_what_is_compiled_ahead_of_time_is_no_pythons(tmp_path: Path) -> None:
    """AOTInductor launches from C++, by cubins of its own: a session counts that, and names the kernels.

    In a process of its own: where torch's loader does not go with the machine's driver, that dies.
    """
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _AHEAD_OF_TIME, str(tmp_path / "model.pt2")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not run.stdout.startswith("loaded"):
        pytest.skip(f"torch cannot load its own package here: {run.returncode}, {run.stderr[-300:]}")
    assert run.returncode == 0, run.stderr
    assert re.search(r"AOTInductor .* \(triton_\w+", run.stdout)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_launches_go_on_while_binaries_are_built(mode: str) -> None:
    function = torch.compile(lambda x: torch.softmax(x, -1) * 2, mode=mode)
    x = torch.randn(512, 1000, device="cuda")
    if mode == "default":
        function(x)
    with profscope.session(backend="gpu") as prof:
        until_s = time.monotonic() + 60
        while prof.launches.empty and time.monotonic() < until_s:
            for _ in range(20):
                torch.compiler.cudagraph_mark_step_begin()
                function(x)
            time.sleep(0.1)
    print(prof.metadata.get("building"), prof.metadata["notes"])
    assert not prof.launches.empty
    assert ("building" in prof.metadata) == (mode == "default")
