"""Launching an exported kernel as its description says, on the emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from triton.backends.compiler import GPUTarget

from profscope.aot.compiling import compiled, described
from profscope.aot.decoding import Description
from profscope.emulator.compiler import ARCH, BACKEND_NAME
from profscope.emulator.device import Device
from profscope.emulator.launcher import Launch
from profscope.emulator.machine.memory import Allocation, GlobalMemory
from profscope.emulator.program import load
from profscope.options import Options

__all__ = ["Exported"]

Bytes = npt.NDArray[np.uint8]
KINDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Exported:
    """A kernel compiled for the emulator as `export` compiles it; `description` is what it would write."""

    def __init__(self, kernel: Any, signature: Mapping[str, Any], num_warps: int = 4, **options: Any) -> None:
        chosen, target = Options(**options), GPUTarget(BACKEND_NAME, ARCH, 32)
        function, said, self.binary = compiled(kernel, signature, target, chosen, {"num_warps": num_warps})
        self.description = Description(described(function, self.binary, said, chosen))

    def launch(
        self, grid: Sequence[int], arguments: Mapping[str, Any], stride_log2: int = 0, ring_log2: int = 10
    ) -> Bytes:
        """What a launch wrote, from the aligned address on. arguments: arrays and numbers."""
        document = self.description.document
        profile, ctas = document["profile"], int(np.prod(grid))
        area = profile["cta_bytes"] + (profile["ring_bytes"] << ring_log2)
        size = profile["header_bytes"] + -(-ctas >> stride_log2) * area
        memory = np.zeros(size + profile["alignment"], np.uint8)
        begin = -memory.ctypes.data % profile["alignment"]
        records = memory[begin : begin + size]
        address = records.ctypes.data
        bits = profile["enable_bits"] | stride_log2 << profile["stride_shift"]
        bits |= ring_log2 - profile["min_ring_log2"] << profile["ring_shift"]
        pointers: list[Allocation | None] = []
        values: list[int] = []
        for each in document["parameters"]:
            given = records if each["name"] == "profile_scratch" else arguments.get(each["name"], 0)
            if isinstance(given, np.ndarray):
                at = given.ctypes.data
                pointers.append(Allocation(each["name"], at, given.nbytes, at, given))
                values.append(address | bits if given is records else at)
            else:
                pointers.append(None)
                values.append(given)
        sizes = [each["bytes"] for each in document["parameters"]]
        Launch(
            program=load(self.binary.kernel, document["entry"]),
            device=Device(),
            grid=(grid[0], grid[1], grid[2]),
            warps=document["launch"]["threads_per_cta"] // 32,
            shared_bytes=document["launch"]["shared_bytes"],
            memory=GlobalMemory([each for each in pointers if each is not None], pointers),
            parameters=[
                np.full((1, 1, 1), value, KINDS[size]) for value, size in zip(values, sizes, strict=True)
            ],
        ).run()
        return records
