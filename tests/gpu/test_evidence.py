"""Counters and instruction counts of bare launches on the GPU that is here."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from profscope.evidence.driver import Driver
from profscope.evidence.observer import Observer, open_witnesses
from profscope.evidence.subject import Subject
from profscope.evidence.tables import counts_table

# ruff: noqa: N803
N = 1 << 20


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + tl.load(index_ptr + offs)))


def subject_of(name: str, kernel: Any) -> Subject:
    return Subject(name, "", (), kernel.name, kernel.asm["cubin"], kernel.asm["ptx"])


def observe_all(observer: Observer, subject: Subject, launch: Any) -> int:
    stream, launches = torch.cuda.current_stream().cuda_stream, 0
    while observer.wants(subject):
        observer.observe(subject, stream, launch)
        launches += 1
        assert launches <= 16
    return launches


@pytest.fixture
def gather() -> tuple[Any, torch.Tensor, torch.Tensor]:
    x = torch.randn(N, device="cuda")
    index = torch.randperm(N, device="cuda").to(torch.int32)
    out = torch.empty_like(x)
    return (lambda: gather_kernel[(N // 1024,)](x, index, out, BLOCK=1024)), x[index.long()], out


@pytest.mark.parametrize("session", [1, 2])
def test_each_session_counts_and_changes_no_bit(session: int, gather: Any) -> None:
    launch, expected, out = gather
    subject = subject_of("gather", launch())
    observer = Observer(Driver(), open_witnesses(), math.inf)
    out.zero_()
    assert observe_all(observer, subject, launch) <= 16
    assert torch.equal(out, expected)
    observer.close()
    assert observer.notes() == []
    (counted,), (values,) = observer.counts(), observer.counters()
    table, _ = counts_table([counted], lambda kernel, key: 0)
    loads = table[table["sectors"] > table["sectors_ideal"]]
    assert loads["sectors_ideal"].sum() == N // 8
    assert loads["sectors"].sum() > 0.9 * N
    assert counted.counts["executed"].sum() == values.values["sm__inst_executed.sum"]


def test_kernels_of_another_thread_cost_evidence_alone(gather: Any) -> None:
    launch, expected, out = gather
    subject = subject_of("gather", launch())
    ended = threading.Event()

    def other() -> None:
        a = torch.randn(512, 512, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            while not ended.wait(1e-4):
                a @ a

    thread = threading.Thread(target=other)
    thread.start()
    try:
        observer = Observer(Driver(), open_witnesses(), math.inf)
        observe_all(observer, subject, launch)
    finally:
        ended.set()
        thread.join()
    observer.close()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)
    executed = {int(each.counts["executed"].sum()) for each in observer.counts()}
    assert {int(each.values["sm__inst_executed.sum"]) for each in observer.counters()} <= executed
