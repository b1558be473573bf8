"""What the first screen leaves undone and keeps, so that ten million spans are soon shown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from profscope.profiles import Profile
from profscope.traces.merging import Part, merged
from tests.support.captured import captured
from tests.support.command_line import run
from viewer.own_process import imported_beside

FIRST = ("findings", "kernels", "lines", "tree", "timeline")
FAULTS = """
import resource, sys
import numpy as np
from viewer.own_process import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
arrays = []
for _ in range(20):
    arrays = [np.ones(1 << 18) for _ in range(8)]  # 2 MB each
    arrays = []
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""
IMPORTS = """
import gc
from viewer.own_process import imports_that_stay
for _ in range(2):
    with imports_that_stay():
        import numpy
    print(gc.isenabled(), gc.get_freeze_count() > 10_000)
    gc.unfreeze()
    gc.disable()
"""


def of_two_kernels() -> Profile:
    """Two kernels, of one two configurations."""
    return captured("liger_rms_norm-heavy-0", "liger_rms_norm-heavy-1", "noinline-light-0")


def of_two_ranks() -> Profile:
    """Merged; what a record costs is known, so that durations are corrected."""
    clock = {"clock": {"read_cycles": 2, "row_cycles": 18, "basis": "measured"}}
    parts = [captured("layer_norm-heavy-0", "attention-light-0"), captured("layer_norm-heavy-0")]
    tables = merged([Part(each.tables, f"part {rank}", rank) for rank, each in enumerate(parts)])
    return Profile.of(replace(tables, metadata=tables.metadata | clock))


@pytest.mark.parametrize("make", [of_two_kernels, of_two_ranks])
def test_figures_are_those_of_a_screen_with_percentiles(tmp_path: Path, make: Callable[[], Profile]) -> None:
    """For these all durations are put in order, which is left out where they are not shown."""
    file = str(tmp_path / "t.json")
    make().save(file)
    first, with_scopes = (
        json.loads(run(file, "--json", "--show", ",".join(shown)).stdout)
        for shown in (FIRST, (*FIRST, "scopes"))
    )
    assert with_scopes.pop("tables")[0]["rows"][0]["p99"] > 0
    assert {"header", "kernels", "lines", "trees", "timeline"} <= {name for name in first if first[name]}
    assert first == with_scopes


def test_what_a_figure_is_of_stands_beside_it(tmp_path: Path) -> None:
    file = str(tmp_path / "t.json")
    of_two_ranks().save(file)
    top, *parts = run(file, "--width", "200").stdout.split("\n\n")
    assert top.startswith("Recorded  2 kernels of 2 ranks: 3 launches, ")
    kernels, tree, timeline = (
        next(part for part in parts if said in part.splitlines()[0])
        for said in ("kernels  launches from", ", spans on loads end at their issue", " on SM ")
    )
    assert re.search(r"last, as read, timestamps \+-\d+ ns$", kernels.splitlines()[0])
    assert " of warp time, without what recording took, " in tree.splitlines()[0]
    assert timeline.splitlines()[0].endswith(", as read")


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def test_memory_is_asked_for_once() -> None:
    kept, given_back = (
        int(subprocess.check_output([sys.executable, "-c", FAULTS, how])) for how in ("kept", "given back")
    )
    assert kept < given_back / 2


def test_what_is_imported_is_not_looked_through() -> None:
    """Unless garbage is not collected at all, by the choice of whoever calls."""
    printed = subprocess.check_output([sys.executable, "-c", IMPORTS], text=True)
    assert printed.splitlines() == ["True True", "False False"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_ctrl_c_does_not_wait_for_imports(error: type[BaseException]) -> None:
    """Since the thread that imports may wait for what the interrupted one has taken; others wait for it."""
    go_on, seen = threading.Event(), list[bool]()

    def work() -> None:
        seen.append(go_on.wait(0.2))
        raise ImportError("said by who imports it again")

    with pytest.raises(error), imported_beside(work):
        raise error
    assert seen == ([] if error is KeyboardInterrupt else [False])
    go_on.set()
