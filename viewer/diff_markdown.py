"""`profscope diff --format md`: a comparison as a comment on a pull request, of 60 lines at most."""

from collections.abc import Iterable, Sequence

from profscope.analysis.comparing.differences import program_text
from profscope.analysis.comparing.gate import not_judged
from profscope.analysis.comparing.pairs import heading_text
from profscope.analysis.texts import clipped
from profscope.viewer.comparison import Comparison, Row
from profscope.viewer.flags import in_flags
from profscope.viewer.header import EMULATED
from profscope.viewer.units import count_text, duration_text, printable

__all__ = ["markdown"]

# Together with headings and empty lines these make 60.
_KERNELS = 15
_DETAILED = 3  # kernels of which rows are shown
_ROWS = 5  # of each
_REMARKS = 4

_CHARACTERS = 300  # of a remark
_ESCAPES = str.maketrans({mark: "\\" + mark for mark in "\\|`*_<>[]#@"})


def markdown(comparison: Comparison) -> list[str]:
    """Its lines: the verdict, a table of kernels, the rows that changed most, and remarks."""
    kernels, unit = comparison.kernels, comparison.unit
    changed = [
        each for each in kernels if each["launch"] is not None and each["launch"]["status"] == "changed"
    ]
    lines = [f"### profscope: {_verdict(comparison, changed)}", ""]
    lines += [_escaped(f"Time {program_text(comparison.program, unit)}"), ""]
    lines += _table(["kernel", "launch"], ([_name(each), each["says"]] for each in kernels[:_KERNELS]))
    lines += _left_out(len(kernels) - _KERNELS, "kernel")
    for each in changed[:_DETAILED]:
        if rows := [row for row in each["rows"] if row["significant"]][:_ROWS]:
            lines += ["", f"Rows of {_escaped(_name(each))} that changed most:", ""]
            lines += _table(["scope", "line", "A", "B", "change"], (_cells(row, unit) for row in rows))
    remarks = [EMULATED] * comparison.emulated
    remarks += [f"not judged: {each}" for each in not_judged(comparison.program)]
    verdicts = {"A": comparison.verdict_a, "B": comparison.verdict_b}
    remarks += [f"verdict of {side}: {text}" for side, text in verdicts.items()]
    remarks += map(in_flags, [*comparison.notes, *comparison.not_measured])
    lines += ["", *(f"- {_escaped(clipped(each, _CHARACTERS))}" for each in remarks[:_REMARKS])]
    return lines + _left_out(len(remarks) - _REMARKS, "remark")


def _verdict(comparison: Comparison, changed: Sequence[Row]) -> str:
    if comparison.fail_above is not None:
        bound = f"by more than {comparison.fail_above:g}%"
        if comparison.has_regressed:
            slower = sum(each["regressed"] for each in comparison.kernels)
            return f"failed, {count_text(slower, 'kernel')} slower {bound}"
        if comparison.leaves_open:
            return "failed, too much of the time was not judged"
        return f"passed, no kernel is slower {bound}"
    slower = sum(each["launch"] is not None and each["launch"]["change"] > 0 for each in changed)
    same = len(comparison.kernels) - len(changed)
    return f"{slower} slower, {len(changed) - slower} faster, {same} others"


def _name(kernel: Row) -> str:
    return heading_text(kernel["kernel"], kernel["configuration"], kernel["differs"])


def _cells(row: Row, unit: str) -> list[str]:
    line = ">".join(dict.fromkeys(str(each) for each in (row["line_a"], row["line_b"]) if each))
    percent = row["status"] if row["percent"] is None else f"{row['percent']:+.1f}%"
    times = (row["total_a"], row["total_b"]) if row["kind"] == "async" else (row["self_a"], row["self_b"])
    return [row["scope"], line, *(duration_text(each, unit) for each in times), percent]


def _table(names: list[str], rows: Iterable[list[str]]) -> list[str]:
    cells = [names, ["---"] * len(names), *(map(_escaped, row) for row in rows)]
    return [f"| {' | '.join(row)} |" for row in cells]


def _left_out(count: int, what: str) -> list[str]:
    return ["", f"{count_text(count, what)} more"] if count > 0 else []


def _escaped(text: str) -> str:
    """A name's marks are not read as Markdown, nor as a mention."""
    return printable(" ".join(text.split())).translate(_ESCAPES)
