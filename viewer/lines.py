"""The lines: where each source line's time goes by spans and samples, and why it waits."""

from collections.abc import Collection

from rich.text import Text

from profscope.analysis.model.entries import KernelEntry, LineEntry
from viewer.cells import fit_end, wrap
from viewer.grid import Column, grid, heading
from viewer.units import count_text, printable, share_text, source_text

__all__ = ["render_lines"]

_SHARES = {"self_share": "spans", "sample_share": "samples", "recorded_share": "recorded"}

_WIDE = 120
"""Below this, the text of a line is worth more than its stalls and what recording has changed."""

_LONGEST_PLACE = 20


def _sampled(samples: int) -> str:
    return f" by spans, and by {count_text(samples)} samples" if samples else ""


def _place(row: LineEntry, own_file: str) -> str:
    """The line, and its file if that is not the kernel's: "16", "standard.py:290"."""
    if not row.line or row.file == own_file:
        return str(row.line or "")
    return fit_end(source_text(row.file, row.line), _LONGEST_PLACE)


def _own_file(entry: KernelEntry, rows: Collection[LineEntry]) -> str:
    """The kernel's; if its source is not known, that of the first line that no call led to."""
    own = next((row.file for row in rows if not row.call_paths and row.line), "")
    return own if entry.source is None else entry.source.file


def _stalls(row: LineEntry) -> str:
    return ", ".join(f"{each.stall} {100 * each.share:.0f} %" for each in row.stalls)


def render_lines(entry: KernelEntry, width: int, told: Collection[str] = ()) -> list[Text]:
    """The lines of a kernel that has some, the first a title. told: of what was not measured."""
    assert entry.lines is not None
    rows = entry.lines.rows
    shares = {
        name: head
        for name, head in _SHARES.items()
        if any(getattr(row, name) is not None for row in rows)
        and (width >= _WIDE or name != "recorded_share")
    }
    why = {}
    if width >= _WIDE and any(row.stalls for row in rows):
        why["stalls"] = 3, [_stalls(row) for row in rows]
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
            _place(row, own_file),
            *(share_text(getattr(row, name)) for name in shares),
            printable(row.text or ("" if row.line else "(of no line)")),
            *(printable(texts[at]) for _, texts in why.values()),
        ]
        for at, row in enumerate(rows)
    ]
    about = ["lines by their own time", f"share of warp time{_sampled(entry.lines.samples)}"]
    about += ["recorded: by samples of launches that recorded"] * ("recorded_share" in shares)
    lines = heading(printable(entry.name), about, width)
    lines += grid(columns, cells, [""] * len(cells), width)
    if entry.left_out.lines:
        more = f"{count_text(entry.left_out.lines, 'more line')}; --top 0 shows them"
        lines.append(Text(more, style="dim"))
    for text in entry.lines.not_measured:
        if text not in told:
            lines += [Text(line, style="dim") for line in wrap(printable(text).split(" "), width)]
    return lines
