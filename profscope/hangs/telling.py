"""A launch that hangs, in words and as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from profscope.analysis.texts import ranges_of, source_text
from profscope.hangs.standing import Standing
from profscope.hangs.watched_launches import WatchedLaunch

__all__ = ["Progress", "Seen", "hang_rows", "hang_text", "late_text", "slow_text"]

_SHOWN: Final = 4  # patterns of CTAs
Read = Callable[[int, int], bytes | None]


class Seen(NamedTuple):
    """A launch as a look has seen it. begun, ended: of its CTAs; warps: that have not ended; after_s: since
    it began; why: of the emulator's own finding."""

    launch: WatchedLaunch
    begun: int
    ended: int
    warps: Sequence[Standing]
    after_s: float
    read: Read
    why: str = ""

    @property
    def name(self) -> str:
        return (
            f"{self.launch.program.manifest.kernel}, launch {self.launch.index}, after {self.after_s:.1f} s"
        )


class Progress(NamedTuple):
    """Between two looks. rate: iterations a second of one warp; done, of: of its loop, 0 if not known."""

    rate: float
    done: int
    of: int


def hang_text(seen: Seen) -> str:
    """Several lines: how many CTAs hang, and where the warps of each kind of them stand."""
    by_cta = {cta: list(warps) for cta, warps in groupby(seen.warps, key=lambda each: each.cta)}
    patterns: dict[tuple[Any, ...], list[int]] = {}
    for cta, warps in by_cta.items():
        patterns.setdefault(_pattern(seen, warps), []).append(cta)
    lines = [f"{seen.name}: {_counts(seen, len(by_cta))}{f' ({seen.why})' if seen.why else ''}"]
    for ctas in list(patterns.values())[:_SHOWN]:
        lines += _pattern_lines(seen, ctas, by_cta)
    if len(patterns) > _SHOWN:
        others = sum(len(ctas) for ctas in list(patterns.values())[_SHOWN:])
        lines.append(f"  {others} CTAs stand elsewhere; prof.hangs has them")
    return "\n".join([*lines, "  nothing but the end of this process stops it"])


def slow_text(seen: Seen, progress: Progress) -> str:
    """One line of a launch that goes on."""
    share = f", {100 * progress.done / progress.of:.0f} % of {progress.of:,} done" if progress.of else ""
    rate = f"{progress.rate:,.0f} iterations/s of a warp{share}" if progress.rate else "its warps move on"
    return f"{seen.name}: slow, not hanging: {rate}; {_counts(seen, None)}"


def late_text(launch: WatchedLaunch, waited_s: float) -> str:
    """One line of a launch that has not begun, though no launch before it in its stream is under way."""
    return (
        f"{launch.program.manifest.kernel}, launch {launch.index}, has not begun for {waited_s:.1f} s: its "
        "stream waits for an event of another stream or other work before it, or the GPU has no room"
    )


def hang_rows(seen: Seen) -> list[dict[str, Any]]:
    """One for each warp that has not ended, as `prof.hangs` has them."""
    manifest = seen.launch.program.manifest
    return [
        {
            "kernel": manifest.kernel,
            "variant": seen.launch.variant,
            "launch": seen.launch.index,
            "cta": each.cta,
            "sm": each.sm,
            "warp": each.warp,
            "partition": _partition(seen, each.mark.section),
            "file": each.mark.file,
            "line": each.mark.line,
            "op": each.mark.op,
            "iteration": each.iteration,
            "waits_for": _waits_for(seen, each),
            "arrives": _arrives(seen, each),
            "since_s": round(each.since_s, 3),
        }
        for each in seen.warps
    ]


def _counts(seen: Seen, hanging: int | None) -> str:
    total = f"{seen.launch.ctas:,} CTA{'s' * (seen.launch.ctas != 1)}"
    hang = "" if hanging is None else f"{hanging:,} {'hangs' if hanging == 1 else 'hang'}"
    ended = min(seen.ended, seen.begun - (hanging or 0))  # the first warp of one that hangs may have ended
    waiting = seen.launch.ctas - seen.begun
    parts = [f"{ended:,} ended", f"{waiting:,} {'has' if waiting == 1 else 'have'} not begun", hang]
    return f"{total}; {', '.join(part for part in parts if part)}"


def _pattern(seen: Seen, warps: Sequence[Standing]) -> tuple[Any, ...]:
    """Alike for CTAs whose warps stand alike, whatever their iteration."""
    return tuple((each.warp, each.mark, _waits_for(seen, each, value=False)) for each in warps)


