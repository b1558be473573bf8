"""`profscope doctor --self-test`: five kernels with known answers, and a file for a bug report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import profscope
from profscope.commands import doctor
from profscope.commands.doctor_rows import FAILED, OK, Row
from profscope.commands.self_test import KERNELS, differences, document, self_test, without_names
from profscope.demo.known_answers import CASES, Case

CTAS = 4


@pytest.fixture(scope="module")
def recorded() -> tuple[Case, Any]:
    """The scattered kernel, and its profile."""
    case = next(each for each in CASES if each.name == "scattered")
    evidence = ["records", "experiments", "seconds:60"]
    with profscope.session(backend="emulator", instrument="heavy", evidence=evidence) as prof:
        for _ in range(5):
            case.launch("cpu", CTAS)
    return case, prof


def test_a_profile_with_the_known_answers_differs_in_nothing(recorded: tuple[Case, Any]) -> None:
    assert differences(*recorded, CTAS) == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"spans": {"load": 2}}, "spans: 64 of 'load' instead of 128"),
        ({"spans": {"atomic": 1}}, "spans: 0 of 'atomic' instead of 64"),
        ({"sectors": {"tl.load(x_ptr": 512}}, "counts: 4,096 sectors of `tl.load(x_ptr` instead of 2,048"),
        ({"costs": ("load x", "contiguous", 90.0)}, "% instead of 90 % or more"),
        ({"spans": {"loa": 1}}, "spans: 0 of 'loa' instead of 64"),
        ({"costs": ("load y", "off", 1.0)}, "experiments: none of 'load y', off"),
    ],
)
def test_other_answers_are_told(recorded: tuple[Case, Any], other: dict[str, Any], said: str) -> None:
    case, prof = recorded
    (told,) = differences(replace(case, **other), prof, CTAS)
    assert said in told


def test_a_span_outside_its_kernel_is_told(recorded: tuple[Case, Any]) -> None:
    case, prof = recorded
    spans = prof.df.copy()
    spans.loc[spans["scope"] == "store", "duration_cycles"] += 1 << 20

    class Moved:
        launches, counts, experiments, metadata = prof.launches, prof.counts, prof.experiments, prof.metadata
        df = spans

    assert differences(case, Moved(), CTAS) == ["spans: 64 outside their warp's kernel"]  # type: ignore[arg-type]


def test_the_file_has_no_folder_and_no_user() -> None:
    rows = {
        "cupti": Row(OK, "version 26, /home/jane doe/lib/libcupti.so (ok)", {"path": "/home/jane doe/x.so"}),
        "cache": Row(FAILED, "/scratch/jane/cache cannot be written", {"count": 3}),
        "gpu": Row(OK, "NVIDIA H200, 4 GB/s", {"who": ["jane", "janet"]}),
    }
    told = without_names({name: vars(row) for name, row in rows.items()}, "/home/jane doe", "jane")
    assert told["cupti"]["text"] == "version 26, libcupti.so (ok)"
    assert told["cupti"]["facts"] == {"path": "x.so"}
    assert told["cache"] == {"state": FAILED, "text": "cache cannot be written", "facts": {"count": 3}}
    assert told["gpu"] == {"state": OK, "text": "NVIDIA H200, 4 GB/s", "facts": {"who": ["USER", "janet"]}}
    trace = 'File "/home/jane doe/venv/k.py", line 3\nFile "/usr/lib/python3/json.py", line 4'
    assert without_names(trace, "/home/jane doe", "jane") == 'File "k.py", line 3\nFile "json.py", line 4'
    assert str(Path.home()) not in json.dumps(document({}, rows))


def test_a_difference_is_a_line_an_exit_code_and_an_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tested = {name: Row(OK, "results, spans") for name in KERNELS} | {"matmul": Row(FAILED, "it crashed")}
    monkeypatch.setattr(doctor, "self_test", lambda: tested)
    monkeypatch.setattr(doctor, "rows", lambda **_: {"gpu": Row(OK, "a GPU")})
    file = tmp_path / "found.json"
    assert doctor.main(["--self-test", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[4:] == [
        "matmul     failed  it crashed",
        f"wrote {file}, for a bug report: it has no names of users or folders",
        "To do: report what differs, with the file",
    ]
    assert json.loads(file.read_text())["kernels"]["matmul"]["state"] == FAILED
    assert doctor.main(["--self-test", str(file)]) == 1, "it replaces its own file"
    file.write_text("another's")
    assert doctor.main(["--self-test", str(file)]) == 2


def test_it_goes_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        doctor.main(["--self-test", "--json"])
    assert "--self-test goes alone" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_on_the_emulator_all_five_kernels_have_their_answers() -> None:
    found = self_test()
    assert {name: row.text for name, row in found.items()} == dict.fromkeys(
        KERNELS, "results, spans, counts, experiments"
    )
    assert all(row.facts["backend"] == "emulator" and row.facts["notes"] for row in found.values())


def test_a_kernel_that_raises_is_a_row_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profscope.commands.self_test.KERNELS", ("none",))
    found = self_test()
    assert found["none"].state == FAILED
    assert "StopIteration" in found["none"].facts["traceback"]
