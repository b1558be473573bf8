"""A user's own pass: from an installed package, from a file, and its column in the table of spans."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import profscope
from profscope.commands.opt import main
from profscope.errors import OptionError
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import PipelineError, parse_pipeline, run_pipeline
from profscope.schema import Tables
from tests.kernels.control_flow import branch_in_loop_kernel, nested_loops_kernel
from tests.support.validation import validate

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "own_pass"
NESTED = ROOT / "tests" / "passes" / "inputs" / "nested_loops.ttgir"
TIMES_PASS = '''
from dataclasses import dataclass
from typing import ClassVar
from profscope.instrument_passes.dialect import SpanIds, begin, end, payload
from profscope.instrument_passes.passes import Pass, register

@register
@dataclass(frozen=True)
class FlipTimes(Pass):
    """A span in each side of every scf.if, with an i32 and an f32 made from the loop's variable."""
    name: ClassVar[str] = "flip-times"

    def apply(self, module, context):
        ids = SpanIds.of(module)
        for op in list(module.walk()):
            if op.name != "scf.if":
                continue
            for side, region in enumerate(op.regions):
                block, step = region.entry, op.parent.args[0].name
                span = ids.new()
                half = module.fresh("half")
                block.insert(0, begin(span, "op", f"side {side}", "scf.if"), op.loc_text)
                block.append_before_terminator(f"""
                    {half} = arith.sitofp {step} : i32 to f32
                    {half}_constant = arith.constant 5.000000e-01 : f32
                    {half}_value = arith.mulf {half}, {half}_constant : f32
                """)
                block.append_before_terminator(payload(span, "step", step, "i32"))
                block.append_before_terminator(payload(span, "half", f"{half}_value", "f32"))
                block.append_before_terminator(end(span))
