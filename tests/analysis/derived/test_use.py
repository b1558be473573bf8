"""How busy resources are, by the own counts of kernels that an H200 ran without counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.diagnose import WITHOUT_COUNTERS
from profscope.instrument_passes.ablation.groups import GROUPS
from profscope.profiles import load
from profscope.schema import Tables, measured_frame
from tests.support.kernel_of import kernel_in


def recorded(name: str) -> Tables:
    return load(WITHOUT_COUNTERS / f"{name}.pftrace.gz").tables


def saving(tables: Tables, pct: float) -> Tables:
    """A launch without global memory takes so much less."""
    rows = tables.experiments
    is_memory = rows["op"] == GROUPS["memory"]
    assert is_memory.any()
    return replace(tables, experiments=rows.assign(saved_pct=rows["saved_pct"].mask(is_memory, pct)))


def test_memory_is_no_busier_than_twice_what_a_launch_without_it_saves() -> None:
    tables = recorded("good-layer-norm")
    used = kernel_in(tables).used
    assert min(used["dram"], used["l2"]) > 0.5
    for pct, most in ((10.0, 0.2), (0.4, 0.008), (-3.0, 0.0)):
        capped = kernel_in(saving(tables, pct)).used
        assert (capped["dram"], capped["l2"]) == (pytest.approx(most), pytest.approx(most))
        assert capped["issue"] == used["issue"], "it says nothing of instructions"


def test_without_a_valid_experiment_nothing_is_capped() -> None:
    tables = recorded("good-matmul-bfloat16")
    unknown = replace(tables, experiments=tables.experiments.assign(valid=False))
    assert kernel_in(unknown).used["l2"] > 2 * kernel_in(tables).used["l2"]


def test_l2_has_no_use_without_measured_peaks() -> None:
    tables = recorded("good-layer-norm")
    device = {**tables.metadata["device"], "peaks": {}}
    unmeasured = kernel_in(replace(tables, metadata={**tables.metadata, "device": device})).used
    assert set(kernel_in(tables).used) - set(unmeasured) == {"l2"}
    assert unmeasured["dram"] > 0.5, "the data sheet has its peak"


def test_dram_sends_no_more_than_the_tensors_have() -> None:
    """A product's loads ask for each byte many times, and caches have most of them."""
    tables = recorded("matmul-of-1-stage")
    kernel = kernel_in(tables)
    asked = 32 * kernel.table.sectors("LDG", "LDGSTS") / kernel.table.launches
    assert kernel.counters["dram_read"] == sum(kernel.tensor_bytes.values()) < asked / 10
    evidence = {**tables.metadata["evidence"], "tensors": []}
    unknown = kernel_in(replace(tables, metadata={**tables.metadata, "evidence": evidence}))
    assert "dram" in kernel.used
    assert "dram" not in unknown.used, "all that loads ask for is no lower bound"


def test_nothing_is_used_of_what_was_not_counted() -> None:
    kernel = kernel_in(replace(recorded("good-layer-norm"), counts=measured_frame("counts")))
    assert (dict(kernel.used), dict(kernel.counters)) == ({}, {})
    assert not {"use", "counts"} & kernel.known
