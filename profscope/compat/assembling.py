"""PTX assembled by the ptxas of Triton, as Triton does for a compiled kernel.

Used of Triton 3.6 to 3.9: `get_ptxas`, and the options `enable_fp_fusion` and `ptx_options` in a kernel's
metadata.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from triton.compiler import CompiledKernel

from profscope.errors import CompileError

__all__ = ["Assembly", "assembly_of"]

_TARGET: Final = re.compile(r"^\.target\s+(sm_(\d+)\w*)", re.MULTILINE)
_ERROR: Final = re.compile(r"\b(?:error|fatal)\b")  # not what it says of the speed
_AROUND_BUGS: Final = "--regAllocOptLevel=2"  # of ptxas 13, as Triton has it from 3.7 on
_LONGEST_S: Final = 60.0


class Assembly:
    """What a kernel's PTX is assembled with. Needs no Triton any more, so any thread can use it."""

    def __init__(self, command: list[str]) -> None:
        self._command = command

    def cubin(self, ptx: str) -> bytes:
        """Raises CompileError with what ptxas says; a crash, a compilation of more than a minute or a full
        disk is one, too."""
        try:
            with tempfile.TemporaryDirectory(prefix="profscope-") as folder:
                source, binary = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
                source.write_text(ptx, encoding="utf-8")
                done = subprocess.run(
                    [*self._command, str(source), "-o", str(binary)],
                    capture_output=True, text=True, timeout=_LONGEST_S, check=False,
                )  # fmt: skip
                if not done.returncode:
                    return binary.read_bytes()
        except subprocess.TimeoutExpired as error:
            raise CompileError(f"ptxas took more than {_LONGEST_S:g} s") from error
        except OSError as error:
            raise CompileError(f"ptxas: {error}") from error
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        said = next((line for line in lines if _ERROR.search(line)), lines[0])
        raise CompileError(f"ptxas ended with {done.returncode}: {said}")


def assembly_of(kernel: CompiledKernel) -> Assembly:
    """Raises CompileError for a kernel that has no PTX of a GPU, and if there is no ptxas."""
    target = _TARGET.search(str(kernel.asm.get("ptx", "")))
    if target is None:
        raise CompileError("it has no PTX")
    from triton.backends.nvidia.compiler import get_ptxas  # here, since a Triton for AMD alone has none

    try:
        ptxas = get_ptxas(int(target[2])).path
    except RuntimeError as error:  # which is all that says so
        raise CompileError(str(error)) from error
    options = str(getattr(kernel.metadata, "ptx_options", None) or "").split()
    fused = [] if getattr(kernel.metadata, "enable_fp_fusion", True) else ["--fmad=false"]
    return Assembly([ptxas, *fused, _AROUND_BUGS, *options, f"--gpu-name={target[1]}"])
