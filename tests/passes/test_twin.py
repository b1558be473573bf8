"""CTAs that do not record run the kernel's own code: a second body of it, which has no records."""

from __future__ import annotations

from typing import Any

import pytest

from instrument_passes.passes.lower_records import LowerRecords
from instrument_passes.rounding import arithmetic_of
from profscope.launching.hook import CompileHook
from profscope.options import Options
from profscope.recording.programs import manifest_in
from tests.kernels import aot
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA90, Spec
from tests.support.quick import quick

# ptxas refuses what Triton makes of one, with and without records.
SPECS = {spec.name: spec for spec in specs() if CUDA90 not in spec.unsupported and spec.name != "strings"}
WITHOUT = {"matmul_ws", "gluon_ws", "gluon_ws_loop", "noinline", "call_paths"}  # partitions, calls


def lowered(spec: Spec, **options: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """As a session on a GPU compiles it; without options as it is compiled outside of one."""
    if not options:
        return aot.lowered(spec, CUDA90, "ptx")
    hook = CompileHook(Options(**options))
    with hook.installed():
        return aot.lowered(spec, CUDA90, "ptx", {"instrumentation_mode": hook.mode})


@pytest.mark.parametrize(
    "name", quick(sorted(SPECS.keys() - WITHOUT), ("softmax", "early_return", "joined_paths"))
)
def test_the_second_body_is_the_bare_kernels(name: str) -> None:
    spec = SPECS[name]
    (bare, about_bare), (alone, _), (twin, about) = (
        lowered(spec, **options) for options in ({}, {"keep": "sums", "baseline": 2}, {"keep": "sums"})
    )
    for texts, has_one in ((alone, False), (twin, True)):
        manifest = manifest_in(texts["ttgir"])
        assert manifest is not None
        assert manifest.twin is has_one
    assert twin["ptx"].count("%clock") == alone["ptx"].count("%clock")
    parts = [arithmetic_of(texts["ptx"]) for texts in (bare, alone, twin)]
    assert not parts[2].differs_from(parts[0])
    counts = [dict(each.counts) for each in parts]
    assert counts[2] == {op: counts[0][op] + counts[1][op] for op in counts[0]}
    assert about["shared"] == about_bare["shared"]


@pytest.mark.parametrize("name", quick(sorted(WITHOUT), ("matmul_ws", "noinline")))
def test_partitions_and_calls_are_there_once(name: str) -> None:
    alone, twin = (lowered(SPECS[name], keep="sums", **more)[0] for more in ({"baseline": 2}, {}))
    manifest = manifest_in(twin["ttgir"])
    assert manifest is not None
    assert not manifest.failure
    assert manifest == manifest_in(alone["ttgir"])
    assert len(twin["ptx"].splitlines()) == len(alone["ptx"].splitlines())


@pytest.mark.parametrize(
    ("options", "has_one"),
    [
        ({}, False),
        ({"ctas": 64}, True),
        ({"ctas": [3]}, True),
        ({"ctas": "first wave"}, True),
        ({"keep": "sums"}, True),
        ({"keep": "totals"}, True),
        ({"sms": 3}, False),  # a CTA draws its area there
        ({"keep": "sums", "baseline": 10}, False),  # what is compared is slowed everywhere
        ({"ctas": 64, "samples": True}, False),
    ],
)
def test_when_there_is_one(options: dict[str, Any], has_one: bool) -> None:
    (lowering,) = (step for step in Options(**options).pipeline if isinstance(step, LowerRecords))
    assert lowering.twin is has_one
