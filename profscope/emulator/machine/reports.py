"""What kernels say: device_print and failed assertions."""

import sys

import numpy as np

from profscope.emulator.arrays import Array
from profscope.emulator.machine.batch import Batch
from profscope.emulator.machine.block import Site
from profscope.emulator.machine.memory import LOCAL_WINDOW
from profscope.emulator.machine.text import format_c, read_c_string

__all__ = ["assertion_failed", "print_from_threads"]


def print_from_threads(batch: Batch, mask: Array | None, text: Array, values: Array) -> None:
    """vprintf: one call a thread, in the order of their numbers, to where this process prints."""
    active = np.broadcast_to(np.True_ if mask is None else mask, batch.shape)
    texts, buffers = (np.broadcast_to(a, batch.shape) for a in (text, values))
    for cta, warp, lane in zip(*np.nonzero(active), strict=True):
        start = int(buffers[cta, warp, lane]) - LOCAL_WINDOW
        data = batch.local[cta, warp, lane][max(start, 0) :].tobytes()
        template = read_c_string(batch.memory, int(texts[cta, warp, lane]))
        sys.stdout.write(format_c(template, data, lambda address: read_c_string(batch.memory, address)))


def assertion_failed(
    batch: Batch, mask: Array | None, site: Site, message: Array, file: Array, line: Array
) -> None:
    """Raise what the assertion says, if a thread is active."""
    active = np.broadcast_to(np.True_ if mask is None else mask, batch.shape)
    if not active.any():
        return
    said = read_c_string(batch.memory, int(message.flat[0]))
    place = f"{read_c_string(batch.memory, int(file.flat[0]))}:{int(line.flat[0])}"
    raise batch.error(site, f"assertion failed at {place}: {said}", active, None)
