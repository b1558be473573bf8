"""The model's kernels: their launches, breakdown, findings and lines."""

from collections.abc import Collection, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from profscope.analysis.breakdown import Account, bar_of, bar_symbols, basis_text
from profscope.analysis.cause import FINDINGS_TITLE, qualified_text
from profscope.analysis.findings import OF_THE_EMULATOR
from profscope.analysis.model.entries import KernelEntry, KernelFinding, LineEntry
from profscope.analysis.model.labels import differs_text
from profscope.viewer.flags import in_flags
from profscope.viewer.grid import Column, fit_end, fit_middle, grid, heading, pad, words, wrap
from profscope.viewer.units import count_text, duration_text, printable, share_text, source_text

__all__ = [
    "MOST_ACCOUNTS",
    "kernel_rows",
    "render_account",
    "render_findings",
    "render_kernels",
    "render_lines",
]

_TIMES = {"median": 0, "p25": 4, "p75": 2}
"""Of launches, and which short lines leave out first."""


MOST_ACCOUNTS = 3
"""Kernels and variants with a bar: those whose launches took longest."""

_NAME = 32
"""Cells of a kernel's name in front of its bar."""

_LEAST_BAR = 10
"""Cells of a bar; names give way to it."""

MOST_FINDINGS = 5
"""Kinds of findings shown as text: those that can bring most."""


MOST_PLACES = 3
"""Of each, the places that are shown."""

_SHARES = {"self_share": "spans", "share_samples": "samples"}

_WIDE = 120
"""Below this, the text of a line is worth more than its stalls."""

_LONGEST_PLACE = 20


def render_kernels(
    kernels: Sequence[KernelEntry], unit: str, width: int, most: int, said: Sequence[str] = ()
) -> list[Text]:
    """The table's lines; the `most` longest-running kernels (0: all). said: of their times, in the title."""
    shown = kernels[: most or None]
    in_cycles = ["cycles"] if unit == "cycles" else []
    about = ["launch time: first to last record, recording cost included", *in_cycles, *said]
    lines = heading("kernels", about, width)
    lines += kernel_rows(shown, unit, width)
    if len(shown) < len(kernels):
        lines.append(Text(f"{len(kernels) - len(shown)} more kernels; --top 0 shows them", style="dim"))
    for entry in shown:
        if entry.untimed:
            many = count_text(entry.untimed, "launch", "launches")
            why = f"{many} without records or without an end: no time known."
            lines += [Text(line) for line in wrap(f"{printable(entry.name)}: {why}".split(" "), width)]
    return lines


def kernel_rows(kernels: Sequence[KernelEntry], unit: str, width: int) -> list[Text]:
    """The head of the table, and a row for each of some kernels."""
    columns = [
        Column("kernel", "kernel"),
        Column("launches"),
        Column("CTAs", spare=3),
        Column("total", spare=1),
    ]
    columns += [Column("share"), *(Column(name, spare=spare) for name, spare in _TIMES.items())]
    with_bare = unit == "ns" and any(entry.bare_time for entry in kernels)
    columns += [Column("bare", spare=2)] * with_bare
    with_label = any(entry.label for entry in kernels)
    if with_label:  # not behind the name, which may be cut
        columns[1:1] = [Column("variant"), Column("configuration", "name", spare=5)]
    cells = []
    for entry in kernels:
        names = [printable(entry.kernel)]
        names += [entry.label, differs_text(entry.differs)] if with_label else []
        ctas = entry.ctas.recorded
        counts = [count_text(entry.launches), count_text(ctas) if ctas else "-"]
        bare = duration_text(entry.bare_time.median, unit) if entry.bare_time else "-"
        cells.append([*names, *counts, *_time_cells(entry, unit), *[bare] * with_bare])
    return grid(columns, cells, [""] * len(cells), width)


def _time_cells(entry: KernelEntry, unit: str) -> list[str]:
    """Total, share, and the columns of _TIMES."""
    time = entry.time
    if time is None:
        return [duration_text(0, unit), share_text(entry.share), *["-"] * len(_TIMES)]
    each = [duration_text(getattr(time, name), unit) for name in _TIMES]
    return [duration_text(time.total, unit), share_text(entry.share), *each]


