"""What reads a profile, or checks an option, does not pay for what it does not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Not loaded by any of these: passes, what they are lowered by, and the targets.
HEAVY = ("passes", "lowering", "targets", "pipeline", "spans", "dialect")


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("manifest", [*HEAVY, "ir", "ops", "analyses"]),
        ("records", [*HEAVY, "ir", "ops", "analyses"]),
        ("selection", [*HEAVY, "ir", "ops", "analyses", "numpy"]),
        ("errors", [*HEAVY, "ir", "ops", "analyses", "numpy"]),
        ("ir", [*HEAVY, "ops", "analyses", "numpy"]),
        ("ops", [*HEAVY, "numpy"]),
        ("toolchain", [*HEAVY, "ops", "analyses", "numpy", "triton"]),
        ("passes", ["lowering", "targets", "numpy"]),
    ],
)
def test_import(module: str, without: list[str]) -> None:
    script = f"import sys, profscope.instrument_passes.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    banned = {
        name if name in ("numpy", "triton") else f"profscope.instrument_passes.{name}" for name in without
    }
    assert [name for name in loaded if name in banned] == []
