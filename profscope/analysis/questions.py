"""Questions are found by their file: `analysis/lines.py` is `prof.lines()`, `analysis/ranks/skew.py` is
`prof.ranks.skew()`."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from functools import cache, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from profscope.schema import Tables

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "GROUPS",
    "Group",
    "Program",
    "Ranks",
    "Timeline",
    "find_question",
    "nearest_question",
    "question_names",
]


class Group:
    """Questions that share a folder and an attribute: `prof.ranks`."""

    name: ClassVar[str]

    def __init__(self, read: Callable[[], Tables]) -> None:
        """read: gives the tables, when a question is asked."""
        self._read = read

    def __repr__(self) -> str:
        asked = ", ".join(f"{name}()" for name in sorted(question_names(self.name)))
        return f"<prof.{self.name}: {asked}>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *question_names(self.name)} - {"name"})

    if not TYPE_CHECKING:  # type checkers read the stubs of each group

        def __getattr__(self, name: str) -> Any:
            question = find_question(name, self.name)
            if question is None:
                raise AttributeError(f"prof.{self.name} has no question {name!r}{nearest_question(name)}")
            return MethodType(question, self._read())


class Program(Group):
    """The program around the kernels: host scopes, events, modules of a model."""

    name = "program"

    if TYPE_CHECKING:

        def gpu_gaps(self) -> pd.DataFrame: ...
        def gpu_time(self) -> pd.DataFrame: ...
        def host_scopes(self) -> pd.DataFrame: ...
        def host_times(self, *, kernels: str | None = None) -> pd.DataFrame: ...
        def modules(self) -> pd.DataFrame: ...


class Ranks(Group):
    """Questions about the ranks of a job: their work, and the rank that others waited for."""

    name = "ranks"

    if TYPE_CHECKING:

        def collectives(self) -> pd.DataFrame: ...
        def skew(self, *, kernels: str | None = None) -> pd.DataFrame: ...
        def summary(self) -> pd.DataFrame: ...


class Timeline(Group):
    """Questions about when spans run: overlap, the critical path of a CTA, work in flight."""

    name = "timeline"

    if TYPE_CHECKING:

        def critical_path(self, *, kernels: str | None = None) -> pd.DataFrame: ...
        def distances(self, *, kernels: str | None = None) -> pd.DataFrame: ...
        def overlap(self, *, kernels: str | None = None) -> pd.DataFrame: ...
        def transactions(self, *, kernels: str | None = None) -> pd.DataFrame: ...


GROUPS: Final = (Program, Ranks, Timeline)

_CHOICE: Final = inspect.Parameter(
    "kernels", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | None"
)
"""Which kernels, for questions whose rows are of kernels: a regular expression, as of a session."""

_NOT_OF_KERNELS: Final = frozenset(
    (
        ".brief", ".report", "program.gpu_gaps", "program.gpu_time", "program.host_scopes",
        "program.modules", "ranks.collectives", "ranks.summary",
    )
)  # fmt: skip
"""Questions with other rows, by group and name."""


@cache
def question_names(group: str = "") -> frozenset[str]:
    """The names of all questions of a group; without one, of those that belong to none."""
    package = importlib.import_module(_package(group))
    names = (module.name for module in pkgutil.iter_modules(package.__path__))
    return frozenset(name for name in names if find_question(name, group) is not None)


@cache
def find_question(name: str, group: str = "") -> Callable[..., Any] | None:
    """The function that answers a user's question, None if there is no such question: what else has its
    file's name needs more than tables, and serves those that answer."""
    module = f"{_package(group)}.{name}"
    if name.startswith("_") or not name.isidentifier() or importlib.util.find_spec(module) is None:
        return None
    function: Callable[..., Any] | None = vars(importlib.import_module(module)).get(name)
    if function is None:
        return None
    first, *others = inspect.signature(function).parameters.values()
    alone = first.name == "tables" and all(each.default is not each.empty for each in others)
    if not alone:
        return None
    from pandas import DataFrame

    from profscope.analysis.answers import AnswerTable, rows_of_kernels

    @wraps(function)
    def answered(tables: Tables, *args: Any, **options: Any) -> Any:
        kernels = options.pop(_CHOICE.name, None) if of_kernels else None
        answer = function(tables, *args, **options)
        if kernels is not None:
            answer = rows_of_kernels(answer, kernels, tables.launches["kernel"])
        return AnswerTable.of(answer) if type(answer) is DataFrame else answer

    of_kernels = f"{group}.{name}" not in _NOT_OF_KERNELS
    if of_kernels:
        parameters = [first, *others, _CHOICE]
        vars(answered)["__signature__"] = inspect.signature(function).replace(parameters=parameters)
    return answered


def nearest_question(name: str) -> str:
    """The end of an error on an unknown question: the question of nearest name, "" if none is near."""
    if name.startswith("_"):  # asked by notebooks and copies, not by people
        return ""
    known = {each: f"prof.{each}()" for each in question_names()}
    for group in GROUPS:
        known |= {each: f"prof.{group.name}.{each}()" for each in question_names(group.name)}
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {known[near[0]]}?" if near else ""


def _package(group: str) -> str:
    return f"profscope.analysis.{group}" if group else "profscope.analysis"
