"""torch.compile's tuner of a small kernel, on the emulator. Importing Inductor takes seconds."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import hints
from torch._inductor.runtime import triton_heuristics as heuristics

from profscope.compat.programs import manifest_in
from profscope.emulator.compiler import ARCH, BACKEND_NAME

# ruff: noqa: N803
__all__ = ["Tuner", "heuristics", "recording", "triton_poi_double"]


@triton.jit
def triton_poi_double(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(out_ptr0 + at, tl.load(in_ptr0 + at, at < xnumel) * 2, at < xnumel)


class Tuner(heuristics.CachingAutotuner):  # type: ignore[misc]
    """Inductor's tuner of one kernel, on the emulator; `timed`: of launchers timed, whether they record."""

    def __init__(self, blocks: tuple[int, ...] = (256,), kernel: Any = triton_poi_double) -> None:
        properties = hints.DeviceProperties(type=BACKEND_NAME, index=0, multi_processor_count=2, cc=ARCH)
        self.timed: list[bool] = []
        super().__init__(
            kernel,
            triton_meta={
                "signature": {
                    "in_ptr0": "*fp32",
                    "out_ptr0": "*fp32",
                    "xnumel": "i32",
                    "XBLOCK": "constexpr",
                },
                "device": properties,
                "constants": {},
                "configs": [{}],
            },
            configs=[triton.Config({"XBLOCK": block}, num_warps=2) for block in blocks],
            save_cache_hook=None,
            mutated_arg_names=[],
            optimize_mem=False,
            heuristic_type=heuristics.HeuristicType.POINTWISE,
            size_hints={"x": 1024},
            inductor_meta={"grid_type": "Grid1D", "kernel_name": kernel.__name__},
        )

    @classmethod
    def of(cls, kernel: Any) -> Tuner:
        """What a generated module makes of its kernel."""
        return cls(kernel=kernel)

    def get_device_interface(self) -> Any:
        from torch._dynamo.device_interface import CpuInterface

        return CpuInterface

    def _make_launchers(self) -> None:
        self.launchers = [result.make_launcher() for result in self.compile_results]

    def bench(self, launcher: Any, *args: Any, **kwargs: Any) -> float:
        self.timed.append(recording(launcher))
        return 1.0 / launcher.config.kwargs["XBLOCK"]

    def launch(self, n: int = 1000) -> None:
        x = torch.arange(n, dtype=torch.float32)
        out = torch.empty_like(x)
        self.run(x, out, n, stream=0)
        assert torch.equal(out, 2 * x)


def recording(launcher: Any) -> bool:
    return manifest_in(launcher.__globals__["bin"].asm["ttgir"]) is not None
