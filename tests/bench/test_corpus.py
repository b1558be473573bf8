"""The corpus of kernels with one fault: each runs, and its mended twin computes the same."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import profscope
from bench.corpus.case import Case, agree
from bench.corpus.cases import CASES, FAMILIES
from bench.corpus.recording import evidence_file, prepared
from bench.kernels import surroundings

_EMULATED = 80  # the compute capability that the emulator stands for
_FAULTS_OF_LAUNCHES = {"idle-sms", "tail", "tiny-ctas", "low-occupancy", "too-many-warps", "small-mma"}
_VOCABULARY = {
    "idle-sms", "tail", "load-imbalance", "tiny-ctas", "low-occupancy", "uncoalesced-load",
    "uncoalesced-store", "unvectorized-access", "tile-reread", "l1-bound", "bank-conflict", "register-spills",
    "atomics", "exposed-latency", "few-stages", "no-tensor-cores", "small-mma", "fp64-arithmetic",
    "slow-math", "index-arithmetic", "conversions", "issue-bound", "serial-reduction", "too-many-warps",
    "late-warp", "partition-starved", "mma-not-overlapped", "masked-work", "redundant-load",
    "layout-conversion",
}  # fmt: skip


_NEWEST = max(case.round for case in CASES.values())
_QUICK = {case.name for case in list(CASES.values())[::3] if case.round == _NEWEST and case.half == "open"}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name in _QUICK else pytest.mark.exhaustive)
        for case in CASES.values()
        if case.least <= _EMULATED
    ],
)
def test_a_twin_computes_what_the_fault_computes(case: Case) -> None:
    with surroundings():
        fault = prepared(case.prepare, True)
        fault()
        found = fault.outputs()
        assert all(each.double().abs().max() > 0 for each in found)
        if case.mended is not None:
            twin = prepared(case.mended, True)
            twin()
            assert agree(found, twin.outputs())


def test_names_and_files_are_unique() -> None:
    assert len(CASES) == sum(len(family) for family in FAMILIES.values())
    assert len({evidence_file(case) for case in CASES.values()}) == len(CASES)


def test_all_causes_have_a_case() -> None:
    assert {case.causes[0] for case in CASES.values() if case.causes} == _VOCABULARY


def test_lines_at_fault_are_marked() -> None:
    for case in CASES.values():
        assert bool(case.causes) == (case.mended is not None)
        if case.causes and not _FAULTS_OF_LAUNCHES.intersection(case.causes):
            assert case.lines, case.name


@pytest.mark.parametrize("written", sorted({case.round for case in CASES.values()}))
def test_each_round_has_both_halves(written: int) -> None:
    assert {case.half for case in CASES.values() if case.round == written} == {"open", "kept apart"}


@pytest.mark.exhaustive
def test_it_is_recorded_without_a_gpu(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.corpus", "record", "--small", "--out", str(tmp_path)]
    command += ["--rows", "^(ragged|good copy)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "corpus-0.tar") as tar:
        assert sorted(tar.getnames()) == ["good-copy.pftrace.gz", "ragged-segments.pftrace.gz", "times.json"]
        tar.extractall(tmp_path, filter="data")
    kernels = profscope.load(tmp_path / "ragged-segments.pftrace.gz").df["kernel"]
    assert set(kernels) == {"ragged_scale_kernel"}
