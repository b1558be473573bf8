"""Matches places of one profile's source to the other's, and so their rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

import pandas as pd

from profscope.instrument_passes.manifest import PATH_SEPARATOR

__all__ = ["Lines", "aligned", "matched"]

_Line = tuple[str, int]

_STEP = re.compile(r"(?P<function>.*) (?P<file>\S+):(?P<line>\d+)(?P<column>:\d+)?$", re.DOTALL)
_LOOP = re.compile(r"\bL(\d+)\b")


class Lines:
    """Lines of profile a's source files as those of b's, by the functions' texts that both have.

    Files go by their names without folders: a binary out of Triton's cache still says where its source was
    when it was compiled. Lines that no text has stand where they stood, in the file of the same name.
    """

    def __init__(self, sources_a: Sequence[dict[str, Any]], sources_b: Sequence[dict[str, Any]]) -> None:
        self._to: dict[_Line, _Line] = {}
        self._known_b: set[_Line] = set()
        for a, b in _pairs(sources_a, sources_b):
            before, after = (_lines(source) for source in (a, b))
            file_a, file_b = _name(a["file"]), _name(b["file"])
            for at, other in enumerate(aligned(before, after)):
                line = file_a, a["line"] + at
                # A line that has gone is no line of b's: those count from 1.
                self._to.setdefault(line, (file_b, b["line"] + other if other is not None else -line[1]))
            self._known_b |= {(file_b, b["line"] + at) for at in range(len(after))}

    def place(self, file: str, line: int) -> _Line:
        """A file's name and a line as they would be in b."""
        if (file, line) in self._to:
            return self._to[file, line]
        return file, (-line if (file, line) in self._known_b else line)

    def path(self, call_path: str) -> str:
        """A call path as it would read in b."""
        return PATH_SEPARATOR.join(map(self._step, call_path.split(PATH_SEPARATOR)))

    def _step(self, step: str) -> str:
        parts = _STEP.match(step)
        if parts is None:
            return step
        file, line = self.place(parts["file"], int(parts["line"]))
        return f"{parts['function']} {file}:{line}{parts['column'] or ''}"


class _Row(NamedTuple):
    """What tells a row from the others of its kernel and variant, in the coordinates of b; file: its name."""

    scope: str
    kind: str
    file: str
    line: int
    call_path: str


def matched(
    places_a: pd.DataFrame, places_b: pd.DataFrame, lines: Lines
) -> list[tuple[int | None, int | None]]:
    """Pairs of rows of two tables of places, each row in one; None if it is in one of the tables only.

    Rows are the same where scope, kind, line and call path are; and, of those left, where all but the path
    are, and on either side only one is so.
    """
    rows_a = [_in_b(row, lines) for row in _rows(places_a)]
    rows_b = list(_rows(places_b))
    pairs: dict[int, int] = {}
    for key in (lambda row: row, lambda row: row[:-1]):
        _pair(rows_a, rows_b, key, pairs)
    taken = set(pairs.values())
    only_b: list[tuple[int | None, int | None]] = [(None, at) for at in range(len(rows_b)) if at not in taken]
    return [*((at, pairs.get(at)) for at in range(len(rows_a))), *only_b]


def _pair(
    rows_a: Sequence[_Row], rows_b: Sequence[_Row], key: Callable[[_Row], Any], pairs: dict[int, int]
) -> None:
    """Add the rows that are left, and alone on either side with their key."""
    taken = set(pairs.values())
    left = {at: key(row) for at, row in enumerate(rows_a) if at not in pairs}
    free = {at: key(row) for at, row in enumerate(rows_b) if at not in taken}
    once = Counter(left.values()), Counter(free.values())
    place = {of: at for at, of in free.items()}
    pairs |= {at: place[of] for at, of in left.items() if once[0][of] == 1 and once[1][of] == 1}


def _rows(places: pd.DataFrame) -> list[_Row]:
    columns = (places[name].tolist() for name in _Row._fields)
    return [_Row(*row)._replace(file=_name(row[2])) for row in zip(*columns, strict=True)]


