"""Every kernel of the corpus through the compile hook, with no GPU: Triton must take what the passes write.

At "heavy" on cuda:90 and cuda:100, some at every level, up to the end of `make_llir`: by then
Triton has parsed, verified and lowered the rewritten module and has sized both scratch buffers. ptxas is left
to the tests of `--cost` and to the runs on a GPU.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from profscope.compat.programs import manifest_in
from profscope.instrument_passes import LEVELS
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import VECTOR
from profscope.options import Options
from tests.kernels import aot
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA90, CUDA100, Spec
from tests.support.builds import recording_builds

# Of values and of loads: dots, copies, partitions, callees, many types and many layouts.
QUICK = ("matmul_ws", "call_paths", "shapes", "while")
LOWERED = (*QUICK, "attention", "gluon_ws_loop", "early_return", "joined_paths", "strings")
CASES = [
    pytest.param(
        spec, target, level, id=f"{spec.name}-{target}-{level}",
        marks=() if (target, level) == (CUDA90, "heavy") and spec.name in LOWERED else pytest.mark.exhaustive,
    )
    for spec in specs()
    for target in (CUDA90, CUDA100)  # of cuda:80 the emulator runs them
    if target not in spec.unsupported
    for level in (LEVELS if target == CUDA90 and spec.name in QUICK else ["heavy"])
]  # fmt: skip
# A value captured by the partitions of a warp-specialised kernel reaches their warps through shared memory.
CAPTURES_BYTES = 64
UNCHANGED = ("global_scratch_size", "num_warps", "tmem_size")
COMPARED = (*UNCHANGED, "profile_scratch_size", "shared")


@cache
def _bare(name: str, target: str) -> dict[str, Any]:
    spec = next(spec for spec in specs() if spec.name == name)

    def make() -> str:
        metadata = aot.lowered(spec, target, "llir")[1]
        return json.dumps({key: metadata[key] for key in COMPARED if key in metadata})

    return dict(json.loads(aot.once_a_run("bare metadata", spec, target, make)))


EACH_SPEC = pytest.mark.parametrize(
    "spec",
    [
        pytest.param(spec, id=spec.name, marks=() if spec.name in QUICK else pytest.mark.exhaustive)
        for spec in specs()
        if CUDA90 not in spec.unsupported
    ],
)


@EACH_SPEC
def test_waiting_for_data(spec: Spec) -> None:
    """Loads of every type and layout of the corpus, on the target that has most of them."""
    with recording_builds(Options(instrument=["kernel-span", "op-spans{measure=latency}"])):
        texts, _ = aot.lowered(spec, CUDA90, "llir")
    manifest = manifest_in(texts["ttgir"])
    assert manifest is not None
    waiting = [s for section in manifest.sections for s in section.spans if s.name.endswith(" latency")]
    assert texts["ttgir"].count("pmevent") == len(waiting)
    loads = [s for section in manifest.sections for s in section.spans if s.op == "tt.load"]
    assert all(span in waiting for span in loads)


@pytest.mark.parametrize(("spec", "target", "level"), CASES)
def test_triton_lowers_what_the_passes_write(spec: Spec, target: str, level: str) -> None:
    bare = _bare(spec.name, target)
    with recording_builds(Options(instrument=level)):
        texts, metadata = aot.lowered(spec, target, "llir")
    manifest = manifest_in(texts["ttgir"])
    assert manifest is not None
    assert metadata["profscope"]["manifest"] == manifest.to_json()
    assert metadata["profile_scratch_align"] == manifest.tag
    for unchanged in UNCHANGED:
        assert metadata.get(unchanged) == bare.get(unchanged), unchanged
    allowed = CAPTURES_BYTES if len(manifest.sections) > 1 else 0
    assert 0 <= metadata["shared"] - bare["shared"] <= allowed
    _check_layout(manifest)


def _check_layout(manifest: Manifest) -> None:
    """Every span has its columns, and they are clocks; frames of one section do not overlap."""
    assert manifest.warps >= sum(section.warps for section in manifest.sections)
    for section in manifest.sections:
        for span in section.spans:
            columns = section.frames[span.frame].columns
            kinds = {columns[at].kind for at in (span.begin, *span.ends)}
            assert kinds == {"clock"}, span
            assert span.parent < span.id
        for ring_log2 in (4, 9):
            places = [(manifest.start(f, ring_log2), f.rows(ring_log2) * f.row_bytes) for f in section.frames]
            end = 0
            for start, size in sorted(places):
                assert start >= end
                assert start % VECTOR == 0
                end = start + size
            assert end <= manifest.segment_bytes(ring_log2)
