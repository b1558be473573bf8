"""The SASS that a profile keeps of binaries that were sampled."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from instrument_passes.kept_text import unpacked

__all__ = ["Instruction", "sampled_code"]


class Instruction(NamedTuple):
    """pc: as in the table of samples; text: "LDG.E R2, [R2]"."""

    pc: int
    text: str
    file: str
    line: int


def sampled_code(
    metadata: dict[str, Any], kernel: str, variant: int, binary: str = ""
) -> tuple[str, list[Instruction]] | None:
    """Which binary of a kernel's variant it is, "bare" or "spans", and its instructions in order.

    binary: that one alone; "": the one whose samples `lines()` ranks by, the bare one, else one that records.
    None where the profile keeps none. Raises IRError or ValueError where what is kept cannot be read.
    """
    binaries = (metadata.get("sampler") or {}).get("binaries") or []
    own = [each for each in binaries if (each["kernel"], each["variant"]) == (kernel, variant)]
    own = [each for each in own if binary in ("", each["binary"])]
    own.sort(key=lambda each: bool(each["binary"] != "bare"))
    entry = next((each for each in own if each.get("sass")), None)
    if entry is None:
        return None
    return str(entry["binary"]), [Instruction(*row[:4]) for row in json.loads(unpacked(entry["sass"]))]
