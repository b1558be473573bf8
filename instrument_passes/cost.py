"""The cost of instrumentation, measured on the two binaries, without a GPU.

The instructions that records add run whenever the records do; what they cost in time depends on what the
warp would otherwise have waited for, and only a run tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from profscope.instrument_passes import LOWERING
from profscope.instrument_passes.analyses.occupancy import limits_of
from profscope.instrument_passes.contractions import unlike_text
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.passes import Pass, PassContext
from profscope.instrument_passes.passes.lower_records import LowerRecords, manifest_of
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.instrument_passes.records import MIN_RING_LOG2
from profscope.instrument_passes.toolchain import Binary, build

__all__ = ["Cost", "cost", "render"]

# Backend -> what its instructions are called, and what a CTA runs on.
_WORDS: Final = {"cuda": ("SASS", "SM"), "hip": ("AMDGCN", "CU")}


@dataclass(frozen=True)
class Cost:
    """The bare binary, one with the CTA's header but no record, and the instrumented one. Both of these have
    a second body, for CTAs that do not record, where the passes make one.

    records: clock reads in the program, however often they run.
    """

    bare: Binary
    header: Binary
    instrumented: Binary
    manifest: Manifest
    records: int

    @property
    def instructions_per_record(self) -> float:
        """Instructions that the records add to the header's, per clock read; 0 without records."""
        added = len(self.instrumented.instructions) - len(self.header.instructions)
        return added / self.records if self.records else 0.0


def cost(text: str, file: str, pipeline: list[Pass], context: PassContext) -> Cost:
    """Build a module as it is and with the passes. Raises PassError, ToolchainError."""
    lowering = parse_pipeline(LOWERING)
    header, module = parse(text, file), parse(text, file)
    lowered = any(step.name == "lower-records" for step in pipeline)
    run_pipeline(module, pipeline if lowered else [*pipeline, *lowering], context)
    manifest = manifest_of(module)
    if manifest is None:
        raise PassError("the passes leave no manifest", file)
    alike = [
        replace(step, unrecorded=manifest.stamps) if isinstance(step, LowerRecords) else step
        for step in lowering
    ]
    run_pipeline(header, alike, context)
    records = sum(value.name.startswith("%ps_clock_") for op in module.walk() for value in op.results)
    bare, instrumented = build(text, file), build(str(module), file, text)
    return Cost(bare, build(str(header), file), instrumented, manifest, records)


def render(cost: Cost) -> str:
    """The two binaries side by side, and the line `X.Y <machine language> instructions per record`."""
    pair = (cost.bare, cost.instrumented)
    backend = cost.bare.target.partition(":")[0]
    language, processor = _WORDS[backend]
    rows = [
        ("registers per thread", *(b.registers for b in pair)),
        ("spills and stack, bytes", *(b.local_bytes for b in pair)),
        ("shared memory, bytes", *(b.shared_bytes for b in pair)),
        ("warps per CTA", *(b.warps for b in pair)),
    ]
    limits = limits_of(cost.bare.target)
    if limits is not None:
        fits = [limits.fit(b.warps, b.registers, b.shared_bytes) for b in pair]
        rows.append((f"CTAs per {processor}", *fits))
        occupied = (100 * n * b.warps // limits.warps for n, b in zip(fits, pair, strict=True))
        rows.append(("occupancy, %", *occupied))
    rows.append((f"{language} instructions", *(len(b.instructions) for b in pair)))
    lines = [f"{cost.manifest.kernel} on {cost.bare.target}", f"{'':<26}{'bare':>12}{'instrumented':>14}"]
    lines += [f"{name:<26}{bare:>12}{instrumented:>14}" for name, bare, instrumented in rows]
    lines += _rounding(cost)
    fixed = len(cost.header.instructions) - len(cost.bare.instructions)
    what = "each CTA's header" + (" and a second body" if cost.manifest.twin else "")
    lines += [
        _buffer(cost.manifest),
        f"{cost.records} records, {fixed} {language} instructions for {what}",
        f"{cost.instructions_per_record:.1f} {language} instructions per record",
    ]
    return "\n".join(lines) + "\n"


def _rounding(cost: Cost) -> list[str]:
    """A line if the two may round differently; none if they do not, or if that is unknown."""
    bare, instrumented = cost.bare.contractions, cost.instrumented.contractions
    places = [] if bare is None or instrumented is None else instrumented.unlike(bare)
    return [f"results may round differently: {unlike_text(places)}"] if places else []


def _buffer(manifest: Manifest) -> str:
    least = manifest.cta_bytes(MIN_RING_LOG2)
    if not manifest.ring_bytes:
        return f"{least} buffer bytes per CTA"
    row = manifest.warps * manifest.ring_bytes
    rings = f"rings of {1 << MIN_RING_LOG2} iterations; {row} more for each further one"
    return f"{least} buffer bytes per CTA with {rings}"
