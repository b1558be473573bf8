"""Other users of CUPTI, as an H200's machine showed them in the process (driver 580, CUDA 13.0)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from profscope.evidence.cupti import has_sys_admin, injected_tool, is_for_administrators, other_profiler

CUPTI = "7f00-7f01 r-xp 0 00:00 1 /opt/torch/nvidia/cu13/lib/libcupti.so.13\n"


@pytest.mark.parametrize(
    ("libraries", "environ", "tool"),
    [
        ("", {"NV_CUDA_LIB_VERSION": "13.0.2-1", "NVIDIA_VISIBLE_DEVICES": "0"}, ""),
        ("/cs/libInterceptorInjectionTarget.so", {}, "compute-sanitizer"),
        ("/cs/libTreeLauncherTargetInjection.so\n/cs/libsanitizer-collection.so", {}, "compute-sanitizer"),
        ("/target/libcuda-injection.so", {}, "Nsight Compute"),
        ("", {"NV_NSIGHT_INJECTION_PORT_BASE": "49152"}, "Nsight Compute"),
        ("/target-linux-x64/libToolsInjection64.so", {}, "Nsight Systems"),
        ("", {"NSYS_PROFILING_SESSION_ID": "101021"}, "Nsight Systems"),
        ("", {"CUDA_INJECTION64_PATH": "/mine.so"}, "a tool in CUDA_INJECTION64_PATH"),
    ],
)
def test_injected_tools(libraries: str, environ: dict[str, str], tool: str) -> None:
    maps = CUPTI + "".join(f"7f02-7f03 r-xp 0 00:00 2 {path}\n" for path in libraries.splitlines())
    assert injected_tool(maps, environ) == tool


def test_profilers_of_this_process() -> None:
    assert other_profiler({}) == ""
    assert other_profiler({"torch.autograd.profiler": SimpleNamespace(_is_profiler_enabled=False)}) == ""
    kineto = SimpleNamespace(_is_profiler_enabled=True)
    assert other_profiler({"torch.autograd.profiler": kineto}) == "torch.profiler"
    proton = SimpleNamespace(flags=SimpleNamespace(profiling_on=True))
    assert other_profiler({"triton.profiler.flags": proton}) == "Proton"


def test_the_names_that_are_asked_for_exist() -> None:
    import torch.autograd.profiler
    from triton.profiler.flags import flags

    assert isinstance(torch.autograd.profiler._is_profiler_enabled, bool)
    assert isinstance(flags.profiling_on, bool)


# As the driver's /proc/driver/nvidia/params begins and ends.
PARAMETERS = """\
ResmanDebugLevel: 4294967295
RmLogonRC: 1
ModifyDeviceFiles: 1
RmProfilingAdminOnly: {}
PreserveVideoMemoryAllocations: 0
RegistryDwords: ""
"""


def test_who_may_read_counters() -> None:
    assert is_for_administrators(PARAMETERS.format(1)) is True
    assert is_for_administrators(PARAMETERS.format(0)) is False
    assert is_for_administrators("") is None  # in a container that hides it
    assert has_sys_admin("Name:\tpython\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n")
    assert not has_sys_admin("Name:\tpython\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n")  # Docker's default
    assert not has_sys_admin("")
