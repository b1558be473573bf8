"""What Triton compiles with records, and without, and what it caches of both; nothing is launched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend

import profscope.dispatch.recording_stages as stages
from profscope.compat.programs import manifest_of_binary
from profscope.errors import CompileError
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.manifest import Manifest
from profscope.options import Options
from tests.support.builds import build, manifest, recording_builds
from tests.support.forks import Forks


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own, so that each test sees which files it makes."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_bare_and_instrumented_binaries_coexist_on_disk() -> None:
    bare = build()
    with recording_builds(Options()):
        instrumented = build()
        again = build()
    after = build()
    assert manifest(bare) is None
    assert manifest(instrumented) is not None
    assert again.hash == instrumented.hash != bare.hash == after.hash
    assert after.asm["ptx"] == bare.asm["ptx"] != instrumented.asm["ptx"]


def test_a_cache_that_keeps_nothing_but_binaries_still_says_what_they_record(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    for _ in range(2):  # compiled, then found
        with recording_builds(Options(instrument="light")):
            kernel = build()
        found = manifest_of_binary(kernel)
        assert [span.kind for section in found.sections for span in section.spans] == ["kernel"]
        assert kernel.metadata.profile_scratch_size == found.tag
    assert list(own_cache.rglob("*.ttgir")) == []


def test_the_records_go_to_the_profile_buffer_and_nowhere_else() -> None:
    bare = build()
    with recording_builds(Options()):
        instrumented = build()
    found = manifest(instrumented)
    assert found is not None
    assert instrumented.metadata.profile_scratch_align == found.tag
    assert instrumented.metadata.profile_scratch_size == found.tag
    assert instrumented.metadata.global_scratch_size == bare.metadata.global_scratch_size


_OTHER_PROCESS = """
import json, sys
from tests.support.builds import recording_builds
from profscope.options import Options
from tests.support.builds import build, manifest
with recording_builds(Options()):
    kernel = build()
print(json.dumps([kernel.hash, manifest(kernel).to_json()]))
"""


def test_a_binary_another_process_compiled_still_says_what_it_records(own_cache: Path, forks: Forks) -> None:
    ran = forks.run(_OTHER_PROCESS)
    assert ran.returncode == 0, ran.stderr
    theirs, text = json.loads(ran.stdout)
    files = {path: path.stat().st_mtime_ns for path in own_cache.rglob("*.ttgir")}
    with recording_builds(Options()):
        kernel = build()
    assert kernel.hash == theirs
    assert manifest(kernel) == Manifest.from_json(text)
    assert {path: path.stat().st_mtime_ns for path in own_cache.rglob("*.ttgir")} == files


class UserHook:
    """A user's own stages hook, in the form every Triton since 3.6 takes."""

    def __init__(self) -> None:
        self.kernels = 0

    def __call__(self, *args: Any) -> Any:
        if not args:
            return "user", "user-hash"
        stages = args[1]
        make_ttir = stages["ttir"]

        def counted(source: Any, metadata: Any) -> Any:
            self.kernels += 1
            return make_ttir(source, metadata)

        stages["ttir"] = counted
        return None


def test_a_users_stages_hook_keeps_running_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    user = UserHook()
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", user)
    with recording_builds(Options()):
        assert manifest(build()) is not None
    assert user.kernels == 1
    assert knobs.runtime.add_stages_inspection_hook is user


class UserInstrumentation:
    """An instrumentation of the compiler that another tool installed (Triton up to 3.8)."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def load_dialects(self, context: Any) -> None:
        self.seen.add("load_dialects")

    def patch(self, point: str, manager: Any, context: Any) -> None:
        self.seen.add(point)


@pytest.mark.skipif(not hasattr(CUDABackend, "instrumentation"), reason="Triton 3.9 has a registry instead")
def test_another_tools_instrumentation_keeps_running_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    user = UserInstrumentation()
    monkeypatch.setattr(CUDABackend, "instrumentation", user)
    with recording_builds(Options()):
        assert manifest(build()) is not None
    assert {"load_dialects", "ttgpuir_to_llvmir", "llvmir_to_llvm"} <= user.seen
    assert CUDABackend.instrumentation is user


def test_a_kernel_that_cannot_be_instrumented_is_refused_and_leaves_nothing_in_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any) -> None:
        raise PassError("add_kernel:12: tt.load: cannot do this")

    with monkeypatch.context() as patch, recording_builds(Options()):
        patch.setattr(stages, "run_pipeline", fail)
        with pytest.raises(PassError, match="cannot do this"):
            build()
    with recording_builds(Options()):
        assert manifest(build()) is not None


def test_what_triton_rejects_is_reported_with_the_op(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(text: str, *args: Any) -> str:
        return text.replace("tt.return", "tt.retrun", 1)

    monkeypatch.setattr(stages, "instrument", broken)
    with recording_builds(Options()), pytest.raises(CompileError, match=r"(?s)Triton rejects.*tt\.retrun"):
        build()
