"""Instruction counts, PC samples and counters, as CUPTI is told to take them."""

from __future__ import annotations

import numpy as np
import pytest

from profscope.evidence import counts as counts_module
from profscope.evidence.counters import Counters, select
from profscope.evidence.counts import Counts
from profscope.evidence.cupti import Library, SamplerError, library_path
from profscope.evidence.metrics import COUNTERS, MOST_PASSES
from profscope.evidence.samples import Samples
from profscope.evidence.subject import Subject
from tests.support.fake_cupti import CRC, FakeCupti
from tests.support.fake_sampler import STRANGER, FakeProbe

SUBJECT = Subject("kernel", "", (), "kernel", b"cubin", "")
TIME = "gpu__time_duration.sum"


@pytest.fixture(autouse=True)
def _no_device_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts_module, "CONFIGURED", {})
    monkeypatch.setattr(counts_module, "INITIALISED", set())


def counted(cupti: FakeCupti) -> Counts:
    witness = Counts(cupti, 1, 0)  # type: ignore[arg-type]
    witness.open()
    return witness


def counters(cupti: FakeCupti, *added: str) -> Counters:
    witness = Counters(cupti, 1, 0, added)  # type: ignore[arg-type]
    witness.open()
    return witness


def test_records_of_one_instruction_are_one_row() -> None:
    """CUPTI has a record for each metric of an instruction."""
    cupti = FakeCupti(
        [
            (CRC, "kernel", 16, "executed", 5),
            (CRC, "kernel", 0, "executed", 4),
            (CRC, "kernel", 16, "sectors", 40),
            (CRC, "kernel", 16, "sectors_ideal", 20),
            (CRC, "callee", 0, "executed", 9),
            (CRC + 1, "kernel", 0, "executed", 1000),
        ]
    )
    witness = counted(cupti)
    assert witness.wants(SUBJECT)
    witness.before(SUBJECT)
    witness.after(SUBJECT)
    (result,) = witness.results
    assert result.pcs.tolist() == [0, 16]
    assert result.counts["executed"].tolist() == [4, 5]
    assert result.counts["sectors"].tolist() == [0, 40]
    assert result.counts["sectors_ideal"].tolist() == [0, 20]
    assert result.in_callees == 9
    assert not witness.wants(SUBJECT)


def test_the_context_is_initialised_before_the_first_count_and_the_device_configured_both_once() -> None:
    cupti = FakeCupti([(CRC, "kernel", 0, "executed", 1)])
    witness = counted(cupti)
    witness.before(SUBJECT)
    assert cupti.said.index("ProfilerGetCounterAvailability") < cupti.said.index("SassMetricsEnable")
    counted(cupti)
    assert cupti.said.count("SassMetricsSetConfig") == 1
    assert cupti.said.count("ProfilerGetCounterAvailability") == 2  # its size, and itself
    Counts(cupti, 2, 0).open()  # type: ignore[arg-type]  # another context
    assert cupti.said.count("ProfilerGetCounterAvailability") == 4


def test_a_kernel_that_was_not_counted_is_an_error_and_the_code_is_restored() -> None:
    cupti = FakeCupti()
    witness = counted(cupti)
    witness.before(SUBJECT)
    with pytest.raises(SamplerError, match="has not counted kernel"):
        witness.after(SUBJECT)
    assert cupti.said[-1] == "SassMetricsDisable"


@pytest.mark.parametrize(("order", "enabled"), [("aaabbb", 1), ("ababab", 6), ("aabbba", 3)])
def test_each_launch_is_one_pass_and_the_last_one_gives_the_values(order: str, enabled: int) -> None:
    """Subjects may interrupt each other, but then the profiler has to be told its pass again."""
    cupti = FakeCupti(passes=3, values={TIME: 128.0})
    witness, subjects = counters(cupti), {"a": SUBJECT, "b": Subject("other", "", (), "other", b"", "")}
    passes = {"a": 0, "b": 0}
    for name in order:
        assert witness.wants(subjects[name])
        witness.before(subjects[name])
        witness.after(subjects[name])
        assert cupti.started_passes[-1] == passes[name]
        passes[name] += 1
        other = subjects["b" if name == "a" else "a"]
        assert witness.waits(other, [subjects[name]]) == (passes[name] < 3)
        assert not witness.waits(subjects[name], [other])
    assert cupti.said.count("RangeProfilerEnable") == enabled
    assert [each.launches for each in witness.results] == [3, 3]
    assert witness.results[0].values[TIME] == 128.0
    assert not witness.wants(SUBJECT)
    witness.close()
    assert cupti.said[-2:] == ["RangeProfilerDisable", "ProfilerHostDeinitialize"]


def test_a_launch_that_failed_is_no_pass() -> None:
    cupti = FakeCupti(passes=1)
    witness = counters(cupti)
    witness.before(SUBJECT)
    witness.abandon()
    witness.before(SUBJECT)
    witness.after(SUBJECT)
    assert cupti.started_passes == [0, 0]
    assert witness.results[0].launches == 1


