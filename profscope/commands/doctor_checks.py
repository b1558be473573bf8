"""Checks that run in a process of their own, because a broken driver, torch or CUPTI may end it.

That process reads names of checks, and answers each with the fields of a row.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from profscope.commands.doctor_rows import FAILED, MISSING, OK, REFUSED, Row
from profscope.device.gpus import Gpu, driver_version, gpus
from profscope.evidence.cupti import (
    ADVICE,
    NOT_NVIDIA,
    Library,
    SamplerError,
    injected_tool,
    library_path,
    occupied_by,
)
from profscope.evidence.driver import Driver
from profscope.evidence.observer import open_witnesses
from profscope.evidence.subject import Subject, Witness
from profscope.experiments.worker_processes import serve
from profscope.instrument_passes.passes import TRITONS
from profscope.recording.diagnostics import one_line

__all__ = ["checked", "main", "tried"]

_NOBODY: Final = Subject("", "", (), "", b"", "")  # of a launch whose evidence is not kept
_GIB: Final = 1 << 30


def main() -> None:
    """Serve the process that started this one, until it closes the pipe or is gone."""
    serve(lambda name: asdict(checked(name)))


def checked(name: str) -> Row:
    """The result of a check. Raises nothing that it does."""
    try:
        return _CHECKS[name]()
    except ModuleNotFoundError as error:
        return Row(MISSING, "not installed" if error.name == name else f"needs {error.name}")
    except Exception as error:  # noqa: BLE001  whatever it is, it is what the user has to know
        return Row(FAILED, one_line(error))


def _of_triton() -> Row:
    version = str(import_module("triton").__version__)
    supported = version.split(".")[:2] in [[str(part) for part in each] for each in TRITONS]
    known = ", ".join(f"{major}.{minor}" for major, minor in TRITONS)
    text = f"{version}, {'one of' if supported else 'and profscope supports'} {known}"
    return Row(OK if supported else FAILED, text, {"version": version, "supported": supported})


def _of_torch() -> Row:
    torch = import_module("torch")
    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    facts = {"version": str(torch.__version__), "cuda": torch.version.cuda}
    return Row(OK, f"{torch.__version__}, built {built}", facts)


def _tool(name: str) -> Row:
    """A program of NVIDIA's that Triton brings, or that a variable such as TRITON_PTXAS_PATH names."""
    tool = getattr(import_module("profscope.compat.triton_parts").knobs.nvidia, name)
    return Row(OK, f"{tool.version}, {tool.path}", {"version": tool.version, "path": tool.path})


def _of_cupti() -> Row:
    _imported("torch")  # which loads the one that a session uses
    try:
        path = library_path()
    except SamplerError as error:
        return Row(MISSING, str(error))
    library = Library(path)
    facts = {"version": library.version, "path": str(path)}
    return Row(OK, f"API version {library.version}, {path.resolve()}", facts)


def _of_gpu() -> Row:
    torch = _imported("torch")
    if torch is not None and torch.version.hip:
        return Row(REFUSED, f"torch is built for AMD, and {NOT_NVIDIA}")
    try:
        found = gpus()
    except OSError as error:
        return Row(MISSING, f"no NVIDIA driver ({error})")
    except RuntimeError as error:
        return Row(MISSING, f"the NVIDIA driver offers none: {error}")
    driver = driver_version()
    kinds = "; ".join(f"{number} x {text}" for text, number in Counter(map(_kind, found)).items())
    kinds = kinds.removeprefix("1 x ") if len(found) == 1 else kinds
    text = f"{kinds}; driver {driver or 'of unknown version'}"
    return Row(OK, text, {"driver": driver, "gpus": [_facts(each) for each in found]})


def _kind(gpu: Gpu) -> str:
    major, minor = gpu.capability
    memory = f"{gpu.memory_bytes / _GIB:.1f} GiB"
    return f"{gpu.name}, compute capability {major}.{minor}, {gpu.sm_count} SMs, {memory}"


def _facts(gpu: Gpu) -> Mapping[str, Any]:
    return asdict(gpu) | {"capability": "{}.{}".format(*gpu.capability)}


def _imported(module: str) -> ModuleType | None:
    with contextlib.suppress(ModuleNotFoundError):
        return import_module(module)
    return None


def _of_peaks(module: str, function: str) -> Row:
    """What the first GPU does at most. function: returns it."""
    peaks = getattr(import_module(module), function)(0)
    if peaks is None:
        return Row(MISSING, "not measured: profscope doctor --measure does that in some seconds")
    text = (
        f"DRAM {peaks.dram_gb_s:,.0f} GB/s, {peaks.dram_latency_ns:.0f} ns; "
        f"L2 {peaks.l2_gb_s:,.0f} GB/s, {peaks.l2_latency_ns:.0f} ns; "
        f"FMA {peaks.fma_tflops:.1f} TFLOP/s; fp16 dots {peaks.dot_fp16_tflops:.0f} TFLOP/s"
    )
    return Row(OK, text, asdict(peaks))


def _witness(name: str) -> Row:
    """Open a witness as a session does, and have it watch a small launch."""
    tool = injected_tool()
    if tool:
        return Row(REFUSED, occupied_by(tool))
    torch = import_module("torch")
    torch.zeros(1, device="cuda")  # makes this thread's context
    machine = Driver()
    try:
        (witness,) = open_witnesses([name])(machine.context(), machine.device())
    except SamplerError as error:
        return Row(FAILED, str(error))

    def launch() -> None:
        torch.ones(1, device="cuda")
        torch.cuda.synchronize()

    return tried(witness, launch)


def tried(witness: Witness, launch: Callable[[], None]) -> Row:
    """Whether a witness can be opened, watch a launch, and be closed. launch: also waits for its end."""
    row = Row(OK, "allowed", {"result": 0})
    try:
        witness.open()
        witness.prepare(_NOBODY)
        witness.before(_NOBODY)
        launch()
        witness.abandon()
    except SamplerError as error:
        row = Row(REFUSED if error.result in ADVICE else FAILED, str(error), {"result": error.result})
    with contextlib.suppress(SamplerError):  # a witness that has failed may fail again
        witness.close()
    return row


_CHECKS: Final[Mapping[str, Callable[[], Row]]] = {
    "triton": _of_triton,
    "torch": _of_torch,
    "cupti": _of_cupti,
    "gpu": _of_gpu,
    "peaks": partial(_of_peaks, "profscope.device.gpus", "known_peaks"),
    "measured peaks": partial(_of_peaks, "profscope.tuning.peaks", "measure_peaks"),
    **{name: partial(_tool, name) for name in ("ptxas", "nvdisasm", "cuobjdump")},
    **{name: partial(_witness, name) for name in ("counts", "samples", "counters")},
}