def _in_b(row: _Row, lines: Lines) -> _Row:
    file, line = lines.place(row.file, row.line)
    # A loop is named after its line.
    scope = row.scope
    if row.kind == "loop":
        scope = _LOOP.sub(lambda at: f"L{line}" if int(at[1]) == row.line else at[0], scope)
    return _Row(scope, row.kind, file, line, lines.path(row.call_path))


def _pairs(
    sources_a: Sequence[dict[str, Any]], sources_b: Sequence[dict[str, Any]]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Texts of functions of the same name: equal ones first, then in order."""
    texts_a, texts_b = _by_name(sources_a), _by_name(sources_b)
    pairs = []
    for name in texts_a.keys() & texts_b.keys():
        left, free = list(texts_a[name]), list(texts_b[name])
        for alike in (_is_equal, _is_in_file_of_same_name, lambda a, b: True):
            for a in list(left):
                b = next((b for b in free if alike(a, b)), None)
                if b is not None:
                    pairs.append((a, b))
                    left.remove(a)
                    free.remove(b)
    return pairs


def _is_equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return bool(a["text"] == b["text"])


def _is_in_file_of_same_name(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return _name(a["file"]) == _name(b["file"])


def _by_name(sources: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    texts: dict[str, list[dict[str, Any]]] = {}
    for source in sources:
        texts.setdefault(source["name"], []).append(source)
    return texts


def _lines(source: dict[str, Any]) -> list[str]:
    return str(source["text"]).splitlines()


def _name(file: str) -> str:
    return file.replace("\\", "/").rsplit("/", 1)[-1]


# Which line of one text is which of another, after somebody has edited it.

_ALIKE: Final = 0.6  # lines in one another's place that are at least so alike are one line, edited
_LARGEST: Final = 1 << 14  # pairs of lines that are looked at in one place: each takes some 10 us


def aligned(before: Sequence[str], after: Sequence[str]) -> list[int | None]:
    """For each line of `before` its index in `after`, None if it has gone. Indentation does not count.

    First the lines in between which nothing changed order, so that equal lines are told apart by it; then
    lines that stand elsewhere, where only one reads so; then lines in one another's place that read alike.
    """
    old, new = [line.strip() for line in before], [line.strip() for line in after]
    result: list[int | None] = [None] * len(old)
    replaced = []
    for tag, begin, end, new_begin, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            result[begin:end] = range(new_begin, new_end)
        elif tag == "replace":
            replaced.append((range(begin, end), range(new_begin, new_end)))
    _moved(old, new, result)
    taken = set(result)
    for lines, others in replaced:
        left = [at for at in lines if result[at] is None and old[at]]
        free = [at for at in others if at not in taken and new[at]]
        for at, other in _edited(left, free, old, new):
            result[at] = other
    return result


def _moved(old: Sequence[str], new: Sequence[str], result: list[int | None]) -> None:
    """Add lines that are left, once on either side."""
    taken = set(result)
    lines = [at for at in range(len(old)) if result[at] is None and any(map(str.isalnum, old[at]))]
    others = [at for at in range(len(new)) if at not in taken]
    times, other_times = Counter(old[at] for at in lines), Counter(new[at] for at in others)
    place = {new[at]: at for at in others}
    for at in lines:
        if times[old[at]] == 1 and other_times[old[at]] == 1:
            result[at] = place[old[at]]


def _edited(
    lines: Sequence[int], others: Sequence[int], old: Sequence[str], new: Sequence[str]
) -> list[tuple[int, int]]:
    """Pairs, in the order of both, that are most alike in sum."""
    if len(lines) * len(others) > _LARGEST:
        return []
    best: list[list[tuple[float, list[tuple[int, int]]]]] = [[(0.0, [])] * (len(others) + 1)]
    for at in lines:
        row: list[tuple[float, list[tuple[int, int]]]] = [(0.0, [])]
        for column, other in enumerate(others, 1):
            choices = [best[-1][column], row[-1]]
            ratio = SequenceMatcher(None, old[at], new[other], autojunk=False).ratio()
            if ratio >= _ALIKE:
                score, pairs = best[-1][column - 1]
                choices.append((score + ratio, [*pairs, (at, other)]))
            row.append(max(choices, key=lambda choice: choice[0]))
        best.append(row)
    return best[-1][-1][1]
