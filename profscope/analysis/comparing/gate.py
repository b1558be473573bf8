"""The verdict of a gate on a comparison: launches slower than a bound, and launches that could not be
judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Self, TypeAlias

from profscope.analysis.answers import AnswerTable
from profscope.analysis.comparing.cell import comparison_html, has_columns
from profscope.analysis.comparing.code_changes import code_difference
from profscope.analysis.comparing.differences import differences
from profscope.analysis.comparing.operands import LAUNCH
from profscope.analysis.comparing.pairs import heading_text
from profscope.analysis.texts import percentage, three_digits
from profscope.errors import DiffError
from profscope.schema import Tables

__all__ = [
    "LEFT_OPEN", "NOTHING_JUDGED", "Difference", "LaunchRow", "is_judged", "is_slower", "launch_text",
    "leaves_open", "not_judged",
]  # fmt: skip

_MOST_NOT_JUDGED: Final = 0.05
"""The part of either side's time that a gate leaves open."""

LEFT_OPEN: Final = f"more than {_MOST_NOT_JUDGED:.0%} of the time was not judged"
NOTHING_JUDGED: Final = "nothing to judge: no kernel's launches have times in both profiles"


LaunchRow: TypeAlias = Mapping[str, Any]
"""A row of `profscope.diff` that compares whole launches, by column."""


class Difference(AnswerTable):
    """The result of `profscope.diff`, with a gate's verdict and the differences in the code."""

    _sides: tuple[Tables, Tables] | None = None

    @classmethod
    def between(cls, a: Tables, b: Tables) -> Self:
        """The difference of two profiles. Raises DiffError."""
        table = cls.of(differences(a, b))
        table._sides = a, b
        return table

    @cached_property
    def code(self) -> AnswerTable:
        """Differences in the compiled code by source line, the costliest of each kernel first.

        kernel, variant_a, variant_b, file, line (0: the kernel as a whole), fact, a, b. change: extra time of
        its line and of the lines that wait for it, in attrs["unit"]; percent: of a's launch; basis: its
        source, "samples", "spans" or "experiment"; missing if unknown.

        For each pair attrs["explained"] has `percent`, the change of a launch, and `explained`, the part at
        lines whose code differs or that wait for these.
        """
        if self._sides is None:
            raise DiffError("only what profscope.diff returned has .code, no table made of it")
        table = AnswerTable.of(code_difference(*self._sides, self))
        table.attrs["unit"] = self.attrs["unit"]
        return table

    def failed(self, above: float | str) -> list[str]:
        """Why a gate fails that lets launches become `above` percent slower, 5 or "5%"; empty if it passes.

        A reason names each kernel that became slower by more than that and by more than noise, and says if
        more than 5 % of either profile's time was not judged (`not_judged`). For these `profscope diff
        --fail-above` ends with 3 or 4. Raises OptionError for a bound that is no percentage.
        """
        bound = percentage(above)
        reasons = [
            f"{name}: {launch_text(row, self.attrs['unit'])}; the bound is {bound:g}%"
            for name, row in self._launches()
            if is_slower(row, bound)
        ]
        if not any(is_judged(row) for _, row in self._launches()):
            reasons.append(NOTHING_JUDGED)
        elif leaves_open(self.attrs["program"]):
            reasons.append(f"{LEFT_OPEN}: {'; '.join(self.not_judged)}")
        return reasons

    @property
    def not_judged(self) -> list[str]:
        """Launches that a gate cannot judge, with the reason and their part of the time."""
        return [*not_judged(self.attrs["program"])]

    def too_noisy(self, above: float | str) -> list[str]:
        """Launches that may be slower by more than `above` percent although their change is within noise:
        half of its 95 % interval, floor included, is wider than this bound."""
        bound, unclear = percentage(above), []
        for name, row in self._launches():
            if not is_judged(row) or not row["self_a"] or is_slower(row, bound):
                continue
            noise, most = (
                100 * each / row["self_a"] for each in ((row["high"] - row["low"]) / 2, row["high"])
            )
            if noise > bound and most > bound:
                unclear.append(f"{name}: too noisy to tell: {noise:.1f} % against a bound of {bound:g} %")
        return unclear

    @property
    def launches(self) -> list[str]:
        """The change of each kernel's launches, a line each."""
        return [f"{name}: {launch_text(row, self.attrs['unit'])}" for name, row in self._launches()]

    def _repr_html_(self) -> str | None:
        if not has_columns(self):
            return super()._repr_html_()
        return str(comparison_html(self, self.launches))

    def _launches(self) -> Iterator[tuple[str, LaunchRow]]:
        """Rows of whole launches, with what is compared."""
        rows: list[LaunchRow] = self[self["kind"] == LAUNCH].to_dict("records")  # type: ignore[assignment]
        for row in rows:
            yield heading_text(row["kernel"], row["configuration"], row["differs"]), row


def is_slower(row: LaunchRow, bound: float) -> bool:
    """Whether launches became slower by more than a bound, in percent, and by more than noise."""
    return bool(row["significant"] and row["status"] == "changed" and (row["percent"] or 0.0) > bound)


def is_judged(row: LaunchRow) -> bool:
    """Whether both profiles have the launches."""
    return bool(row["status"] in ("same", "changed"))


def leaves_open(program: Mapping[str, Any]) -> bool:
    """Whether more of the time is not judged than a gate leaves open. program: of a comparison's attrs."""
    return bool(max(program["not_judged_a"], program["not_judged_b"]) > _MOST_NOT_JUDGED)


def not_judged(program: Mapping[str, Any]) -> Iterable[str]:
    """ "row_sums: only in A (12.0% of A's time)"."""
    for each in program["not_judged"]:
        parts = (f"{each[side]:.1%} of {side.upper()}'s time" for side in "ab" if each[side])
        yield f"{each['name']}: {each['why']} ({' and '.join(parts)})"


def launch_text(launch: LaunchRow | None, unit: str) -> str:
    """The change of a kernel's launches, in one line: "12.3% slower (...), significant". launch: None if its
    times are unknown."""
    if launch is None:
        return "the times of its launches are not known"
    if not is_judged(launch):
        return "only in B" if launch["status"] == "appeared" else "only in A"
    before, after = ("".join(three_digits(each, unit)) for each in (launch["self_a"], launch["self_b"]))
    cycles = " cycles" if unit == "cycles" else ""
    times = f"mean launch {before} to {after}{cycles}"
    if not launch["change"]:
        return f"the same, {times}"
    scale = 100 / launch["self_a"]
    word = "slower" if launch["change"] > 0 else "faster"
    low, high = (f"{each * scale:+.1f}%" for each in (launch["low"], launch["high"]))
    interval = "" if low == high else f", 95% interval {low} to {high}"
    told = "significant" if launch["significant"] else "within noise"
    return f"{abs(launch['change']) * scale:.1f}% {word} ({times}{interval}), {told}"
