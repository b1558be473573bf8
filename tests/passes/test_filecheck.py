"""Run the `// RUN:` lines of the .mlir files: `profscope opt ... | FileCheck %s ...`; %S is their folder.

The inputs are modules that Triton 3.7 printed, with paths shortened and the locations of plain arithmetic
left out. They are other files than the checks, because profscope opt prints comments too: FileCheck must not
see its own checks in what it checks.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from profscope.commands.opt import main
from profscope.instrument_passes.ops import SPANNABLE

HERE = Path(__file__).parent


def _runs() -> list[tuple[Path, str]]:
    lines = [(file, line) for file in sorted(HERE.glob("*.mlir")) for line in file.read_text().splitlines()]
    return [(file, line.partition("RUN:")[2]) for file, line in lines if line.startswith("// RUN:")]


def _words(command: str, file: Path) -> list[str]:
    return [word.replace("%S", str(file.parent)).replace("%s", str(file)) for word in shlex.split(command)]


@pytest.mark.parametrize(
    ("file", "run"), [pytest.param(f, r, id=f"{f.stem}:{r.strip()}") for f, r in _runs()]
)
def test_run_line(file: Path, run: str, file_check: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    opt, check = run.rsplit("|", 1)
    opt_words, check_words = _words(opt, file), _words(check, file)
    assert [*opt_words[:2], check_words[0]] == ["profscope", "opt", "FileCheck"]
    code = main(opt_words[2:])
    said = capfdbinary.readouterr()
    assert code == 0, said.err.decode()
    command = [file_check, *check_words[1:], "--dump-input=never"]
    result = subprocess.run(command, input=said.out, capture_output=True, check=False)
    assert result.returncode == 0, "\n".join(line[:200] for line in result.stderr.decode().splitlines())


def test_every_prefix_is_run() -> None:
    """A check whose prefix no RUN line names would never be looked at."""
    for file in HERE.glob("*.mlir"):
        used = {name for where, run in _runs() if where == file for name in _prefixes(run)}
        written = set(re.findall(r"^// ([A-Z][A-Z0-9]*)(?:-[A-Z]+)?: ", file.read_text(), re.MULTILINE))
        assert written - {"RUN"} == used, file.name


def _prefixes(run: str) -> list[str]:
    """Those that FileCheck looks for in a run; CHECK unless it is told."""
    named = re.findall(r"--?check-prefix(?:es)?[= ](\S+)", run)
    return [name for names in named for name in names.split(",")] or ["CHECK"]


def test_every_pass_has_a_file() -> None:
    from profscope.instrument_passes.passes import passes

    ours = [
        name for name, cls in passes().items() if cls.__module__.startswith("profscope.instrument_passes.")
    ]
    assert {name.replace("-", "_") for name in ours} <= {file.stem for file in HERE.glob("*.mlir")}


def test_every_class_that_can_be_recorded_has_a_run() -> None:
    runs = " ".join(run for file, run in _runs() if file.stem in ("op_spans", "op_classes"))
    named = {name for names in re.findall(r"classes=([\w;]+)", runs) for name in names.split(";")}
    assert named == set(SPANNABLE)
