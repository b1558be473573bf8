"""Answers of questions: rows become a table of fixed columns, with a list of unknowns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final, NamedTuple, Self

import pandas as pd

from profscope.analysis.cause import FINDINGS_TITLE, Gain, qualified_text
from profscope.analysis.texts import Markup, joined, source_text, tag
from profscope.errors import OptionError
from profscope.schema import empty_frame

__all__ = [
    "EVIDENCE_LEFT_OUT", "Answer", "AnswerTable", "FindingsTable", "answer_frame", "is_part", "joined_frame",
    "refused_evidence", "refused_experiments", "rows_of_kernels",
]  # fmt: skip


_TOLD: Final = (
    "kernel", "variant", "finding", "file", "line", "evidence", "advice", "gain_pct", "gain_low_pct",
    "gain_high_pct", "program_pct", "confidence", "basis",
)  # fmt: skip
_MOST_TOLD: Final = 20  # rows
_WIDTH: Final = 100
_WIDEST: Final = 28  # of a column
_WIDEST_TABLE: Final = 120
_DIGITS: Final = 3
_INDENT: Final = " " * 8


class Answer(NamedTuple):
    """The answer to a question for one configuration: rows, and unknowns with reasons."""

    rows: list[dict[str, Any]]
    not_measured: list[str]


EVIDENCE_LEFT_OUT: Final = "evidence_left_out"
"""Of the metadata of a part of a trace: which part it is, and the kernels and variants of which it has only
some launches, or a part of each, so that the trace's samples, counts and counters of them are left out."""


def refused_evidence(metadata: Mapping[str, Any]) -> str:
    """Why there is no evidence; "" if there is some, or the session was not told to ask."""
    left_out = metadata.get(EVIDENCE_LEFT_OUT)
    if left_out:
        return (
            "evidence is of whole launches, all of a kernel's together: the whole trace has it, not "
            f"{left_out['part']} alone"
        )
    return "; ".join((metadata.get("evidence") or {}).get("not_measured") or ())


def refused_experiments(metadata: Mapping[str, Any]) -> list[str]:
    """Kernels without experiments, with reasons, if the session was told to make some."""
    missing = (metadata.get("evidence") or {}).get("not_measured") or ()
    return [text for text in missing if "experiments" in text]


def is_part(metadata: Mapping[str, Any], kernel: str, variant: int) -> bool:
    """Whether a trace has evidence of a configuration that this part of it has not."""
    left_out = metadata.get(EVIDENCE_LEFT_OUT) or {"kernels": []}
    return [kernel, variant] in left_out["kernels"]


class AnswerTable(pd.DataFrame):
    """The answer to a question: all columns of its schema. Printed, it shows the columns that have values, in
    blocks as wide as a line. Tables made of it are plain DataFrames."""

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    @classmethod
    def of(cls, answer: pd.DataFrame) -> Self:
        table = cls(answer)
        table.attrs = answer.attrs
        return table

    def __repr__(self) -> str:
        return _in_blocks(_with_values(self))

    def _repr_html_(self) -> str | None:
        told = _told_columns(_with_values(self))
        shown: str | None = told._repr_html_()  # type: ignore[operator]  # not in its stubs
        return shown


def _with_values(table: pd.DataFrame) -> pd.DataFrame:
    """A plain table without the columns that are null or "" in all rows."""
    plain = pd.DataFrame(table)
    return plain.loc[:, ((plain != "") & plain.notna()).any()] if len(plain) else plain


def _in_blocks(table: pd.DataFrame) -> str:
    """All columns, side by side as far as they fit: pandas would leave out those in the middle."""
    plain = _told_columns(table)
    with pd.option_context(
        "display.width", _WIDEST_TABLE, "display.max_columns", None, "display.show_dimensions", False,
        "display.max_colwidth", _WIDEST, "display.precision", _DIGITS,
    ):  # fmt: skip
        text = repr(plain.head(_MOST_TOLD))
    left = len(plain) - _MOST_TOLD
    return f"{text}\n{left} more rows" if left > 0 else text


