"""The corpus: each kernel runs, its mended twin computes the same, and its recording is of this kernel."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

import profscope
from bench.corpus.case import Case, Launch, agree
from bench.corpus.cases import CASES
from bench.corpus.recording import RECORDINGS, evidence_file, prepared
from bench.kernels import surroundings
from profscope.instrument_passes.kept_text import unpacked

_EMULATED = 80  # the compute capability that the emulator stands for
_CAUSES = {
    "idle-sms", "tail", "load-imbalance", "tiny-ctas", "low-occupancy", "too-many-warps", "masked-work",
    "no-tensor-cores", "small-mma", "partition-starved", "mma-not-overlapped", "late-warp",
    "serial-reduction", "layout-conversion", "uncoalesced-load", "uncoalesced-store", "unvectorized-access",
    "bank-conflict", "register-spills", "atomics", "tile-reread", "exposed-latency", "few-stages",
    "redundant-load", "fp64-arithmetic", "index-arithmetic", "slow-math", "conversions",
}  # fmt: skip
_WITHOUT_A_LINE = {"idle-sms", "tail", "tiny-ctas", "low-occupancy", "too-many-warps", "small-mma"}
_SLOW = {  # modules whose kernels the emulator runs longest
    "attention", "conversions", "exposed_latency", "fp64_arithmetic", "good_convolution", "idle_sms",
    "layout_conversion", "low_occupancy", "masked_work", "matmul", "mma_not_overlapped", "no_tensor_cores",
    "partition_starved", "redundant_load", "register_spills", "slow_math", "tile_reread", "too_many_warps",
}  # fmt: skip
_TYPES = {torch.float16: "*fp16", int: "i32"}
_OF_A_MACHINE = re.compile(r"/(?:home|opt|root|tmp|work)/[\w.-]+/")
_OPTIONS = ("num_warps", "num_stages")


def _parameter(case: Case) -> Any:
    is_slow = case.prepare.__module__.rpartition(".")[2] in _SLOW
    return pytest.param(case, id=case.name, marks=pytest.mark.exhaustive if is_slow else ())


@cache
def _rows() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads((RECORDINGS / "times.json").read_text())["rows"]}


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES.values() if case.least <= _EMULATED])
def test_a_twin_computes_what_the_fault_computes(case: Case) -> None:
    with surroundings():
        fault = prepared(case.prepare, small=True)
        fault()
        found = fault.outputs()
        assert all(each.double().abs().max() > 0 for each in found)
        if case.mended is not None:
            twin = prepared(case.mended, small=True)
            twin()
            assert agree(found, twin.outputs())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.least > _EMULATED])
def test_what_the_emulator_does_not_run_compiles_for_its_gpu(name: str) -> None:
    case = CASES[name]
    assert case.mended is not None
    for prepare in (case.prepare, case.mended):
        assert ".target sm_90a" in _compiled(prepared(prepare, small=True), case.least).asm["ptx"]


def _compiled(launch: Launch, capability: int) -> Any:
    options = {name: launch.options[name] for name in _OPTIONS if name in launch.options}
    constexprs = {name: value for name, value in launch.options.items() if name not in options}
    types = [_TYPES[getattr(each, "dtype", type(each))] for each in launch.args]
    signature = dict(zip(launch.kernel.arg_names, types, strict=False)) | dict.fromkeys(
        constexprs, "constexpr"
    )
    source = ASTSource(launch.kernel, signature, constexprs)
    return compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def test_each_cause_has_a_case() -> None:
    assert {case.causes[0] for case in CASES.values() if case.causes} == _CAUSES
    assert sum(not case.causes for case in CASES.values()) == 16


def test_lines_at_fault_are_marked() -> None:
    for case in CASES.values():
        assert bool(case.causes) == (case.mended is not None)
        assert case.lines or not case.causes or _WITHOUT_A_LINE.intersection(case.causes), case.name


def test_each_case_has_a_recording() -> None:
    files = {evidence_file(case) for case in CASES.values()}
    assert files == {path.name for path in RECORDINGS.glob("*.pftrace.gz")}
    assert len(files) == len(CASES)
    assert {row["file"] for row in _rows().values()} == files
    for name, case in CASES.items():
        row = _rows()[name]
        assert (tuple(row["causes"]), tuple(row["lines"])) == (case.causes, case.lines), name
        assert ("gain" in row) == bool(case.causes)


def test_recordings_are_of_the_kernels_in_these_files() -> None:
    root = Path(__file__).parents[2]
    for name, case in CASES.items():
        metadata = profscope.load(RECORDINGS / _rows()[name]["file"]).metadata
        kernel = prepared(case.prepare, small=True).kernel.fn
        (source,) = (each for each in metadata["sources"] if each["name"] == kernel.__name__)
        lines, first = inspect.getsourcelines(kernel)
        assert Path(source["file"]) == Path(inspect.getfile(kernel)).relative_to(root), name
        assert (source["line"], _unmarked(source["text"])) == (first, _unmarked("".join(lines))), name
        code = [unpacked(each[form]) for each in metadata["code"] for form in ("ttgir", "ptx")]
        assert _OF_A_MACHINE.findall("\n".join([json.dumps(metadata), *code])) == [], name


def _unmarked(text: str) -> str:
    return text.replace("  # fault", "")


@pytest.mark.exhaustive
def test_it_is_recorded_without_a_gpu(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.corpus", "record", "--small", "--out", str(tmp_path)]
    command += ["--rows", "^(ragged|good copy)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "good-copy.pftrace.gz", "ragged-segments.pftrace.gz", "times.json",
    }  # fmt: skip
    rows = json.loads((tmp_path / "times.json").read_text())["rows"]
    assert [(row["name"], row.get("same_results")) for row in rows] == [
        ("ragged segments", True), ("good copy", None),
    ]  # fmt: skip
    kernels = profscope.load(tmp_path / "ragged-segments.pftrace.gz").df["kernel"]
    assert set(kernels) == {"ragged_scale_kernel"}
