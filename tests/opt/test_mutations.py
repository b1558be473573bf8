"""Damaged modules: every pass either works or says in one line which file, line and op it is about.

`PROFSCOPE_MUTATIONS=3000 pytest tests/opt/test_mutations.py` tries more of them.
"""

from __future__ import annotations

import os
import random
import re
from functools import cache
from pathlib import Path

import pytest

from profscope.commands.opt import main
from profscope.instrument_passes import LEVELS, LOWERING
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from tests.support.mutations import mutated

INPUTS = {path.stem: path for path in (Path(__file__).parent.parent / "passes" / "inputs").glob("*.ttgir")}
MUTATIONS = int(os.environ.get("PROFSCOPE_MUTATIONS", "120"))
GROUPS = 4  # tests that share the work
LONG = 8000  # characters; what is longer takes its time and has little that is new
# What a module is before the damage, by the passes that made it: as Triton prints it, with records, lowered.
MADE_BY = ("", LEVELS["heavy"], f"{LEVELS['default']},lower-records")
ALONE = (
    "kernel-span", "loop-spans", "loop-spans,iteration-spans", "iteration-spans", "scope-spans", "op-spans",
    "op-spans{measure=latency}", "lower-records", "allocate-buffer", "",
)  # fmt: skip
TOGETHER = tuple(f"{passes},{LOWERING}" for passes in (*LEVELS, "op-spans{classes=load measure=latency}"))
SELECTING = (
    "lower-records{ctas=0;3}",
    "lower-records{ctas=1 unrecorded=true},allocate-buffer",
)


@cache
def undamaged(name: str, made_by: str) -> str:
    module = parse(INPUTS[name].read_text(), name)
    run_pipeline(module, parse_pipeline(made_by), PassContext())
    return str(module)


def a_pipeline(made_by: str, chosen: random.Random) -> str:
    """One that gets far with what is made so, most of the time."""
    if chosen.random() < 0.7 and "lower-records" in made_by:
        return "allocate-buffer"
    if chosen.random() < 0.7 and made_by:
        return chosen.choice((LOWERING, *SELECTING))
    return chosen.choice((*ALONE, *TOGETHER))


def damaged(text: str, old: str, new: str, folder: Path) -> Path:
    """A file of the text in which the first `old` is `new`."""
    assert old in text
    file = folder / "damaged.ttgir"
    file.write_text(text.replace(old, new, 1))
    return file


def check(file: Path, pipeline: str, triton: str, capfd: pytest.CaptureFixture[str]) -> str:
    """What profscope opt says against the file, "" for nothing."""
    code = main([str(file), "-p", pipeline, "--triton", triton])
    said = capfd.readouterr()
    if code == 0:
        assert said.err == ""
        return ""
    assert code == 1
    assert said.out == ""
    assert re.fullmatch(rf"profscope opt: {re.escape(str(file))}:[1-9]\d*: .+\n", said.err), said.err
    return said.err