def _told_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Without columns of lists and dicts, and without variants if each is the first; files by last name."""
    plain = table.loc[:, [not (_has_lists(table[name]) or _is_first_variant(table[name])) for name in table]]
    if "file" in plain:
        plain = plain.assign(file=plain["file"].astype("str").str.rsplit("/", n=1).str[-1])
    return plain


def _has_lists(column: pd.Series) -> bool:
    return column.dtype == object and bool(column.map(lambda each: isinstance(each, (list, dict))).any())


def _is_first_variant(column: pd.Series) -> bool:
    return str(column.name).startswith("variant") and bool((column == 0).all())


class FindingsTable(pd.DataFrame):
    """Findings. Notebook and terminal show whole sentences; pandas would cut cells at 50 characters and leave
    out columns. Without findings it shows that, and the facts known of each kernel. Copies, rows, columns and
    pickles behave alike."""

    @property
    def _constructor(self) -> Callable[..., FindingsTable]:
        return FindingsTable

    def __repr__(self) -> str:
        if not len(self):
            return "\n".join(self._no_findings())
        if not set(_TOLD) <= set(self.columns):
            return super().__repr__()
        rows = self.head(_MOST_TOLD).to_dict("records")
        left = [f"{len(self) - _MOST_TOLD} more rows"] * (len(self) > _MOST_TOLD)
        return "\n".join([FINDINGS_TITLE, *(line for row in rows for line in _told(row)), *left])

    def _as_list(self) -> Markup:
        """The terminal's text, whose sentences the browser breaks into lines."""
        rows = self.head(_MOST_TOLD).to_dict("records")
        items = [
            tag("li", tag("b", _headline(row)), *(tag("p", text) for text in _sentences(row))) for row in rows
        ]
        left = len(self) - len(rows)
        return tag(
            "div",
            tag("p", f"{FINDINGS_TITLE}:"),
            tag("ul", *items),
            tag("p", f"{left} more rows") if left else None,
        )

    def _no_findings(self) -> list[str]:
        clean: dict[str, str] = self.attrs.get("clean") or {}
        if self.attrs.get("launches") == 0:
            return ["No findings: no launch was recorded."]
        return ["No findings.", *(f"{kernel}: {text}" for kernel, text in clean.items())]

    def _repr_html_(self) -> str | None:
        if not len(self):
            return str(joined(tag("p", text) for text in self._no_findings()))
        if set(_TOLD) <= set(self.columns):
            return str(self._as_list())
        with pd.option_context("display.max_colwidth", None):
            shown: str | None = _with_values(self)._repr_html_()  # type: ignore[operator]  # not in its stubs
        return shown


def _told(row: Mapping[Hashable, Any]) -> Iterator[str]:
    """A finding in lines of a terminal: gain and place, evidence, advice."""
    yield _headline(row)
    for text in _sentences(row):
        yield from wrap(text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)


def _sentences(row: Mapping[Hashable, Any]) -> tuple[str, str]:
    return row["evidence"], f"Try: {row['advice']}."


def _headline(row: Mapping[Hashable, Any]) -> str:
    kernel = row["kernel"] + f" #{row['variant']}" * (row["variant"] > 0)
    where = ", ".join(filter(None, [row["finding"], kernel, source_text(row["file"], row["line"])]))
    gain = Gain(*(row[name] for name in ("gain_pct", "gain_low_pct", "gain_high_pct")))
    said = qualified_text(gain, row["program_pct"], row["confidence"], row["basis"])
    saved = "   ?" if math.isnan(gain.expected) else f"{gain.expected:4.0f} %"
    return f"{saved}  {where} ({said})"


def answer_frame(
    rows: Sequence[Mapping[str, Any]],
    dtypes: Mapping[str, str],
    not_measured: Iterable[str] = (),
) -> pd.DataFrame:
    """The rows as a table of these columns; attrs["not_measured"]: list of str."""
    table = empty_frame(dtypes)
    if rows:
        table = pd.DataFrame(
            {name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in dtypes.items()}
        )
    table.attrs["not_measured"] = list(not_measured)
    return table


def joined_frame(answers: Iterable[Answer], dtypes: Mapping[str, str]) -> pd.DataFrame:
    """As `answer_frame`, of the answers on several configurations."""
    told = list(answers)
    rows = [row for each in told for row in each.rows]
    return answer_frame(rows, dtypes, (text for each in told for text in each.not_measured))


def rows_of_kernels(answer: pd.DataFrame, kernels: str, launched: Iterable[str]) -> pd.DataFrame:
    """The rows of kernels whose name the regular expression matches somewhere, renumbered.

    launched: the names of all kernels. Raises OptionError for a bad regular expression, and if it matches no
    kernel.
    """
    try:
        pattern = re.compile(kernels)
    except (re.error, TypeError) as error:
        raise OptionError(f"kernels={kernels!r} is not a regular expression: {error}") from None
    names = list(dict.fromkeys(launched))
    matching = [name for name in names if pattern.search(name)]
    if not matching:
        raise OptionError(f"kernels={kernels!r} matches no kernel; there are: {', '.join(names) or 'none'}")
    return answer[answer["kernel"].isin(matching)].reset_index(drop=True)
