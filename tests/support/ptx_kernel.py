"""Running a few lines of PTX on arrays, for tests of single instructions."""

from typing import Any

import numpy as np

from profscope.emulator.device import Device, Model
from profscope.emulator.launcher import Launch
from profscope.emulator.machine.counts import Totals
from profscope.emulator.machine.memory import Allocation, GlobalMemory
from profscope.emulator.program import load

PARAMETERS = ("a", "b", "c", "out")


def assemble(body: str, threads: int = 32, declarations: str = "") -> str:
    """A kernel with pointer parameters a, b, c, out in %a %b %c %out, around `body`.

    %t is the thread's number in the grid; %r %q %d %s %p %f %h registers are there to use.
    """
    params = ",\n".join(
        f"  .param .u64 .ptr .global .align 1 kernel_param_{i}" for i in range(len(PARAMETERS))
    )
    loads = "\n".join(f"  ld.param.b64 %{name}, [kernel_param_{i}];" for i, name in enumerate(PARAMETERS))
    return f"""
.version 8.6
.target sm_80
.address_size 64
{declarations}
.visible .entry kernel(
{params}
)
.reqntid {threads}
{{
  .reg .pred %p<20>;
  .reg .b16 %h<20>;
  .reg .b32 %r<40>;
  .reg .b32 %t;
  .reg .b32 %cta;
  .reg .b64 %q<40>;
  .reg .b64 %a, %b, %c, %out;
{loads}
  mov.u32 %t, %tid.x;
  mov.u32 %cta, %ctaid.x;
  mad.lo.u32 %t, %cta, {threads}, %t;
{body}
  ret;
}}
"""


def run(
    body: str,
    *arrays: np.ndarray,
    threads: int = 32,
    ctas: int = 1,
    shared: int = 1024,
    declarations: str = "",
    device: Device | None = None,
    **options: Any,
) -> None:
    """Run `body` on up to four arrays, the last of which is %out."""
    names = [*PARAMETERS[: len(arrays) - 1], "out"]
    given = dict(zip(names, arrays, strict=True))
    pointers: list[Allocation | None] = []
    for name in PARAMETERS:
        array = given.get(name)
        address = array.ctypes.data if array is not None else 0
        pointers.append(
            Allocation(name, address, array.nbytes, address, array) if array is not None else None
        )
    program = load(assemble(body, threads, declarations).encode(), "kernel")
    known = [p for p in pointers if p is not None]
    Launch(
        program=program,
        device=device or Device(),
        grid=(ctas, 1, 1),
        warps=threads // 32,
        shared_bytes=shared,
        memory=GlobalMemory([*known, *program.variables], pointers),
        parameters=[np.full((1, 1, 1), p.base if p else 0, np.uint64) for p in pointers],
        **options,
    ).run()


LANE = "mov.u32 %r1, %laneid;\n"
SHARED_AT = LANE + "mov.b32 %r3, memory;\nmad.lo.u32 %r2, %r1, {stride}, %r3;\n"


def counted(body: str, *, threads: int = 32, ctas: int = 1, sms: int = 16) -> tuple[int, Totals]:
    """Cycles of a launch, and its counts. %a has 64 KiB from a line on, `memory` is shared memory of 8 KiB;
    what is stored to %out, the last parameter, is for records."""
    given, nothing = np.zeros(65536 + 128, np.uint8), np.zeros(16, np.uint8)
    given = given[-given.ctypes.data % 128 :][:65536]
    device = Device(Model(sm_count=sms), counts={})
    run(
        body, given, nothing, nothing, nothing, threads=threads, ctas=ctas, shared=8192, device=device,
        declarations=".extern .shared .align 16 .b8 memory[];", is_counted=True,
    )  # fmt: skip
    assert device.counts is not None
    (totals,) = device.counts.values()
    assert totals.launches == 1
    return device.cycles, totals
