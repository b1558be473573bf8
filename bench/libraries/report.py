"""The results of all ops as a table of libraries, and all that has to be named."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from bench.libraries.compare import Outcome
from bench.table import Cell, Row, render

__all__ = ["failures", "table"]

_MOST = 20  # texts of a kind
_ROUNDS = "results may round differently"  # in a note of a session


def failures(row: Row) -> list[str]:
    """What a session did to an op that it must not; one line each."""
    error = _error(row)
    if error:
        return [f"not finished: {error}"]
    done = Outcome(**row.about)
    lost = sum(done.launched.values()) - sum(done.recorded.values())
    return [
        *(f"raised in the session only: {label}: {text}" for label, text in done.raised_inside.items()),
        *(
            f"differs {gap}: {label}"
            for label, gap in done.differing.items()
            if not done.atomics  # then the order of CTAs may decide
        ),
        *(f"validate(): {text}" for text in done.problems),
        *(
            f"accused, with the same bits: {note}"
            for note in done.notes
            if _ROUNDS in note and not done.differing
        ),
        *([f"{lost} launches are neither recorded nor noted"] if lost and not done.notes else []),
    ]


def table(rows: Sequence[Row]) -> str:
    """A line for each library, then what is named; see `Outcome` for the words."""
    libraries: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.group, row.name)):
        libraries.setdefault(row.group, []).append(row)
    lines = [render(Row("library", name, "", _cells(mine)) for name, mine in libraries.items())]
    for name, mine in libraries.items():
        done = [(row.name, Outcome(**row.about)) for row in mine if not _error(row)]
        ordered = [(op, found) for op, found in done if found.differing and found.atomics]
        sections = {
            "WRONG in a session": [f"{row.name}: {text}" for row in mine for text in failures(row)],
            "differs in a session, and has kernels whose results depend on an order": [
                f"{op}: {found.differing} {found.atomics}" for op, found in ordered
            ],
            "differs from one bare run to the next": [
                f"{op}: {found.unsteady} {found.atomics or 'no atomics'}"
                for op, found in done
                if found.unsteady
            ],
            "not compared, since a bare call broke the GPU's context; leave that out by --skip": [
                f"{op}: {found.lost}" for op, found in done if found.lost
            ],
            "notes": _counted(note for _, found in done for note in found.notes),
            "calls that fail without a session, too": _counted(
                text for _, found in done for text in found.raised.values()
            ),
        }
        for title, texts in sections.items():
            lines += [f"\n{name}: {title}", *(f"  {text}" for text in texts)] if texts else []
    return "\n".join(lines)


def _cells(rows: Sequence[Row]) -> dict[str, Cell]:
    done = [Outcome(**row.about) for row in rows if not _error(row)]
    ran = [found for found in done if found.compared]
    figures = {
        "ops": len(rows),
        "ran": len(ran),
        "calls": sum(found.compared for found in ran),
        "kernels": len({kernel for found in ran for kernel in found.recorded}),
        "launches": sum(sum(found.launched.values()) for found in ran),
        "recorded": sum(sum(found.recorded.values()) for found in ran),
        "identical": sum(found.compared - len(found.unsteady) - len(found.differing) for found in ran),
        "unsteady bare": sum(len(found.unsteady) for found in ran),
        "differing": sum(len(found.differing) for found in ran),
        "wrong ops": sum(bool(failures(row)) for row in rows),
    }
    return {name: Cell((float(value),)) for name, value in figures.items()}


def _error(row: Row) -> str:
    return next((cell.error for cell in row.cells.values() if cell.error), "")


def _counted(texts: Iterable[str]) -> list[str]:
    """The most frequent texts, numbers apart."""
    counts = Counter(re.sub(r"\d+", "N", text)[:200] for text in texts)
    return [f"{count} x {text}" for text, count in counts.most_common(_MOST)]
