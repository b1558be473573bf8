"""Choices of CTAs, SMs and warps on the kernels of the corpus that the emulator cannot run, with no GPU."""

from __future__ import annotations

from typing import Any

import pytest

from profscope.launching.hook import CompileHook
from profscope.options import Options
from profscope.recording.programs import manifest_in
from tests.kernels import aot
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA90, CUDA100, Spec

CHOICES: list[dict[str, Any]] = [
    {"ctas": [0, 7]},
    {"ctas": "first wave", "warps": 3},
    {"sms": [3, 70], "warps": [0, 5]},
]
# Kernels of each kind: plain, with branches, TMA, callees that record, and partitions in Triton and in Gluon.
NAMES = ("add", "while", "matmul_tma", "matmul_ws", "gluon_ws", "gluon_ws_loop", "call_paths", "joined_paths")
QUICK = ("while", "matmul_ws", "gluon_ws_loop", "call_paths")


@pytest.mark.parametrize("options", CHOICES, ids=str)
@pytest.mark.parametrize(
    ("spec", "target"),
    [
        pytest.param(
            spec,
            target,
            id=f"{spec.name}-{target}",
            marks=() if target == CUDA90 and spec.name in QUICK else pytest.mark.exhaustive,
        )
        for spec in specs()
        for target in (CUDA90, CUDA100)
        if spec.name in NAMES and target not in spec.unsupported
    ],
)
def test_triton_lowers_every_choice(spec: Spec, target: str, options: dict[str, Any]) -> None:
    hook = CompileHook(Options(**options))
    with hook.installed():
        texts, metadata = aot.lowered(spec, target, "llir", {"instrumentation_mode": hook.mode})
    manifest = manifest_in(texts["ttgir"])
    assert manifest is not None
    clustered = metadata.get("num_ctas", 1) > 1
    if clustered and "sms" in options:
        assert "cannot choose among the CTAs of clusters" in manifest.failure
        return
    assert manifest.failure == ""
    chosen = manifest.selection
    assert (chosen.ctas == "sms") == ("tt.atomic_rmw add, relaxed, gpu" in texts["ttgir"])
    wanted = options.get("warps", 1)
    warps = (
        range(0, manifest.warps, wanted)
        if isinstance(wanted, int)
        else [w for w in wanted if w < manifest.warps]
    )
    assert manifest.segments == len(list(warps))
    assert (chosen.warps or tuple(range(manifest.warps))) == tuple(warps)
