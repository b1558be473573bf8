"""Sessions in a notebook's cells: kernels that are defined there, defined anew, and interrupted."""

from __future__ import annotations

from pathlib import Path

import profscope
from profscope.analysis.model.labels import groups_of
from tests.support.command_line import run
from tests.support.forks import Forks

_CELLS = """
import os
import signal
import sys
import time

from ipykernel.compiler import XCachingCompiler
from IPython.core.interactiveshell import InteractiveShell
from triton.runtime.jit import JITFunction

shell = InteractiveShell(compiler_class=XCachingCompiler)  # its cells have the files that a kernel's have
untouched = JITFunction.run

KERNEL = '''
@triton.jit
def cell_kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(x + at) {})
'''
cells = [
    "import torch, triton, triton.language as tl, profscope",
    "x = torch.arange(64.0); y = torch.empty_like(x); options = dict(backend='emulator')",
    KERNEL.format("+ 1"),
    "profscope.start(**options); cell_kernel[(1,)](x, y, B=64)",
    KERNEL.format("* 3"),
    "with profscope.scope('again'): cell_kernel[(1,)](x, y, B=64)",
    KERNEL.format("+ 1"),
    "cell_kernel[(1,)](x, y, B=64); prof = profscope.stop()",
    f"prof.save({sys.argv[1]!r})",
    "@profscope.profile(**options)\\ndef once(): return cell_kernel[(1,)](x, y, B=64)",
    "once()",
]
for cell in cells:
    assert shell.run_cell(cell, silent=True).success, cell
interrupted = shell.run_cell(
    "with profscope.session(**options) as cut:\\n"
    "    cell_kernel[(1,)](x, y, B=64)\\n    import os, signal\\n"
    "    os.kill(os.getpid(), signal.SIGINT)\\n    [0] * 10",
    silent=True,
)
assert isinstance(interrupted.error_in_exec, KeyboardInterrupt)
assert JITFunction.run is untouched
again = "with profscope.session(**options) as p: cell_kernel[(1,)](x, y, B=64)"
assert shell.run_cell(again, silent=True).success
print(len(shell.user_ns["cut"].launches), len(shell.user_ns["p"].launches))
"""


def test_cells_are_recorded_each_with_its_own_text(forks: Forks, tmp_path: Path) -> None:
    path = tmp_path / "cells.json.gz"
    ran = forks.run(_CELLS, path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "1 1", ran.stdout
    prof = profscope.load(path)  # another process, that has no cells
    assert prof.launches["variant"].tolist() == [0, 1, 0], "run again as it was it is what it was"
    assert prof.host["scope"].tolist() == ["again"]
    files = prof.df.groupby("launch")["file"].unique().tolist()
    assert [len(each) for each in files] == [1, 1, 1]
    assert files[0] == files[2] != files[1]
    first, second = prof.metadata["variants"]["cell_kernel"]
    assert first["key"] != second["key"]
    differs = [group.differs for group in groups_of(prof.tables).values()]
    assert differs == [{"source": each["source_hash"][:6]} for each in (first, second)]
    lines = prof.samples.groupby("variant", observed=True)["file"].unique().tolist()
    assert [each.tolist() for each in lines] == [files[0].tolist(), files[1].tolist()]
    texts = [source["text"] for source in prof.metadata["sources"]]
    assert ["+ 1)" in text for text in texts] == [True, False]
    shown = run(str(path), "--source").stdout
    assert "tl.load(x + at) + 1)" in shown
    assert "tl.load(x + at) * 3)" in shown