def test_metrics_that_a_chip_lacks_are_left_out_but_not_those_a_user_adds() -> None:
    cupti = FakeCupti(
        lacks=["dram__bytes_read.sum", "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"]
    )
    selection = counters(cupti).selection
    assert cupti.said.count("ProfilerHostDeinitialize") == cupti.said.count("ProfilerHostInitialize") - 1
    assert selection.left_out == ("tma_load",)
    assert "dram__bytes_op_read.sum" in selection.metrics
    with pytest.raises(SamplerError, match=r"no metric 'dram__bytes_read\.sum_'"):
        _ = counters(FakeCupti(lacks=["dram__bytes_read.sum_"]), "dram__bytes_read.sum_").selection


@pytest.mark.parametrize(
    ("chip", "passes"), [("TU102", 9), ("GA100", 9), ("AD102", 5), ("GH100", 4), ("GB100", 4), ("GB202", 4)]
)
def test_the_counters_of_a_chip_fit_into_the_passes(chip: str, passes: int) -> None:
    """By the CUPTI that Triton brings, which needs no GPU for that."""
    selection = select(Library(library_path("")), chip.encode())
    assert 0 < selection.passes <= passes <= MOST_PASSES
    tma = {"tma_load", "tma_store"} if chip in ("TU102", "GA100", "AD102") else set()
    assert set(selection.left_out) == tma


def test_what_a_user_adds_costs_other_counters_where_passes_run_out() -> None:
    added = ["lts__t_sectors_op_red.sum", "lts__t_sectors_op_atom.sum"]
    selection = select(Library(library_path("")), b"GH100", added, most=5)
    assert selection.passes <= 5
    assert set(added) <= set(selection.metrics)
    assert COUNTERS[0].metric in selection.metrics
    assert selection.left_out[0] == COUNTERS[-1].name


def samples(probe: FakeProbe) -> Samples:
    witness = Samples(lambda subject: "", probe.opened)
    assert witness.prepare(SUBJECT) == ""
    return witness


def sampled(witness: Samples) -> None:
    witness.before(SUBJECT)
    witness.after(SUBJECT)


def test_samples_are_those_of_the_kernel_alone() -> None:
    witness = samples(FakeProbe((SUBJECT.function, "callee")))
    sampled(witness)
    (one,) = witness.results
    assert (one.subject.kernel, one.taken, one.in_callees, one.dropped) == (SUBJECT.kernel, 4_000, 4_000, 0)
    assert one.rows["samples"].sum() == one.taken


def test_samples_of_another_binary_of_its_name_are_told_apart() -> None:
    probe = FakeProbe((SUBJECT.function, SUBJECT.function))
    probe.checksums = [CRC, STRANGER]
    witness = samples(probe)
    sampled(witness)
    assert [np.unique(each.rows["cubin_crc"]).tolist() for each in witness.results] == [[CRC]]
    for probe.checksums, probe.unknown in (([0, STRANGER], 5), ([0, STRANGER], 0)):  # type: ignore[misc]
        sampled(witness)
    assert len(witness.results) == 1
    assert not witness.wants(SUBJECT)
    assert witness.notes() == [
        "samples of 1 launch are left out: CUPTI has not seen the binary that they are of",
        "samples of 1 launch are left out: there are none; the kernel is too short",
    ]


def test_the_period_adapts_and_few_samples_are_noted() -> None:
    probe = FakeProbe((SUBJECT.function,), per_launch=40)
    witness = samples(probe)
    sampled(witness)
    assert witness.notes() == [f"{SUBJECT.kernel}: fewer than 1,000 samples"]
    sampled(witness)
    sampled(witness)
    assert probe.periods == [12, 5, 5]
    assert witness.notes() == []


def test_a_kernel_that_needs_another_period_waits_for_those_that_do_not() -> None:
    probe = FakeProbe((SUBJECT.function,), per_launch=40)
    witness, other = samples(probe), Subject("other", "", (), SUBJECT.function, SUBJECT.cubin, "")
    sampled(witness)
    assert witness.waits(SUBJECT, [other])
    assert not witness.waits(other, [SUBJECT])
    assert not witness.waits(SUBJECT, [])


def test_a_released_sampler_opens_again_and_loads_again() -> None:
    probe, loaded = FakeProbe((SUBJECT.function,)), []

    def reload(subject: Subject) -> str:
        loaded.append(subject)
        return ""

    witness = Samples(reload, probe.opened)
    witness.open()
    for _ in range(2):
        witness.prepare(SUBJECT)
    witness.release()
    assert not witness.holds
    witness.prepare(SUBJECT)
    assert probe.said == ["open", "close", "open"]
    assert len(loaded) == 2
