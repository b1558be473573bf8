"""What the emulator counts in the recorded launches of a session."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from instrument_passes.dialect import PROBED
from instrument_passes.manifest import Manifest
from profscope.compat.programs import manifest_of_binary
from profscope.dispatch.configurations import Configurations

if TYPE_CHECKING:
    from profscope.emulator.device import Device
    from profscope.emulator.machine.counts import Totals
    from profscope.emulator.program import Program
    from profscope.evidence.tables import Evidence

__all__ = ["EmulatedCounts"]


class EmulatedCounts:
    """Installed for the length of a session on the emulator. device: that runs its launches."""

    def __init__(self, device: Device, configurations: Configurations) -> None:
        self._device = device
        self._configurations = configurations
        self._counts: dict[Program, Totals] = {}
        self._tables: tuple[int, Evidence] | None = None  # of so many launches

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement: launches with records are counted."""
        before, self._device.counts = self._device.counts, self._counts
        try:
            yield
        finally:
            self._device.counts = before

    def tables(self) -> Evidence | None:
        """Of the launches so far; None if there are none."""
        from profscope.evidence.emulated import CountedKernel, emulated_evidence  # pandas takes its time

        counts = dict(self._counts)  # another thread may launch meanwhile
        launches = sum(totals.launches for totals in counts.values())
        if launches and (self._tables is None or self._tables[0] != launches):
            recorded = [each.recorded for each in self._configurations.all() if each.recorded is not None]
            kernels = [
                CountedKernel(
                    kernel.name,
                    "" if build is None else build.key,
                    kernel.asm["ptx"],
                    totals,
                    _is_probed(manifest_of_binary(kernel)),
                )
                for kernel, build in ((each.kernel, each.build) for each in recorded)
                if (totals := counts.get(kernel.function)) is not None
            ]
            self._tables = launches, emulated_evidence(kernels)
        return None if self._tables is None else self._tables[1]


def _is_probed(manifest: Manifest) -> bool:
    """Whether the binary looks into tensors, as `value-probe` does."""
    names = {
        column.name for section in manifest.sections for frame in section.frames for column in frame.columns
    }
    return set(PROBED) <= names
