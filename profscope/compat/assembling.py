"""PTX assembled by the ptxas of Triton, as Triton does for a compiled kernel.

Used of Triton 3.6 to 3.9: `knobs.nvidia.ptxas`, `ptxas_blackwell`, and the options `enable_fp_fusion` and
`ptx_options` in a kernel's metadata.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from triton import knobs
from triton.compiler import CompiledKernel

from profscope.errors import CompileError

__all__ = ["Assembly", "assembly_of"]

_TARGET: Final = re.compile(r"^\.target\s+(sm_(\d+)\w*)", re.MULTILINE)
_BLACKWELL: Final = 100
_LONGEST_S: Final = 60.0


class Assembly:
    """What a kernel's PTX is assembled with. Needs no Triton any more, so any thread can use it."""

    def __init__(self, command: list[str]) -> None:
        self._command = command

    def cubin(self, ptx: str) -> bytes:
        """Raises CompileError with what ptxas says; a crash or a compilation of more than a minute is one,
        too."""
        with tempfile.TemporaryDirectory(prefix="profscope-") as folder:
            source, binary = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
            source.write_text(ptx)
            try:
                done = subprocess.run(
                    [*self._command, str(source), "-o", str(binary)],
                    capture_output=True, text=True, timeout=_LONGEST_S, check=False,
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired) as error:
                raise CompileError(f"ptxas: {error}") from error
            if done.returncode:
                said = (done.stderr or done.stdout).strip().splitlines()
                raise CompileError(f"ptxas ended with {done.returncode}: {said[0] if said else 'no message'}")
            return binary.read_bytes()


def assembly_of(kernel: CompiledKernel) -> Assembly:
    """Raises CompileError for a kernel that has no PTX of a GPU."""
    target = _TARGET.search(str(kernel.asm.get("ptx", "")))
    if target is None:
        raise CompileError("it has no PTX")
    tool = knobs.nvidia.ptxas_blackwell if int(target[2]) >= _BLACKWELL else knobs.nvidia.ptxas
    options = str(getattr(kernel.metadata, "ptx_options", None) or "").split()
    fused = [] if getattr(kernel.metadata, "enable_fp_fusion", True) else ["--fmad=false"]
    return Assembly([tool.path, *fused, *options, f"--gpu-name={target[1]}"])
