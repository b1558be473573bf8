"""What the emulator counts in the recorded launches of a session."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from profscope.compat.programs import manifest_of_binary
from profscope.compat.triton_parts import CompiledKernel
from profscope.dispatch.configurations import Configurations
from profscope.evidence.subject import ExperimentedKernel, of_configurations
from profscope.instrument_passes.dialect import PROBED
from profscope.instrument_passes.manifest import Manifest

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
        self._tables: tuple[tuple[int, int], Evidence] | None = None  # of so many launches and experiments

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement: launches with records are counted."""
        before, self._device.counts = self._device.counts, self._counts
        try:
            yield
        finally:
            self._device.counts = before

    def tables(self, experiments: Sequence[ExperimentedKernel]) -> Evidence | None:
        """Of the launches so far, with experiments; None if there are none."""
        from profscope.evidence.emulated import CountedKernel, emulated_evidence  # pandas takes its time

        counted = self._counted()
        numbers = sum(totals.launches for _, _, totals in counted), len(experiments)
        if any(numbers) and (self._tables is None or self._tables[0] != numbers):
            kernels = [
                CountedKernel(
                    kernel.name, key, kernel.asm["ptx"], totals, _is_probed(manifest_of_binary(kernel))
                )
                for kernel, key, totals in counted
            ]
            self._tables = numbers, emulated_evidence(kernels, experiments)
        return None if self._tables is None else self._tables[1]

    def tensors(self) -> list[dict[str, Any]]:
        """As the metadata's entry "evidence" has them; see `Observing.describe`."""
        return of_configurations(
            {"kernel": kernel.name, "key": key, "bytes": totals.tensors}
            for kernel, key, totals in self._counted()
        )

    def launch_ns(self) -> dict[tuple[str, str], tuple[float, float]]:
        """By kernel and key what a recorded launch takes, and would take without the instructions of records.
        One that is probed is left out: threads exchange the values, too."""
        sums: dict[tuple[str, str], Counter[str]] = {}
        for kernel, key, totals in self._counted():
            if not _is_probed(manifest_of_binary(kernel)):
                recorded, bare = totals.cycles
                own = sums.setdefault((kernel.name, key), Counter())
                own.update(launches=totals.launches, recorded=recorded, bare=bare)
        ms = self._device.model.milliseconds
        return {
            key: (1e6 * ms(own["recorded"]) / own["launches"], 1e6 * ms(own["bare"]) / own["launches"])
            for key, own in sums.items()
        }

    def _counted(self) -> list[tuple[CompiledKernel, str, Totals]]:
        """Of each configuration that has been recorded its binary, its key and its counts."""
        counts = dict(self._counts)  # another thread may launch meanwhile
        recorded = [each.recorded for each in self._configurations.all() if each.recorded is not None]
        return [
            (kernel, "" if build is None else build.key, totals)
            for kernel, build in ((each.kernel, each.build) for each in recorded)
            if (totals := counts.get(kernel.function)) is not None
        ]


def _is_probed(manifest: Manifest) -> bool:
    """Whether the binary looks into tensors, as `value-probe` does."""
    names = {
        column.name for section in manifest.sections for frame in section.frames for column in frame.columns
    }
    return set(PROBED) <= names
