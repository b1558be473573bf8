"""`session(evidence=)` on a real GPU: what is observed, equal results, and that nothing stands still."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import _allocation

import profscope
from profscope.analysis.limits import RESOURCES
from tests.kernels.add import add_kernel
from tests.kernels.matmul import matmul_kernel
from tests.support.on_gpu import expected, launch_add
from tests.support.validation import validate

ADD, MATMUL = "add_kernel", "matmul_kernel"
LARGE = 1 << 26
SIZE = 2048
MOST = 16  # launches of a configuration that are observed
ROUNDS = 40  # of two kernels, whose passes follow each other
_FAULT = """
import torch, triton, triton.language as tl, profscope

@triton.jit
def fault_kernel(x_ptr, far):
    tl.store(x_ptr + far, 1.0)

x = torch.zeros(32, device="cuda")
fault_kernel[(1,)](x, 0)
try:
    with profscope.session(evidence=True):
        fault_kernel[(1,)](x, 0)
        for _ in range(LAUNCHES):
            fault_kernel[(1,)](x, 2)
        fault_kernel[(1,)](x, 1 << 28)
        torch.cuda.synchronize()
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])
"""
# What the driver says of the store far from the tensor, by what is mapped there.
_FAULTS = (
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: operation not supported on global/shared address space",
    "[CUDA]: an illegal memory access was encountered",
    "[CUDA]: operation not supported on global/shared address space",
)


@triton.jit
def spin_kernel(mine_ptr, other_ptr, spins, out_ptr):
    """Says that it is here, and waits for the other one, but not for ever."""
    tl.atomic_xchg(mine_ptr, 1)
    n = 0
    alone = tl.atomic_add(other_ptr, 0) == 0
    while alone:
        n += 1
        alone = (tl.atomic_add(other_ptr, 0) == 0) & (n < spins)
    tl.store(out_ptr, n)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):  # noqa: N803
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + tl.load(index_ptr + offs)))


def matmul() -> torch.Tensor:
    a, b = (torch.full((SIZE, SIZE), 0.5, dtype=torch.float16, device="cuda") for _ in range(2))
    c = torch.empty_like(a)
    matmul_kernel[((SIZE // 128) ** 2,)](
        a, b, c, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE,
        BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=3,
    )  # fmt: skip
    return c


def observed(prof: profscope.Session, kernel: str) -> dict[str, int]:
    launches: dict[str, int] = prof.metadata["evidence"]["kernels"].get(kernel, {})
    return launches


def missing(prof: profscope.Session) -> list[str]:
    texts: list[str] = prof.metadata["evidence"]["not_measured"]
    return texts


@pytest.fixture(scope="module", autouse=True)
def counters_may_be_read() -> None:
    with profscope.session(evidence=["counts"]) as prof:
        for _ in range(2):
            launch_add()
    if not len(prof.counts):
        pytest.skip("; ".join(missing(prof)))


@pytest.fixture(scope="module")
def both() -> profscope.Session:
    """A session with an add that is bound by DRAM and a matmul, in turn, until both are observed."""
    with profscope.session(ctas=64, evidence={"seconds": 60}) as prof:
        for _ in range(ROUNDS):
            assert torch.equal(launch_add(LARGE), expected(LARGE))
            assert (matmul() == SIZE / 4).all()
    return prof


def test_all_evidence_comes_of_at_most_16_launches(both: profscope.Session) -> None:
    assert missing(both) == []
    for kernel in (ADD, MATMUL):
        launches = observed(both, kernel)
        assert (launches["counts"], launches["samples"]) == (1, 3)
        assert 0 < launches["counters"] <= MOST - 4
        assert len(both.launches[both.launches["kernel"] == kernel]) == ROUNDS - sum(launches.values())
    assert validate(both.profile.tables) == []
    print("added", both.metadata["evidence"]["added_s"], "s")


def test_counts_and_counters_agree(both: profscope.Session) -> None:
    for kernel in (ADD, MATMUL):
        counts = both.counts[both.counts["kernel"] == kernel]
        counters = both.counters[both.counters["kernel"] == kernel].set_index("counter")
        assert counts["executed"].sum() == counters.loc["instructions", "value"]
        assert (counts["launches"] == 1).all()
        assert counts.loc[counts["line"] > 0, "executed"].sum() > 0.9 * counts["executed"].sum()
    counters = both.counters[both.counters["kernel"] == ADD].set_index("counter")
    # The add reads one tensor twice, which a cache may spare it once, and writes another.
    assert 0.9 * 4 * LARGE < counters.loc["dram_read", "value"] < 2.2 * 4 * LARGE
    counts = both.counts[both.counts["kernel"] == ADD]
    assert counts["sectors"].sum() == counts["sectors_ideal"].sum() == 3 * 4 * LARGE // 32


def test_limits_tell_what_binds_a_kernel(both: profscope.Session) -> None:
    table = both.limits()
    assert len(table) == 2 * len(RESOURCES)
    assert set(table["basis"]) <= {"counters", ""}
    bound = {kernel: text for kernel, _, text in table.attrs["bound"]}
    assert bound[ADD].startswith("bound by DRAM")
    used = table[table["kernel"] == MATMUL].set_index("resource")["peak_pct"]
    assert used["tensor"] > 20
    print(bound)


def test_lines_have_samples_and_counts(both: profscope.Session) -> None:
    lines = both.lines()
    for kernel in (ADD, MATMUL):
        own = lines[lines["kernel"] == kernel]
        assert own["issue_share"].sum() == pytest.approx(1, abs=0.01)
        assert own["share_samples"].sum() == pytest.approx(1, abs=0.01)
    of_matmul = lines[lines["kernel"] == MATMUL]
    assert "tensor" in set(of_matmul["pipe"])
    assert lines[lines["kernel"] == ADD]["sectors_over_ideal"].dropna().eq(1).all()


@pytest.mark.parametrize(
    ("name", "apart"), [("add", 0.0), ("gather", 0.0), ("matmul", 0.02)], ids=["add", "gather", "matmul"]
)
def test_kernels_count_by_themselves_what_cupti_counts(name: str, apart: float) -> None:
    """All CTAs of the small grids count; of the matmul's 256 each fifth does."""
    x, index = torch.rand(SIZE, device="cuda"), torch.randperm(SIZE, device="cuda").to(torch.int32)
    out = torch.empty_like(x)

    def gather() -> torch.Tensor:
        gather_kernel[(SIZE // 256,)](x, index, out, BLOCK=256)
        return out

    launch: Callable[[], torch.Tensor] = {"add": launch_add, "gather": gather, "matmul": matmul}[name]
    bare = launch().clone()
    sums = {}
    for evidence in ("counts", "records"):
        with profscope.session(instrument="light", evidence=[evidence]) as prof:
            for _ in range(4):
                out.zero_()
                assert torch.equal(launch(), bare)
        assert missing(prof) == []
        assert list(prof.metadata["evidence"]["kernels"].values()) == [{evidence: 1}]
        sums[evidence] = prof.counts[["sectors", "sectors_ideal", "executed"]].sum()
    for column in ("sectors", "sectors_ideal"):
        assert sums["records"][column] == pytest.approx(sums["counts"][column], rel=apart)
    assert sums["records"]["executed"] == pytest.approx(sums["counts"]["executed"], rel=0.02)


@pytest.mark.parametrize("evidence", [["samples"], ["counters"], True], ids=str)
def test_session_after_session_whatever_is_loaded_between(evidence: Any) -> None:
    for block in (256, 512, 1024):
        add_kernel.device_caches.clear()
        x = torch.rand(1 << 22, device="cuda")
        with profscope.session(evidence=evidence) as prof:
            for _ in range(18):
                add_kernel[((1 << 22) // block,)](x, x, x, 1 << 22, BLOCK=block)
        assert missing(prof) == []
        if evidence is True:
            assert all(len(table) for table in (prof.counts, prof.samples, prof.counters))


def test_many_configurations_share_the_hardware() -> None:
    x = torch.rand(1 << 22, device="cuda")
    with profscope.session(evidence=True, ctas=64) as prof:
        for _ in range(80):  # 4 launches of all together, then 12 passes of one after the other
            for block in (128, 256, 512, 1024, 2048):
                add_kernel[((1 << 22) // block,)](x, x, x, 1 << 22, BLOCK=block)
    for table in (prof.counts, prof.samples, prof.counters):
        assert set(table["variant"]) == set(range(5)), missing(prof)
    print("five configurations added", prof.metadata["evidence"]["added_s"], "s")


def test_kernels_that_wait_for_one_another_go_on() -> None:
    """The one thread that launches both must not wait for the first one; both end by themselves after
    seconds."""
    flags = torch.zeros(4, dtype=torch.int32, device="cuda")
    one, two = torch.cuda.Stream(), torch.cuda.Stream()

    def pair(spins: int) -> None:
        flags.zero_()
        torch.cuda.synchronize()
        for stream, mine, other in ((one, 0, 1), (two, 1, 0)):
            with torch.cuda.stream(stream):
                spin_kernel[(1,)](flags[mine:], flags[other:], spins, flags[2 + mine :], num_warps=1)

    spins = 50_000_001  # about half a minute; odd as 11 is, so that one binary does for both
    pair(11)
    with profscope.session(evidence=True, instrument="light") as prof:
        pair(11)  # all are compiled and loaded, which waits for what runs
        torch.cuda.synchronize()
        begun = time.monotonic()
        for _ in range(4):
            pair(spins)
            torch.cuda.synchronize()
            assert max(flags[2:].tolist()) < spins
        took = time.monotonic() - begun
    assert took < 20
    assert "no evidence from the hardware: spin_kernel may wait for what another kernel writes" in missing(
        prof
    )
    pair(spins)
    torch.cuda.synchronize()
    assert max(flags[2:].tolist()) < spins


def test_captured_launches_are_recorded_and_not_observed() -> None:
    x = torch.zeros(1024, device="cuda")
    with profscope.session(evidence=True) as prof:
        for _ in range(2):
            add_kernel[(1,)](x, x, x, 1024, BLOCK=1024)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            add_kernel[(1,)](x, x, x, 1024, BLOCK=1024)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        for _ in range(20):
            add_kernel[(1,)](x, x, x, 1024, BLOCK=1024)
    assert (prof.launches["graph"] >= 0).sum() == 3
    assert "1 launch ran unobserved: a CUDA graph was being captured" in missing(prof)
    assert len(prof.counters) > 0


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_beside_torchs_profiler_nothing_is_observed_and_all_is_recorded() -> None:
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as inside, profscope.session(evidence=True) as prof:
        for _ in range(100):
            launch_add()
        torch.cuda.synchronize()
    assert any("torch.profiler was profiling" in text for text in missing(prof))
    assert len(prof.launches) == 100
    assert sum(event.count for event in inside.key_averages() if ADD in event.key) == 100


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_model(mode: str) -> None:
    allocator = _allocation._allocator.get()
    torch._dynamo.reset()
    layers = [
        layer
        for _ in range(3)
        for layer in (torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.LayerNorm(512))
    ]
    model = torch.nn.Sequential(*layers).cuda()
    compiled = torch.compile(model, mode=mode)
    x = torch.randn(4096, 512, device="cuda")
    with torch.no_grad():
        bare = compiled(x).clone()
        for _ in range(3):
            compiled(x)
        with profscope.session(evidence=True, wait=True) as prof:
            for _ in range(30):
                torch.compiler.cudagraph_mark_step_begin()
                assert torch.equal(compiled(x), bare)
    _allocation._allocator.set(allocator)  # Inductor leaves its own
    torch._dynamo.reset()
    print(mode, prof.metadata["evidence"])
    if mode == "default":
        kernels = set(prof.launches["kernel"])
        assert kernels
        assert set(prof.counts["kernel"]) == kernels
        assert set(prof.counters["kernel"]) == kernels, missing(prof)
        assert set(prof.limits()["kernel"]) == kernels


@pytest.mark.parametrize("launches", [0, 1, 6])
def test_a_fault_is_the_users_to_see(tmp_path: Path, launches: int) -> None:
    """While it is counted, sampled, and in a pass of the counters."""
    program = tmp_path / "fault.py"  # a kernel needs a file
    program.write_text(_FAULT.replace("LAUNCHES", str(launches)))
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert any(fault in ended.stdout for fault in _FAULTS), ended.stdout + ended.stderr


def test_while_other_threads_launch() -> None:
    """CUPTI stands still for ever if one thread starts or stops the sampler while another one launches."""
    ends, launched = threading.Event(), [0, 0]

    def work(at: int, most: int) -> None:
        x = torch.rand(1 << 20, device="cuda")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            while not ends.is_set():
                add_kernel[(1024,)](x, x, x, 1 << 20, BLOCK=1024)
                x.mul_(0.5)
                launched[at] += 1
                if launched[at] % most == 0:
                    stream.synchronize()

    threads = [threading.Thread(target=work, args=args) for args in ((0, 1), (1, 10))]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            with profscope.session(evidence=True):
                for _ in range(30):
                    assert torch.equal(launch_add(1 << 22), expected(1 << 22))
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert min(launched) > 100


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")
def test_each_gpu_is_asked() -> None:
    with profscope.session(evidence={"seconds": 60}) as prof:
        for _ in range(20):
            for device in (0, 1):
                with torch.cuda.device(device):
                    launch_add(1 << 22)
    assert missing(prof) == []
    assert observed(prof, ADD)["counts"] == 2