def render_account(
    name: str, account: Account, title: str, width: int, told: Collection[str] = ()
) -> list[Text]:
    """The title, the bar of a kernel of this name, and below that what the bar's cells stand for, and what
    the bar cannot tell. told: of that, what other bars have said."""
    lines = [Text(line, style="bold") for line in wrap(words(title), width)]
    short = fit_middle(printable(name), min(_NAME, width // 2, width - _LEAST_BAR - 2))
    label = cell_len(short) + 2
    lines.append(Text(pad(short, label) + bar_of(account.shares, max(_LEAST_BAR, width - label))))
    symbols = bar_symbols(account.shares)
    legend = [f"{symbols[share]} {share} {share_text(part)}" for share, part in account.shares.items()]
    legend.append(f"(from {basis_text(account.basis)})")
    lines += [Text(f"  {line}") for line in wrap(legend, width - 2, "  ")]
    caveats = [text for text in account.caveats if text not in told]
    return lines + [
        Text(f"  {line}", style="dim") for text in caveats for line in wrap(words(in_flags(text)), width - 2)
    ]


def render_findings(
    rows: Sequence[KernelFinding],
    width: int,
    most: int = MOST_FINDINGS,
) -> list[Text]:
    """`most` kinds of findings (0: all): the gain, the place, the evidence, and the advice; texts that
    several kernels share appear once."""
    lines = [Text(line, style="bold") for line in wrap(FINDINGS_TITLE.split(), width)]
    alike: dict[tuple[str, str], list[KernelFinding]] = {}
    for row in rows:
        alike.setdefault((row.own.finding, row.own.advice), []).append(row)
    groups = list(alike.values())
    for own in groups[: most or None]:
        lines += _finding_group(own, width, MOST_PLACES if most else 0)
    if most and len(groups) > most:
        left = sum(map(len, groups[most:]))
        lines.append(
            Text(f"{count_text(left, 'more finding')}; --show findings --top 0 has them", style="dim")
        )
    return lines


def _finding_group(rows: list[KernelFinding], width: int, most: int) -> Iterator[Text]:
    """Findings of one kind with one advice: a heading with what the first saves, and below it each place."""
    first = rows[0]
    heading = [first.own.finding, *(_finding_place(first) if len(rows) == 1 else [f"in {len(rows)} places"])]
    own = first.own
    known = qualified_text(own.gain, own.program_pct, _confidence(rows), own.basis)
    for at, text in enumerate(wrap([*heading, f"({known})"], width - 6)):
        yield Text(f"{_saved(first)}  {text}" if not at else f"      {text}", style="bold")
    told = ""
    for row in rows[: most or None]:
        evidence = row.own.evidence.removesuffix(OF_THE_EMULATOR)  # the first line says that
        said = words("as above" if evidence == told else evidence)
        if len(rows) == 1:
            yield from (Text(f"      {line}") for line in wrap(said, width - 6))
        else:
            *place, kernel = _finding_place(row)
            for at, line in enumerate(wrap([*place, f"{kernel}:", *said], width - 12)):
                yield Text(f"{'' if at else f'{_saved(row):>9}':9}   {line}")
        told = evidence
    if most and len(rows) > most:
        yield Text(f"            {len(rows) - most} more; --show findings --top 0 has them", style="dim")
    for line in wrap(words(f"Try: {in_flags(first.own.advice)}."), width - 6):
        yield Text(f"      {line}")


def _finding_place(row: KernelFinding) -> list[str]:
    """Where it is: the line, and the kernel."""
    return [part for part in (source_text(row.own.file, row.own.line), printable(row.kernel.name)) if part]


def _saved(row: KernelFinding) -> str:
    """What it saves of the kernel's time; "?" if that is not known."""
    return "  ? " if row.own.gain_pct is None else f"{row.own.gain_pct:3.0f}%"


def _confidence(rows: list[KernelFinding]) -> str:
    return ", ".join(dict.fromkeys(row.own.confidence for row in rows))


def _sampled(samples: int) -> str:
    return f" by spans, and by {count_text(samples)} samples" if samples else ""


def _line_place(row: LineEntry, own_file: str) -> str:
    """The line, and its file if that is not the kernel's: "16", "standard.py:290"."""
    if not row.line or row.file == own_file:
        return str(row.line or "")
    return fit_end(source_text(row.file, row.line), _LONGEST_PLACE)


def _own_file(entry: KernelEntry, rows: Collection[LineEntry]) -> str:
    """The kernel's; if its source is not known, that of the first line that no call led to."""
    own = next((row.file for row in rows if not row.call_paths and row.line), "")
    return own if entry.source is None else entry.source.file


def render_lines(entry: KernelEntry, width: int, told: Collection[str] = ()) -> list[Text]:
    """The lines of a kernel that has some, the first a title. told: entries of `not_measured` shown
    already."""
    assert entry.lines is not None
    rows = entry.lines.rows
    shares = {
        name: head for name, head in _SHARES.items() if any(getattr(row, name) is not None for row in rows)
    }
    why = {}
    if width >= _WIDE and any(row.stalls for row in rows):
        why["stalls"] = 3, [row.stalls_text for row in rows]
    if any(row.waits_for for row in rows):
        why["waits for"] = 2, [row.waits_for for row in rows]
    columns = [
        Column("line"),
        *(Column(head) for head in shares.values()),
        Column("source", "name", spare=1),
        *(Column(name, "name", spare=spare) for name, (spare, _) in why.items()),
    ]
    own_file = _own_file(entry, rows)
    cells = [
        [
            _line_place(row, own_file),
            *(share_text(getattr(row, name)) for name in shares),
            printable(row.source or ("" if row.line else "(no source line)")),
            *(printable(texts[at]) for _, texts in why.values()),
        ]
        for at, row in enumerate(rows)
    ]
    about = ["lines by their own time", f"share of warp time{_sampled(entry.lines.samples)}"]
    if {"self_share", "share_samples"} <= shares.keys():
        about.append("a load's wait is in samples at its first use, in spans at the loop or def")
    lines = heading(printable(entry.name), about, width)
    lines += grid(columns, cells, [""] * len(cells), width)
    if entry.left_out.lines:
        more = f"{count_text(entry.left_out.lines, 'more line')}; --top 0 shows them"
        lines.append(Text(more, style="dim"))
    for text in entry.lines.not_measured:
        if text not in told:
            lines += [Text(line, style="dim") for line in wrap(printable(in_flags(text)).split(" "), width)]
    return lines
