"""`profscope doctor`: what it says where things are missing, refused or crash."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

import profscope
from profscope.commands import doctor as doctor_module
from profscope.commands.doctor import SECTIONS, VARIABLES, to_do
from profscope.commands.doctor_checks import tried
from profscope.commands.doctor_rows import FAILED, MISSING, OK, REFUSED, Row, answers
from profscope.evidence.counters import Counters
from profscope.evidence.counts import Counts
from profscope.evidence.cupti import SamplerError
from profscope.evidence.samples import Samples
from tests.support.fake_cupti import FakeCupti
from tests.support.fake_driver import NEEDS_CC, fake_driver
from tests.support.fake_sampler import FakeProbe

# As in a Python that has neither: no finder finds them.
WITHOUT = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Without(each) for each in sys.meta_path]
"""
WITNESSES = ("counts", "samples", "counters")
GPU = Row(OK, "", {"driver": "580.1", "gpus": [{"name": "NVIDIA H200", "capability": "9.0"}]})


def doctor(*flags: str, **environment: str) -> str:
    """What it prints in a process of its own."""
    command = [sys.executable, "-m", "profscope", "doctor", *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def without_triton(folder: Path) -> dict[str, str]:
    (folder / "sitecustomize.py").write_text(WITHOUT)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_without_a_gpu_it_says_what_there_is_and_what_replaces_the_rest() -> None:
    said = json.loads(doctor("--json", PROFSCOPE_EMULATOR="1"))
    found: dict[str, Any] = said["rows"]
    assert list(found) == [name for names in SECTIONS.values() for name in names]
    states = {name: row["state"] for name, row in found.items()}
    assert {name for name, state in states.items() if state != OK} == {
        "gpu", "peaks", "permission", "records", *WITNESSES,
    }  # fmt: skip
    assert found["profscope"]["facts"]["version"] == profscope.__version__
    assert found["triton"]["facts"] == {"version": triton.__version__, "supported": True}
    assert found["torch"]["facts"]["version"] == torch.__version__
    for tool in ("ptxas", "nvdisasm", "cuobjdump", "cupti"):
        assert Path(found[tool]["facts"]["path"]).exists()
    assert found["counters"]["text"] == "no GPU, and the emulator has no hardware to ask"
    assert said["environment"]["PROFSCOPE_EMULATOR"] == "1"
    assert said["to_do"].startswith("sessions run on the emulator")


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_measure_says_that_it_measured_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert doctor_module.main(["--measure"]) == 1
    said = capsys.readouterr()
    assert said.err == (
        "profscope doctor: --measure measured nothing: no GPU, and the emulator has no hardware to ask\n"
    )
    assert f"{tmp_path}/profscope (peaks, not there yet)" in said.out


@NEEDS_CC
def test_gpus_are_named_without_torch(tmp_path: Path) -> None:
    found = json.loads(doctor("--json", **without_triton(tmp_path), **fake_driver(tmp_path)))["rows"]
    assert found["gpu"]["text"] == ("2 x NVIDIA Z1, compute capability 12.0, 170 SMs, 24.0 GiB; driver 580.1")
    assert found["gpu"]["facts"]["gpus"][1] == {
        "name": "NVIDIA Z1", "capability": "12.0", "sm_count": 170, "memory_bytes": 24 << 30,
        "l2_bytes": 96 << 20,
    }  # fmt: skip
    assert found["counts"]["text"] == "needs triton, torch, cupti"


@NEEDS_CC
@pytest.mark.parametrize(
    ("init", "state", "text"),
    [
        ("return 100;", MISSING, "cuInit says no CUDA-capable device is detected (error 100)"),
        ("abort();", FAILED, "the check crashed (signal 6, SIGABRT)"),
        ("exit(3);", FAILED, "the check ended with status 3"),
    ],
)
def test_a_driver_that_fails_is_a_row(tmp_path: Path, init: str, state: str, text: str) -> None:
    said = json.loads(doctor("--json", **without_triton(tmp_path), **fake_driver(tmp_path, init)))
    assert said["rows"]["gpu"]["state"] == state
    assert said["rows"]["gpu"]["text"].endswith(text)
    assert said["rows"]["cache"]["state"] == OK


def test_a_check_that_ends_its_process_leaves_the_next_ones_theirs() -> None:
    program = (
        "import os\n"
        "from profscope.experiments.worker_processes import serve\n"
        "def answer(name):\n"
        "    name == 'bad' and os.abort()\n"
        "    return {'state': 'ok', 'text': f'{name} {os.getpid()}', 'facts': {}}\n"
        "serve(answer)\n"
    )
    found = answers(["a", "bad", "b", "c"], f"exec({program!r})")
    assert [row.state for row in found.values()] == [OK, FAILED, OK, OK]
    a, b, c = (found[name].text.split()[1] for name in "abc")
    assert a != b == c


@pytest.mark.parametrize("name", WITNESSES)
@pytest.mark.parametrize(("result", "state"), [(0, OK), (35, REFUSED), (26, REFUSED), (27, FAILED)])
def test_a_witness_is_opened_and_given_back(
    name: str, result: int, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profscope.evidence.counts.CONFIGURED", {})
    monkeypatch.setattr("profscope.evidence.counts.INITIALISED", set())
    cupti, probe = FakeCupti(), FakeProbe()
    if result:
        cupti.fails = dict.fromkeys(("cuptiRangeProfilerEnable", "cuptiSassMetricsEnable"), result)

    @contextlib.contextmanager
    def sampler() -> Iterator[FakeProbe]:
        if result:
            raise SamplerError("cuptiPCSamplingEnable failed", result)
        with probe.opened():
            yield probe

    witness = {
        "counts": lambda: Counts(cupti, 1, 0),  # type: ignore[arg-type]
        "samples": lambda: Samples(lambda subject: "", sampler),
        "counters": lambda: Counters(cupti, 1, 0),  # type: ignore[arg-type]
    }[name]()
    launched: list[int] = []
    row = tried(witness, lambda: launched.append(1))
    assert (row.state, row.facts["result"]) == (state, result)
    assert launched == [1] * (not result)
    assert not witness.holds


def found_with(**others: Row) -> dict[str, Row]:
    """Rows of an H200 where nothing is missing, but for these."""
    rows = {name: Row(OK, "") for names in SECTIONS.values() for name in names}
    return rows | {"gpu": GPU, "torch": Row(OK, "", {"cuda": "13.0"})} | others


@pytest.mark.parametrize(
    ("others", "environ", "said"),
    [
        ({}, {}, "nothing is missing: `profscope run script.py` records with all evidence"),
        ({}, {"PROFSCOPE_EMULATOR": "1"}, "unset PROFSCOPE_EMULATOR"),
        ({"triton": Row(FAILED, "3.5.0, and profscope supports 3.6")}, {}, "install another triton: 3.5.0"),
        ({"torch": Row(OK, "", {"cuda": None})}, {}, "install a torch that is built for CUDA"),
        ({"samples": Row(REFUSED, "says", {"result": 35})}, {}, "NVreg_RestrictProfilingToAdminUsers=0"),
        ({"samples": Row(REFUSED, "says", {"result": 35})}, {}, 'evidence=["records", "experiments"]'),
        ({"counts": Row(REFUSED, "this is one of several ranks")}, {}, "no counts (this is one of several"),
        ({"gpu": Row(FAILED, "the check crashed")}, {}, "findings rest on spans alone: the check crashed"),
        (
            {"gpu": Row(OK, "", {"gpus": [{"capability": "12.0"}]})},
            {},
            "profscope was never run on compute capability 12.0",
        ),
    ],
)
def test_what_to_do(others: dict[str, Row], environ: dict[str, str], said: str) -> None:
    assert said in to_do(found_with(**others), environ)


def test_ranks_are_told_before_cupti_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answered(names: tuple[str, ...], _: str) -> dict[str, Row]:
        asked.extend(names)
        return {name: found_with()[name] for name in names}

    monkeypatch.setattr(doctor_module, "answers", answered)
    found = doctor_module.rows({"WORLD_SIZE": "8"})
    assert not set(asked) & set(WITNESSES)
    assert found["counters"] == Row(
        REFUSED, "this is one of several ranks, whose kernels wait for one another"
    )
    doctor_module.rows({"WORLD_SIZE": "1"})
    assert set(asked) > set(WITNESSES)


def test_all_variables_that_are_read_are_listed() -> None:
    texts = [path.read_text() for path in Path(profscope.__file__).parent.rglob("*.py")]
    read = {name for text in texts for name in re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', text)} - {
        "TERM",
        "PYTHONPATH",
    }  # of the progress line, and handed on
    assert "PROFSCOPE_EMULATOR" in read
    assert read <= VARIABLES.keys()


def test_the_page_names_all_rows() -> None:
    page = (Path(__file__).parents[2] / "docs/hardware.md").read_text()
    section = page.partition("## What this machine allows")[2].partition("\n## ")[0]
    table = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = [name for cell in table for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(name for names in SECTIONS.values() for name in names)
