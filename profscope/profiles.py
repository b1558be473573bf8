"""The profile: plain tables, the hinge between recording a kernel and looking at it."""

from __future__ import annotations

import abc
import importlib
import pkgutil
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any

from profscope.schema import Tables

if TYPE_CHECKING:
    import pandas as pd

    from profscope.analysis.verdict import Verdict

__all__ = ["Profile", "Questions", "held", "load"]


class Questions(abc.ABC):
    """What a profile and a session can both be asked.

        prof.summary()

    Every file of `profscope/analysis/` that has a public function of its own name is a question: it is asked
    with the tables, and answers with plain data. It is imported when it is first asked.
    """

    @property
    @abc.abstractmethod
    def tables(self) -> Tables:
        """The tables that are asked about."""

    @property
    def verdict(self) -> Verdict:
        """Whether the figures can be believed, by kernel and variant; its `str()` says why."""
        from profscope.analysis.verdict import verdict

        return verdict(self.tables)

    def save(self, path: str | Path) -> None:
        """Write a trace from which `load` rebuilds this profile exactly, in the format that the suffix names.

        `.pftrace` and `.pftrace.gz` are Perfetto's protobuf, smaller and faster to write; `.json` and
        `.json.gz` are a Chrome trace, which other tools read, too. The file appears whole or not at all.
        Raises OptionError for another suffix, TraceError when it cannot be written.
        """
        from profscope.traces.saving import save

        save(self.tables, path)

    if TYPE_CHECKING:  # for type checkers, which do not look into folders

        def summary(self) -> pd.DataFrame: ...
        def balance(self) -> pd.DataFrame: ...
        def transactions(self) -> pd.DataFrame: ...
        def first_nan(self) -> pd.Series[Any] | None: ...
        def overhead(self) -> pd.DataFrame: ...
        def report(self) -> dict[str, Any]: ...
        def validate(self) -> list[str]: ...

    else:

        def __getattr__(self, name: str) -> Any:
            question = _question(name)
            if question is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return MethodType(question, self.tables)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_questions()})


class Profile(Tables, Questions):
    """What a session collected, as plain data: `df`, `launches`, `sums`, `spreads`, `numbers` and `metadata`
    (see `Tables`), and what they can be asked (see `Questions`).

    Behind the columns of `tables.df` its `df` has `corrected_cycles` and `corrected_ns` (see
    `profscope.analysis.corrections`), worked out when it is first asked for. Files and questions have what is
    in `tables`: a column that is put into `df` is in neither.
    """

    _spans: pd.DataFrame
    _corrected: pd.DataFrame | None

    @property
    def df(self) -> pd.DataFrame:
        """One row per span."""
        from profscope.analysis.corrections import with_corrected

        corrected = self._corrected
        if corrected is None:
            corrected = with_corrected(self._spans, self.metadata)
            vars(self).update(_corrected=corrected)
        return corrected

    @df.setter
    def df(self, spans: pd.DataFrame) -> None:  # as a frozen dataclass begins, and never after
        from profscope.analysis.corrections import CORRECTED

        vars(self).update(_spans=spans.drop(columns=list(CORRECTED), errors="ignore"))
        vars(self).update(_corrected=None)

    @property
    def tables(self) -> Tables:
        """The tables without what is worked out from them."""
        others = (each.name for each in fields(Tables) if each.name != "df")
        return Tables(df=self._spans, **{name: getattr(self, name) for name in others})

    @staticmethod
    def of(tables: Tables) -> Profile:
        """The profile that has these tables."""
        return Profile(**{each.name: getattr(tables, each.name) for each in fields(Tables)})

    def __repr__(self) -> str:
        return f"<Profile: {held(self.tables)}>"


def held(tables: Tables) -> str:
    """What a profile holds, in a few words: "2 kernels, 3 launches, 4,096 spans, 0 dropped records, gpu"."""
    counts = (
        (tables.launches["kernel"].nunique(), "kernel", "kernels"),
        (len(tables.launches), "launch", "launches"),
        (len(tables.df), "span", "spans"),
        (int(tables.launches["dropped"].sum()), "dropped record", "dropped records"),
    )
    texts = [f"{count:,} {one if count == 1 else many}" for count, one, many in counts]
    sums = int((tables.launches["keeps"] == "sums").sum())
    if sums:
        texts[1] += f" ({len(tables.launches) - sums:,} kept spans, {sums:,} sums)"
    backend = "EMULATED" if tables.emulated else str(tables.metadata.get("backend") or "unknown backend")
    return ", ".join([*texts, backend])


def load(path: str | Path, *, verify: bool = True) -> Profile:
    """Read a trace: one saved by profscope, exactly, whatever its name; a Kineto or Proton Chrome trace as
    far as it goes; or what a session with `spool=` wrote: its file, or its folder if there is one file in it.

    verify: refuse a trace saved by profscope whose data are no longer those that were saved, by the digest in
    it. With False they are taken as they are, where they can be read at all.

    Raises TraceError, in one line saying what the file is, for anything else.
    """
    from profscope.traces.loading import load as load_tables

    return Profile.of(load_tables(path, verify=verify))


@cache
def _questions() -> frozenset[str]:
    """The names of all questions."""
    from profscope import analysis

    names = (module.name for module in pkgutil.iter_modules(analysis.__path__))
    return frozenset(name for name in names if _question(name) is not None)


@cache
def _question(name: str) -> Any:
    """The function that answers a question, None if there is no such question."""
    module = f"profscope.analysis.{name}"
    if name.startswith("_") or not name.isidentifier() or importlib.util.find_spec(module) is None:
        return None
    return vars(importlib.import_module(module)).get(name)