'''


def _installed(folder: Path) -> dict[str, str]:
    """Install the example as pip would, without a build; the environment that finds it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = folder / f"own_pass-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1\n")
    entries = project["entry-points"]["profscope.passes"]
    (info / "entry_points.txt").write_text(
        "[profscope.passes]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
    )
    (folder / "own_pass.py").write_text((EXAMPLE / "own_pass.py").read_text())
    path = os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def _opt(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profscope", "opt", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_installed_package(tmp_path: Path) -> None:
    environment = _installed(tmp_path)
    listed = _opt(environment, "--list")
    assert "load-steps" in listed.stdout, listed.stderr
    assert "    column=step" in listed.stdout
    done = _opt(environment, str(NESTED), "-p", "load-steps{column=at}")
    assert '"profscope.payload"(%col) {id = 0 : i32, name = "at"} : (i32) -> ()' in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (
            "import no_such_module",
            "cannot load pass 'load-steps' of package own-pass: No module named 'no_such_module'",
        ),
        ("", "the entry point 'load-steps' registers no pass of that name"),
    ],
)
def test_package_without_the_pass(tmp_path: Path, module: str, said: str) -> None:
    environment = _installed(tmp_path)
    (tmp_path / "own_pass.py").write_text(module)
    done = _opt(environment, str(NESTED), "-p", "load-steps")
    assert (done.returncode, done.stderr) == (2, f"profscope opt: {said}\n")


def test_example_is_short_and_documented() -> None:
    text = (EXAMPLE / "own_pass.py").read_text()
    assert len([line for line in text.splitlines() if line.strip()]) <= 20
    assert text in (ROOT / "docs" / "passes.md").read_text()


def test_column_in_the_table(tmp_path: Path) -> None:
    x, out = torch.randn(3, 256), torch.zeros(4, 128)
    own = f"{EXAMPLE / 'own_pass.py'}:load-steps{{column=at}}"
    with profscope.session(backend="emulator", instrument=["kernel-span", "loop-spans", own]) as prof:
        nested_loops_kernel[(1,)](x, out, 3, 256, BLOCK=128)
    df = prof.df
    assert df["at"].dtype == "Int32"
    loads = df[df["scope"] == "load in loop"]
    assert (loads["at"] == loads["iteration"] * 128).all()
    assert len(loads) == 4 * 3 * 2
    assert df["at"].isna().sum() == len(df) - len(loads)
    assert validate(Tables(df, prof.launches, prof.metadata)) == []
    prof.save(tmp_path / "trace.json")
    pd.testing.assert_frame_equal(profscope.load(tmp_path / "trace.json").df, df)


def test_integers_and_floats_in_branches(tmp_path: Path) -> None:
    file = tmp_path / "flips.py"
    file.write_text(TIMES_PASS)
    x, out = torch.randn(9, 128), torch.zeros(2, 128)
    with profscope.session(backend="emulator", instrument=["kernel-span", f"{file}:flip-times"]) as prof:
        branch_in_loop_kernel[(1,)](x, out, 9, BLOCK=128)
    df = prof.df[prof.df["warp"] == 0]
    assert prof.metadata["notes"] == []
    for scope, steps in (("side 0", [0, 2, 4, 6, 7, 8, 8]), ("side 1", [1, 3, 5, 7])):
        rows = df[df["scope"] == scope]
        assert rows["step"].tolist() == steps
        assert rows["half"].tolist() == [step / 2 for step in steps]
    assert df["half"].dtype == np.float64
    assert df.loc[df["kind"] == "kernel", ["step", "half"]].isna().all(axis=None)
    prof.save(tmp_path / "trace.json")
    pd.testing.assert_frame_equal(profscope.load(tmp_path / "trace.json").df, prof.df)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ("B E P", "a payload must stand between its span's begin and end, in the block of the begin"),
        ("P B E", "a payload must stand between its span's begin and end"),
        ("B I E", "in the block of the begin"),
        ("B L E", "a payload must be an i32 or f32, not i64"),
        ("B K E", "'warp' cannot be the name of a column"),
        ("B S E", "'a b' cannot be the name of a column"),
    ],
)
def test_payloads_that_cannot_be(records: str, message: str, tmp_path: Path) -> None:
    lines = {
        "B": '"profscope.begin"() {id = 0 : i32, kind = "op", name = "s", op = "o"} : () -> ()',
        "E": '"profscope.end"() {id = 0 : i32} : () -> ()',
        "P": '"profscope.payload"(%n) {id = 0 : i32, name = "v"} : (i32) -> ()',
        "I": 'scf.if %c {\n"profscope.payload"(%n) {id = 0 : i32, name = "v"} : (i32) -> ()\n}',
        "L": '"profscope.payload"(%long) {id = 0 : i32, name = "v"} : (i64) -> ()',
        "K": '"profscope.payload"(%n) {id = 0 : i32, name = "warp"} : (i32) -> ()',
        "S": '"profscope.payload"(%n) {id = 0 : i32, name = "a b"} : (i32) -> ()',
    }
    body = "\n".join(lines[record] for record in records.split())
    module = parse(
        'module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {\n'
        f"tt.func public @k(%n: i32, %long: i64, %c: i1) {{\n{body}\ntt.return\n}}\n}}\n"
    )
    with pytest.raises(PassError, match=message):
        run_pipeline(module, parse_pipeline("lower-records"), PassContext())


@pytest.mark.parametrize("name", ["warp", "parent", "stage", "for_iteration"])
def test_a_payload_takes_no_name_of_a_column(name: str) -> None:
    module = parse(NESTED.read_text(), str(NESTED))
    run_pipeline(
        module, parse_pipeline(f"{EXAMPLE / 'own_pass.py'}:load-steps{{column={name}}}"), PassContext()
    )
    with pytest.raises(PassError, match=f"'{name}' cannot be the name of a column"):
        run_pipeline(module, parse_pipeline("lower-records"), PassContext())


def test_mistakes_in_a_pass_keep_their_traceback(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    wrong = TIMES_PASS.replace("FlipTimes", "Wrong").replace("flip-times", "wrong")
    file.write_text(wrong.replace("op.parent.args[0]", "op.no"))
    module = parse((ROOT / "tests" / "passes" / "inputs" / "branch_in_loop.ttgir").read_text(), "k.ttgir")
    with pytest.raises(AttributeError, match="no") as raised:
        run_pipeline(module, parse_pipeline(f"{file}:wrong"), PassContext())
    assert raised.value.__notes__ == ["in pass wrong on k.ttgir"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("missing.py", None, "cannot load passes from .*missing.py: .*No such file"),
        ("broken.py", "def", "cannot load passes from .*broken.py: invalid syntax"),
        ("empty.py", "", "unknown pass 'own'; known passes: ablate, allocate-buffer"),
    ],
)
def test_files_that_hold_no_pass(name: str, text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(PipelineError, match=message):
        parse_pipeline(f"{tmp_path / name}:own")


def test_wrong_pass_in_a_session_is_an_option_error() -> None:
    with pytest.raises(OptionError, match="unknown pass 'no-such-pass'"):
        profscope.session(instrument=["no-such-pass"]).__enter__()


def test_opt_loads_files(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(NESTED), "-p", f"{EXAMPLE / 'own_pass.py'}:load-steps,lower-records"]) == 0
    lowered = capfd.readouterr().out
    assert "%clock" in lowered
    assert "profscope.payload" not in lowered