def _pattern_lines(seen: Seen, ctas: list[int], by_cta: dict[int, list[Standing]]) -> list[str]:
    first = by_cta[ctas[0]]
    where = f"CTA {ctas[0]} (SM {first[0].sm})"
    if len(ctas) > 1:
        where = f"{len(ctas)} CTAs ({_numbers(ctas)}), such as {where}"
    lines = []
    key = lambda each: (each.mark.section, each.mark, _waits_for(seen, each))  # noqa: E731
    groups = [list(group) for _, group in groupby(sorted(first, key=lambda e: (-e.since_s, e.warp)), key=key)]
    for at, warps in enumerate(groups):
        begin = f"  {where}: " if at == 0 else "    "
        lines.append(f"{begin}{_who(seen, warps)} {_does(seen, warps)}{_where_in_loop(warps)}")
    arriving = dict.fromkeys((_name(each), _arrives(seen, each)) for each in first if each.mark.arrivals)
    lines += [f"    who arrives at {name}: {who}" for name, who in arriving]
    if any(each.mark.op == "ttng.wait_barrier" and not each.mark.arrivals for each in first):
        lines.append("    no op of the kernel arrives at this mbarrier")
    return lines


def _who(seen: Seen, warps: Sequence[Standing]) -> str:
    numbers = _numbers([each.warp for each in warps])
    noun = f"warp{'s' * (len(warps) > 1)} {numbers}"
    partition = _partition(seen, warps[0].mark.section)
    return f"{partition} ({noun})" if partition else noun


def _does(seen: Seen, warps: Sequence[Standing]) -> str:
    each, is_one = warps[0], len(warps) == 1
    mark, place = each.mark, _place(each.mark.file, each.mark.line)
    text = f"{'is' if is_one else 'are'} behind {mark.label}{place}"
    if mark.kind == "at":
        verb = "poll" if mark.waits_for == "memory" else "wait"
        what = _waits_for(seen, each)
        text = f"{verb}{'s' * is_one} {'' if verb == 'poll' else 'for '}{what}{place}"
    elif mark.kind == "begin":
        text = f"{'has' if is_one else 'have'} begun and reached no mark"
    elif mark.kind != "past":
        text = f"{'is' if is_one else 'are'} in {mark.label}{place}"
    return text if each.since_s != each.since_s else f"{text}, for {each.since_s:.1f} s"


def _where_in_loop(warps: Sequence[Standing]) -> str:
    first = warps[0]
    if first.mark.loop < 0:
        return ""
    text = f", iteration {_numbers(sorted({each.iteration for each in warps}))}"
    of = f" of {first.iterations:,}" if first.iterations else ""
    if not first.is_inner:
        return text + of
    return f"{text}, of the outermost loop {_numbers(sorted({each.outer for each in warps}))}{of}"


def _waits_for(seen: Seen, each: Standing, *, value: bool = True) -> str:
    """ "mbarrier full[2] phase 1"; value: also what the memory holds that it polls."""
    mark = each.mark
    if mark.kind != "at":
        return ""
    if mark.detail == "barrier":
        return f"{_name(each)} phase {each.detail[1]}"
    if mark.detail == "phase":
        return f"{mark.waits_for} phase {each.detail[1]}"
    if mark.detail == "address":
        return _memory(seen, each.detail[0] | each.detail[1] << 32, value=value)
    return mark.waits_for


def _name(each: Standing) -> str:
    return (
        f"{each.mark.waits_for}[{each.detail[0]}]" if each.mark.detail == "barrier" else each.mark.waits_for
    )


def _memory(seen: Seen, address: int, *, value: bool) -> str:
    """An address: the argument it is in, and the 32 bits there, which are read only inside of one."""
    holding = [each for each in seen.launch.tensors if each.address <= address < each.end]
    if not holding:
        return f"memory at {address:#x}"
    inside = max(holding, key=lambda each: each.address)
    offset = address - inside.address
    text = f"{inside.name} + {offset} bytes" if offset else inside.name
    found = seen.read(address, 4) if value and address + 4 <= inside.end else None
    return text if found is None else f"{text} (holds {int.from_bytes(found, 'little', signed=True)})"


def _arrives(seen: Seen, each: Standing) -> str:
    if each.mark.kind != "at":
        return ""
    who = (
        f"{_partition(seen, arrival.section) or 'the kernel'}{_place(arrival.file, arrival.line)}"
        for arrival in each.mark.arrivals
    )
    return "; ".join(dict.fromkeys(who))


def _partition(seen: Seen, section: int) -> str:
    """ "" if the kernel is not warp-specialised."""
    sections = seen.launch.program.manifest.sections
    if len(sections) == 1:
        return ""
    return "default partition" if section == 0 else sections[section].name.replace("partition", "partition ")


def _place(file: str, line: int) -> str:
    return f" at {source_text(file, line)}" if line else ""


def _numbers(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 5]: "0 to 2, 5"."""
    runs = [
        f"{first}" if first == last else f"{first} to {last}" if last > first + 1 else f"{first}, {last}"
        for first, last in ranges_of(numbers)
    ]
    shown = ", ".join(runs[:_SHOWN])
    return f"{shown}, ..." if len(runs) > _SHOWN else shown
