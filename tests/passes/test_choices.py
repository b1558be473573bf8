"""Choices of CTAs on the kernels of the corpus that the emulator cannot run, with no GPU."""

from __future__ import annotations

from typing import Any

import pytest

from profscope.compat.programs import manifest_in
from profscope.options import Options
from tests.kernels import aot
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA90, CUDA100, Spec
from tests.support.builds import recording_builds

CHOICES: list[dict[str, Any]] = [{"ctas": [0, 7]}, {"ctas": 64}]
# Kernels of each kind: plain, with branches, TMA, callees that record, and partitions in Triton and in Gluon.
NAMES = ("add", "while", "matmul_tma", "matmul_ws", "gluon_ws", "gluon_ws_loop", "call_paths", "joined_paths")
QUICK = ("while", "gluon_ws_loop", "call_paths")


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
    with recording_builds(Options(**options)):
        texts, _ = aot.lowered(spec, target, "llir")
    manifest = manifest_in(texts["ttgir"])
    assert manifest is not None
    assert manifest.selection.ids == tuple(options["ctas"] if isinstance(options["ctas"], list) else ())
