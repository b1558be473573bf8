"""`profscope view TRACE -m time/us,count`: a tree of metrics, as proton-viewer shows it."""

import argparse
import re
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from viewer.cells import fit
from viewer.header import EMULATED
from viewer.input import read
from viewer.metrics import Frame, frames_of, metric_names
from viewer.outlet import TABLES, print_json, print_lines, print_rows
from viewer.units import printable

__all__ = ["show"]

MOST_NAMES = 20


def show(profile: Profile, options: argparse.Namespace, unit: str) -> None:
    """Print it. Raises OptionError for what is no metric of the trace, or of the one it is compared with,
    TraceError where no frame is left of all."""
    names = metric_names(profile, options.metrics)
    known = frames_of(profile, names)
    frames = _chosen(known, names[0], options)
    if known and not frames:
        there = ", ".join(dict.fromkeys(printable(frame.name) for frame in known[:MOST_NAMES]))
        raise TraceError(f"no frame is left: -i, -e and -t leave all out; there are: {there}")
    if options.diff_profile:
        other = read(options.diff_profile, verify=options.verify).profile
        if other.emulated != profile.emulated:
            raise OptionError("--diff-profile: one trace is emulated and the other is not")
        metric_names(other, ",".join(names))
        frames = _less(frames, _chosen(frames_of(other, names), names[0], options))
    frames = [frame for frame in frames if not options.depth or frame.depth < options.depth]
    if options.format == "json":
        print_json([{"path": list(frame.path), **frame.values} for frame in frames])
    elif options.format in TABLES:
        print_rows([{"path": ";".join(frame.path), **frame.values} for frame in frames], options.format)
    else:
        width = Console(width=options.width).width
        print_lines(_render(frames, names, options, width, emulated=profile.emulated), width)


def _chosen(frames: list[Frame], metric: str, options: argparse.Namespace) -> list[Frame]:
    """Names are matched from their start, as proton-viewer does."""
    if options.exclude:
        frames = _without(frames, options.exclude)
    if options.include:
        frames = _through(frames, options.include)
    if options.threshold is not None:
        enough = [frame.values.get(metric, 0.0) >= options.threshold for frame in frames]
        frames = _leading_to(frames, enough)
    return frames


def _without(frames: list[Frame], pattern: str) -> list[Frame]:
    """Not those that match, nor what is in them."""
    return [frame for frame in frames if not any(re.match(pattern, name) for name in frame.path)]


def _through(frames: list[Frame], pattern: str) -> list[Frame]:
    """Those that match, what is in them, and what they are in."""
    inside = [any(re.match(pattern, name) for name in frame.path) for frame in frames]
    return _leading_to(frames, inside)


def _leading_to(frames: list[Frame], wanted: list[bool]) -> list[Frame]:
    """The wanted frames, and those they are in."""
    kept: list[Frame] = []
    level = 0
    for frame, is_wanted in zip(reversed(frames), reversed(wanted), strict=True):
        if is_wanted or frame.depth < level:
            kept.append(frame)
            level = frame.depth
    return kept[::-1]


def _less(frames: list[Frame], others: list[Frame]) -> list[Frame]:
    """The metrics of each frame less those of the other trace's frame of the same path; where a frame is in
    one alone, what the other has of it is 0."""
    before = _keyed(others)
    after = _keyed(frames)
    made = []
    for key, frame in after.items():
        other = before.pop(key, None)
        values = {
            name: value - (other.values.get(name, 0.0) if other else 0.0)
            for name, value in frame.values.items()
        }
        made.append(replace(frame, values=values))
    gone = [
        replace(each, values={name: -value for name, value in each.values.items()})
        for each in before.values()
    ]
    for frame in gone:  # behind what is left of what it was in
        above = [at for at, each in enumerate(made) if each.path[: frame.depth] == frame.path[:-1]]
        made.insert(above[-1] + 1 if frame.depth and above else len(made), frame)
    return made


def _keyed(frames: list[Frame]) -> dict[tuple[tuple[str, ...], int], Frame]:
    """By path, and the how many-th of that path it is."""
    keyed: dict[tuple[tuple[str, ...], int], Frame] = {}
    seen: dict[tuple[str, ...], int] = {}
    for frame in frames:
        seen[frame.path] = seen.get(frame.path, -1) + 1
        keyed[frame.path, seen[frame.path]] = frame
    return keyed


def _render(
    frames: list[Frame], names: list[str], options: argparse.Namespace, width: int, *, emulated: bool
) -> list[Text]:
    lines = [Text(EMULATED, style="bold black on yellow")] if emulated else []
    if options.diff_profile:
        lines.append(
            Text(fit(f"{', '.join(names)}: this trace less {options.diff_profile}", width), style="bold")
        )
    columns = [[_text(frame.values.get(name)) for frame in frames] for name in names]
    widths = [max(map(len, [name, *cells])) for name, cells in zip(names, columns, strict=True)]
    head = "  ".join(name.rjust(size) for name, size in zip(names, widths, strict=True))
    lines.append(Text(fit(f"{head}  scope", width), style="dim"))
    for at, frame in enumerate(frames):
        cells = "  ".join(column[at].rjust(size) for column, size in zip(columns, widths, strict=True))
        lines.append(
            Text(
                fit(f"{cells}  {'  ' * frame.depth}{printable(frame.name)}", width),
                style="" if frame.depth else "bold",
            )
        )
    if options.print_sorted and frames:
        lines += [Text(), Text(fit(f"sorted by {names[0]}", width), style="bold")]
        for frame in sorted(frames, key=lambda each: -each.values.get(names[0], 0.0)):
            path = " > ".join(map(printable, frame.path))
            lines.append(Text(fit(f"{_text(frame.values.get(names[0])).rjust(widths[0])}  {path}", width)))
    return lines


def _text(value: float | None) -> str:
    """Three decimals, as proton-viewer has them; whole numbers without."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"
