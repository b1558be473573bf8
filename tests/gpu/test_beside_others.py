"""Sessions beside Proton and torch.profiler on a real GPU: each records what it records alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
import torch, profscope
from tests.support.validation import validate
import triton.profiler as proton
from tests.support.on_gpu import expected, launch_add

when, options = sys.argv[1], eval(sys.argv[2])
launch_add()
if when == "before":
    proton.start("proton", **options)
with profscope.session() as prof:
    if when == "inside":
        proton.start("proton", **options)
    for _ in range(3):
        assert torch.equal(launch_add(), expected())
if when == "after":
    proton.start("proton", **options)
launch_add()
proton.finalize()
print(prof.launches["kernel"].tolist(), validate(prof.profile.tables))
print(*prof.metadata["notes"], sep="\\n")
"""


def ran(folder: Path, when: str, options: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: Proton and CUPTI keep what they have begun."""
    words = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{_PROGRAM}", when, options]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("when", ["before", "inside", "after"])
@pytest.mark.parametrize("options", ["{}", "{'hook': 'triton'}"])
def test_proton(tmp_path: Path, when: str, options: str) -> None:
    done = ran(tmp_path, when, options)
    assert done.stdout == f"{['add_kernel'] * 3} []\n\n", done.stderr
    assert "add_kernel" in (tmp_path / "proton.hatchet").read_text()


def test_kernels_without_proton_s_scopes_are_recorded_under_its_instrumentation(tmp_path: Path) -> None:
    done = ran(tmp_path, "before", "{'backend': 'instrumentation'}")
    assert done.stdout == f"{['add_kernel'] * 3} []\n\n", done.stderr
