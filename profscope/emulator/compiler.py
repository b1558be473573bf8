"""The compiler half of the Triton backend: NVIDIA's pipeline for sm_80, with the PTX itself as binary.

Triton imports this module whenever it is imported itself (the `triton.backends` entry point), and it wants
exactly one concrete backend class in it; so nothing but Triton is imported and nothing here may fail.
"""

from typing import Any

import triton
from triton.backends import compiler as base

try:
    from triton.backends.nvidia import compiler as nvidia
except ImportError:  # a Triton built without its NVIDIA backend: the emulator then supports no target
    nvidia = None

__all__ = ["ARCH", "BACKEND_NAME", "EmulatorBackend"]

BACKEND_NAME = "profscope"
ARCH = 80
_BINARY = "emulated"
PTX_VERSION = 86  # fixed, where CUDABackend would ask a ptxas; what every supported Triton's LLVM knows


class EmulatorBackend(nvidia.CUDABackend if nvidia else base.BaseBackend):  # type: ignore[misc]
    """Compiles like `CUDABackend` for sm_80; the binary is the PTX's bytes and ptxas is never called."""

    def __init__(self, target: base.GPUTarget) -> None:
        super().__init__(target)
        self.binary_ext = _BINARY

    @staticmethod
    def supports_target(target: base.GPUTarget) -> bool:
        return nvidia is not None and target.backend == BACKEND_NAME

    def parse_options(self, opts: dict[str, Any]) -> Any:
        return super().parse_options({"ptx_version": PTX_VERSION, **opts})

    def add_stages(self, stages: dict[str, Any], *args: Any) -> None:
        super().add_stages(stages, *args)
        stages.pop("cubin", None)
        stages[_BINARY] = lambda ptx, metadata: ptx.encode()

    def hash(self) -> str:
        return f"{BACKEND_NAME}-{triton.__version__}-{_BINARY}-ptx{PTX_VERSION}-sm{ARCH}-cuda"


if nvidia is None:  # concrete all the same: Triton refuses to start on a backend module without a class
    EmulatorBackend.__abstractmethods__ = frozenset()
