"""The process that builds edited kernels: reads jobs, and answers each with a line of JSON (see `builds`)."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

from profscope.binaries.listing import class_of, read_listing
from profscope.compat.edited import build
from profscope.compat.triton_parts import CompiledKernel, knobs
from profscope.emulator.ptx_syntax import ptx_class
from profscope.experiments.builds import Job
from profscope.experiments.worker_processes import Asker
from profscope.instrument_passes.toolchain import disassembled
from profscope.recording.diagnostics import reason

__all__ = ["main"]


def main() -> int:
    """Serve the process that started this one, until it closes the pipe or is gone."""
    program = Asker()
    with contextlib.suppress(EOFError):
        while True:
            program.answer(_answer(program.read()))
    return 0


def _answer(job: Job) -> dict[str, Any]:
    knobs.cache.dir = job.cache
    if job.libdevice is not None:
        knobs.nvidia.libdevice_path = job.libdevice
    try:
        kernel = build(job.path, job.options)
        return {"failed": "", "instructions": _instructions(kernel)}
    except Exception as error:  # noqa: BLE001  whatever it is, the program is to be told
        return {"failed": reason(error), "instructions": None}


def _instructions(kernel: CompiledKernel) -> dict[str, int]:
    """How many instructions of each class the binary has, accesses with their widths."""
    cubin = kernel.asm.get("cubin")
    if cubin is not None:
        listed = read_listing(disassembled(cubin)).instructions
        return dict(Counter(f"{class_of(each.name)} {_width(each.opcode)}".strip() for each in listed))
    found: Counter[str] = Counter()
    for line in kernel.asm["ptx"].splitlines():
        words = line.split()
        opcode = next((word for word in words if not word.startswith("@")), "")
        if line.startswith("\t") and "." in opcode[1:] and not opcode.startswith(".") and ";" in line:
            found[f"{ptx_class(opcode)} {_width(opcode)}".strip()] += 1
    return dict(found)


def _width(opcode: str) -> str:
    """ "128" of LDG.E.128, "v4" of ld.global.v4.b32."""
    parts = opcode.split(".")[1:]
    return next((part for part in parts if part in ("64", "128", "v2", "v4", "U8", "U16", "x2", "x4")), "")
