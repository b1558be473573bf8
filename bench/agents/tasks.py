"""The tasks: kernels of the corpus, each in a folder of its own, without what the corpus knows of it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Final

from bench.corpus.cases import CASES
from bench.corpus.recording import prepared

__all__ = ["OPTION_HELPS", "TASKS", "write_task"]

OPTION_HELPS: Final = (
    "short row of 32 warps",
    "norms of a row by 32 warps",
    "matmul of 1 stage",
    "decode product of 1 stage",
    "gate and up by 4 warps",
    "state in 48 registers",
)
"""The fault is a launch option, so `profscope explain` can try its remedy."""

TASKS: Final = (
    *OPTION_HELPS,
    "norm in float64",
    "pooled tokens read twice",
    "columns summed each step",
    "bins in global memory",
    "division by a scalar",
    "ring buffer by remainder",
)
_TASK: Final = """\
# Make a Triton kernel faster

Edit `kernel.py`: the kernel, its options, its grid. `launch` must leave the same results in the same tensors.

- `python check.py` says whether results are equal, and the time before and now
- `python run.py` launches the kernel once: a program for `profscope run` and `profscope explain`
- `profscope skill` says how profscope is used

Edit no other file.
"""
_KERNEL: Final = '''\
import triton
import triton.language as tl

OPTIONS = {options}
GRID = {grid}


{source}

def launch(args):
    """args: in the order of the kernel's parameters."""
    {name}[GRID](*args, **OPTIONS)
'''
_PROGRAM: Final = """\
import sys
from pathlib import Path

from bench.agents.judge import {function}

sys.exit({function}(Path(__file__).parent, {case!r}, small={small}))
"""


def write_task(case: str, folder: Path, *, small: bool) -> None:
    """small: with the sizes for the emulator."""
    launch = prepared(CASES[case].prepare, small)
    source = inspect.getsource(launch.kernel.fn).replace("  # fault", "")
    folder.mkdir(parents=True)
    text = _KERNEL.format(
        options=dict(launch.options), grid=launch.grid, source=source, name=launch.kernel.fn.__name__
    )
    (folder / "kernel.py").write_text(text)
    (folder / "TASK.md").write_text(_TASK)
    for name, function in (("run.py", "run_once"), ("check.py", "check")):
        (folder / name).write_text(_PROGRAM.format(function=function, case=case, small=small))