@pytest.mark.parametrize(
    "group", [pytest.param(n, marks=pytest.mark.exhaustive if n else ()) for n in range(GROUPS)]
)
def test_damage_is_named_or_harmless(group: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = sorted(name for name, path in INPUTS.items() if path.stat().st_size < LONG or name == "scopes")
    file = tmp_path / "damaged.ttgir"
    refused = 0
    for seed in range(group, MUTATIONS, GROUPS):
        chosen = random.Random(f"case {seed}")
        name, made_by = chosen.choice(names), chosen.choice(MADE_BY)
        file.write_text(mutated(undamaged(name, made_by), seed))
        pipeline, triton = a_pipeline(made_by, chosen), chosen.choice(("3.6", "3.7", "3.8", "3.9"))
        try:
            refused += check(file, pipeline, triton, capfd) != ""
        except Exception as error:
            error.add_note(f"seed {seed}: {name} made by {made_by!r}, then {pipeline!r}")
            raise
    assert 0 < refused < MUTATIONS // GROUPS  # both happen


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("add", '"add.py":19:16', '"add.py":0x7F:16', "expected a line number, found '0x7F'"),
        ("add", '"add.py":19:16', '"add.py":19:1.5', "expected a column number, found '1.5'"),
        ("add", '"ttg.num-warps" = 4 : i32', '"ttg.num-warps" = @four', "ttg.num-warps; it is '@four'"),
        ("add", '"ttg.num-warps" = 4 : i32, ', "", "ttg.num-warps; there is none"),
        ("add", "= 4 : i32, ttg", "= 99999999999999999999 : i32, ttg", "it is '99999999999999999999"),
        ("add", "= 4 : i32, ttg", "= 77 : i32, ttg", "the module has 77 warps; a CTA has 1 to 32"),
        ("add", "slt, %offs_2, %mask :", "slt, %offs_2 :", "expected 2 operands, found 1: %mask_3 ="),
        ("softmax", "arith.subi %n_rows, %step", "arith.subi %n_rows, %step, %step", "2 operands, found 3"),
        ("add", "    tt.return loc(#loc14)\n", "", "expected a terminator at the end of the block"),
        ("softmax", "iter_args(", "iter_args(%z = %step, ", "expected a result for each value that the loop"),
        ("branches", "else {", "else {\n} else {", "expected 1 to 2 regions, found 3: %1 = scf.if"),
        ("while", " do {", " do {\n} else {", "expected 2 regions, found 3: "),
        ("gluon_ws", "(%x_ptr, %out_ptr)", "(%x_ptr)", "expected 1 arguments of partition 0, found 2"),
        ("gluon_ws", "num_warps(", "num_wraps(", "expected num_warps(...) and a body for partition 0"),
        ("noinline_sm90", "tt.call @", "tt.call ", "expected the name of the function that is called"),
        ("scopes", "{\\22do\\22: \\22mark\\22", "{\\22do\\22 \\22mark\\22", "expected a marker as profscope"),
        ("scopes", "\\22parent\\22: 0", "\\22parent\\22: 99", "attribute profscope.scopes is not what"),
        ("scopes", '"[{\\22kind', '"{\\22kind', "attribute profscope.scopes is not what profscope writes"),
        ("scopes", '"profscope:1"', '"profscope:99"', "its location names scope 99 of "),
        ("add", "attributes {", 'attributes {profscope.notes = "[", ', "attribute profscope.notes is not"),
    ],
)  # fmt: skip
def test_damage_that_was_a_traceback(
    name: str, old: str, new: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = damaged(INPUTS[name].read_text(), old, new, tmp_path)
    assert message in check(file, f"heavy,{LOWERING}", "3.7", capfd)


@pytest.mark.parametrize(
    ("made_by", "old", "new", "message"),
    [
        ("op-spans", "{id = 0 : i32", "{id = zero", "expected an integer for attribute 'id': "),
        ("op-spans", "{id = 1 : i32, kind", "{id = 0 : i32, kind", "span 0 begins twice: "),
        ("op-spans", 'profscope.end"() {id = 0 : i32} : ()', 'profscope.end"(%x) {id = 0 : i32} : (i32)',
         "cannot wait for a value of type tensor<1024x!tt.ptr<f32>"),
        ("light,lower-records", "fixed_bytes", "flexible_bytes", "not a profscope manifest: "),
        ("light,lower-records", 'frame\\"', 'fame\\"', "not a profscope manifest: "),
        ("light,lower-records", "schema", "scheme", "not a profscope manifest: "),
        ("light,lower-records", '= "profscope.buffer"', '"profscope.buffer"', "expected "),
    ],
)  # fmt: skip
def test_damage_to_what_passes_wrote(
    made_by: str, old: str, new: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = damaged(undamaged("add", made_by), old, new, tmp_path)
    pipeline = "allocate-buffer" if "lower-records" in made_by else LOWERING
    assert message in check(file, pipeline, "3.7", capfd)
