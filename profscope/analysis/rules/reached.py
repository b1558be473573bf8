"""What a kernel has reached: dram-bound, tensor-bound and the like. A result, not a fault, and no gain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import NO_GAIN, Finding, Quantity, cited, of_peak
from profscope.analysis.limits import RESOURCES
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.kernel import Kernel

__all__ = ["reached"]

_NAMES: Final = {"tensor": "tensor", "dram": "dram", "l2": "l2", "shared": "l1", "l1": "l1"}
_WORK: Final = {"dram": "sectors", "l2": "sectors", "l1": "sectors", "shared": "wavefronts"}


def reached(kernel: Kernel, advice: str) -> Iterator[Finding]:
    """The resource that binds the kernel, if one does. advice: in place of the general one, if other findings
    say what to do. Of the emulator there is none: its resources are those of a model."""
    resource = kernel.resources.binding
    if (
        not resource
        or kernel.emulated
        or kernel.used[resource] < thresholds.BOUND
        or "counts" not in kernel.known
    ):
        return
    used, table = kernel.used[resource], kernel.table
    place = table.place_of_most(table.amount(_WORK.get(resource, "executed"))) or kernel.place
    part = min(1.0, used / thresholds.attainable(resource))
    general = (
        "only less of this work is faster: the hardware does no more of it" if used >= thresholds.NEAR_ROOF
        else "less of this work, the busiest resource; it is not at its limit, so waits count, too"
    )  # fmt: skip
    yield Finding(
        f"{_NAMES.get(resource, 'issue')}-bound", *place,
        cited(
            "{what}: {used}, {reached}", what=RESOURCES[resource][1], used=of_peak(used),
            reached=Quantity(100 * part, "% of what good kernels reach"),
        ),
        advice or general, NO_GAIN, "high",
    )  # fmt: skip
