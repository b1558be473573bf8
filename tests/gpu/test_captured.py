"""On a GPU: kernels that differ in what they capture, and what is known of a session that has ended."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

import profscope
from tests.kernels.captured import applied, heavy, light
from tests.support.kernel_files import line_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
N, BLOCK = 1 << 22, 1024


def test_each_has_its_own_evidence_and_metadata_stay(tmp_path: Path) -> None:
    x = torch.randn(N, device="cuda")
    out = torch.empty_like(x)
    kernels = [applied(op) for op in (light, heavy)]

    def launch() -> None:
        for kernel in kernels:
            kernel[(N // BLOCK,)](out, x, B=BLOCK)

    with profscope.session(backend="gpu", ctas=64, hardware=True) as prof:
        for _ in range(40):
            launch()
    ended = copy.deepcopy(prof.metadata)
    exp = line_of(heavy, "tl.exp")
    assert sorted(set(prof.launches["variant"])) == [0, 1]
    for table in (prof.samples, prof.counts):
        assert sorted(set(table["variant"])) == [0, 1]
        assert set(table.loc[table["line"] == exp, "variant"]) == {1}
    times = prof.counters[prof.counters["counter"] == "time"].set_index("variant")["value"]
    assert times[1] > 2 * times[0]
    variants = ended["variants"]["apply_kernel"]
    assert [each["captured"] for each in variants] == [
        {"op": f"tests.kernels.captured.{name}"} for name in ("light", "heavy")
    ]
    assert {each["builds"][-1]["rounds_as_bare"] for each in variants} == {True}
    launch()
    with profscope.session(backend="gpu", hardware=True):
        launch()
    for name in ("trace.json", "trace.pftrace.gz"):
        prof.save(tmp_path / name)
        assert profscope.load(tmp_path / name).metadata == prof.metadata == ended
