"""The profile: plain tables, the hinge between recording a kernel and looking at it."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any

from profscope.analysis.questions import (
    Program,
    Ranks,
    Timeline,
    find_question,
    nearest_question,
    question_names,
)
from profscope.errors import DiffError, OptionError
from profscope.progress import working
from profscope.schema import Tables

if TYPE_CHECKING:
    import pandas as pd

    from profscope.analysis.comparing.gate import Difference
    from profscope.analysis.verdict import Verdict
    from profscope.plotting.plots import Plots

__all__ = ["Profile", "Questions", "describe", "diff", "load"]


class Questions(abc.ABC):
    """Questions that profiles and sessions answer.

        prof.summary()

    Every file of `profscope/analysis/` that has a public function of its own name is a question, if `tables`
    is all that it must be given: it is asked with these, and answers with plain data. A table has no column
    that is null in all its rows. `kernels="matmul"` chooses rows of kernels, by a regular expression as of a
    session. A question is imported when it is first asked. Those of a program, of a job's ranks and of the
    timeline stand together: `prof.program`, `prof.ranks`, `prof.timeline`.
    """

    @property
    @abc.abstractmethod
    def tables(self) -> Tables:
        """The tables that are asked about."""

    @property
    def verdict(self) -> Verdict:
        """Whether the figures can be believed: a mapping from (kernel, variant) to a label and its reasons.

        Its own `label` is the worst of these, and its `str()` has all of them (docs/verdict.md).
        """
        from profscope.analysis.verdict import verdict

        return verdict(self.tables)

    @property
    def hangs(self) -> pd.DataFrame:
        """With `hang_s=` one row for each warp of launches that did not end: where it stands, what it waits
        for (docs/hangs.md)."""
        from profscope.analysis.kernels.hanging import hangs_of

        return hangs_of(self.tables)

    @property
    def plot(self) -> Plots:
        """Figures of this profile, by matplotlib (docs/views.md): `prof.plot.timeline()`."""
        from profscope.plotting.plots import Plots

        return Plots(self.tables)

    def save(self, path: str | Path) -> None:
        """Write this profile in the format that the suffix names.

            prof.save("trace.pftrace.gz")

        From these `load` rebuilds it exactly: `.pftrace` and `.pftrace.gz`, Perfetto's protobuf, smaller and
        faster to write; `.json` and `.json.gz`, a Chrome trace, which other tools read, too; `.parquet`.
        These cannot be loaded again: `.html`, a report for a browser (docs/views.md); `.report.json`, what
        `report()` returns. The file appears whole or not at all.

        Raises OptionError for another suffix, TraceError when it cannot be written.
        """
        from profscope.traces.saving import save

        save(self.tables, path)

    def show(self, height: int = 700) -> None:
        """Put the report that `save("report.html")` writes below a cell of a notebook, `height` pixels high.

        The page goes into the notebook's file with the cell's output: 0.2 MB, and 2 to 4 MB for a million
        spans. Outside of a notebook it raises DrawError, which says where to look instead.
        """
        from profscope.traces.html.notebook import show

        show(self.tables, height)

    def _repr_html_(self) -> str | None:
        """What a notebook shows of it (docs/views.md)."""
        from profscope.traces.html.notebook import overview

        return overview(self.tables, describe(self.tables))

    @property
    def program(self) -> Program:
        """Questions about the program around the kernels: `prof.program.host_scopes()`."""
        return Program(lambda: self.tables)

    @property
    def ranks(self) -> Ranks:
        """Questions about the ranks of a job: `prof.ranks.skew()`."""
        return Ranks(lambda: self.tables)

    @property
    def timeline(self) -> Timeline:
        """Questions about when spans run: `prof.timeline.overlap()`."""
        return Timeline(lambda: self.tables)

    if TYPE_CHECKING:  # for type checkers, which do not look into folders

        def breakdown(self, *, kernels: str | None = None) -> pd.DataFrame: ...
        def brief(self, *, trace: str = "TRACE") -> str: ...
        def findings(self, *, kernels: str | None = None) -> pd.DataFrame: ...
        def limits(self, *, kernels: str | None = None) -> pd.DataFrame: ...
        def lines(self, top: int | None = None, *, kernels: str | None = None) -> pd.DataFrame: ...
        def overhead(self, *, kernels: str | None = None) -> pd.DataFrame: ...
        def report(self, *, top: int | None = None, trace: str = "TRACE") -> dict[str, Any]: ...
        def summary(self, *, kernels: str | None = None) -> pd.DataFrame: ...

    else:

        def __getattr__(self, name: str) -> Any:
            question = find_question(name)
            if question is None:
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}{nearest_question(name)}"
                )
            return MethodType(question, self.tables)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *question_names()})


class Profile(Tables, Questions):
    """The data of a session, as plain tables: `df`, `launches`, `ctas`, `samples`, `counts`, `counters`,
    `experiments`, `host`, `events`, `sums` and `metadata` (see `Tables`), and questions about them (see
    `Questions`).

    Behind the columns of `tables.df` its `df` has `corrected_cycles` and `corrected_ns` (see
    `profscope.analysis.spans.corrections`), and where torch.compile made kernels `module`, `model_file` and
    `model_line` (see `profscope.analysis.variants`), worked out when it is first asked for. Files and
    questions use `tables`: columns that you add to `df` are in neither.
    """

    _spans: pd.DataFrame
    _corrected: pd.DataFrame | None

    @property
    def df(self) -> pd.DataFrame:
        """One row per span."""
        from profscope.analysis.spans.corrections import with_corrected
        from profscope.analysis.variants import with_model_of_spans

        corrected = self._corrected
        if corrected is None:
            corrected = with_corrected(self._spans, self.metadata)
            corrected = with_model_of_spans(corrected, self.launches, self.metadata)
            vars(self).update(_corrected=corrected)
        return corrected

    @df.setter
    def df(self, spans: pd.DataFrame) -> None:  # as a frozen dataclass begins, and never after
        from profscope.analysis.spans.corrections import CORRECTED
        from profscope.analysis.variants import MODEL

        vars(self).update(_spans=spans.drop(columns=[*CORRECTED, *MODEL], errors="ignore"))
        vars(self).update(_corrected=None)

    @property
    def tables(self) -> Tables:
        """The tables, without columns that are computed from them."""
        others = (each.name for each in fields(Tables) if each.name != "df")
        tables = Tables(df=self._spans, **{name: getattr(self, name) for name in others})
        kept: Tables = vars(self).setdefault("_tables", tables)  # the same ones each time, with their answers
        return kept

    @staticmethod
    def of(tables: Tables) -> Profile:
        """The profile that has these tables."""
        return Profile(**{each.name: getattr(tables, each.name) for each in fields(Tables)})

    def __repr__(self) -> str:
        return f"<Profile: {describe(self.tables)}>"


def describe(tables: Tables) -> str:
    """The contents of a profile, in a few words: "2 kernels, 3 launches, 4,096 spans, 0 dropped records,
    gpu"."""
    counts = (
        (_kernel_count(tables), "kernel", "kernels"),
        (len(tables.launches), "launch", "launches"),
        (len(tables.df), "span", "spans"),
        (int(tables.launches["dropped"].sum()), "dropped record", "dropped records"),
    )
    texts = [f"{count:,} {one if count == 1 else many}" for count, one, many in counts]
    samples = int(tables.samples["samples"].sum())
    if samples and not tables.emulated:
        texts.append(f"{samples:,} samples")
    backend = "EMULATED" if tables.emulated else str(tables.metadata.get("backend") or "unknown backend")
    return ", ".join([*texts, backend])


def _kernel_count(tables: Tables) -> int:
    """Kernels of one name in two modules are two."""
    variants = tables.metadata.get("variants") or {}
    functions = {
        (kernel, each["variant"]): each.get("function")
        for kernel, known in variants.items()
        for each in known
    }
    launched = tables.launches[["kernel", "variant"]].drop_duplicates().itertuples(index=False, name=None)
    return len({(kernel, functions.get((kernel, variant))) for kernel, variant in launched})


def load(
    path: str | Path,
    *,
    kernels: str | None = None,
    variant: int | None = None,
    rank: int | None = None,
    launch: int | None = None,
    cta: int | None = None,
    sm: int | None = None,
    warp: int | None = None,
) -> Profile:
    """Read a trace: one saved by profscope, exactly, whatever its name; a Kineto Chrome trace as far as it
    goes; or the spool of a session: its file, or its folder if it has one file.

        profscope.load("trace/", kernels="matmul")         # a regular expression that is searched in names
        profscope.load("spans.parquet", launch=3, cta=17)

    The options select a part, as those of `profscope view` do: some launches, or one CTA, SM or warp of each;
    the notes name the part. From Parquet only row groups that can hold some of it are read. All figures are
    of the part: they are not scaled up to the grid if it is a part of each launch, and the recording cost is
    then unknown. It has no host scopes and no events. It has no samples if launches or parts of them are
    selected, or a rank, unless each rank is a file of a folder.

    Raises TraceError, in one line with the kind of the file, for anything else; if more spans are selected
    than fit into free memory; and if there is no such part, with the parts that exist. Raises OptionError for
    an impossible part, and if path is no path.
    """
    from profscope.traces.loading import load_selected
    from profscope.traces.trace_filter import TraceFilter

    if not isinstance(path, str | PathLike):
        raise OptionError(f"a trace is loaded by its path, such as 'trace.pftrace.gz', not {path!r}")
    only = TraceFilter(kernels, variant, rank, launch, cta, sm, warp)
    return Profile.of(load_selected(path, only))


def diff(
    a: Questions | str | Path, b: Questions | str | Path, *, pair: Mapping[str, str] | None = None
) -> Difference:
    """The changes from profile `a` to profile `b`: profiles, sessions, or paths that `load` reads.

    One row per kernel, pair of configurations, grid and scope. Kernels with the greatest change come first;
    within a kernel its launches as a whole (kind "launch"), then the rows that changed most. docs/diff.md has
    more.

    kernel; variant_a, variant_b, grid_a, grid_b: configurations and grids, missing and "" if a side has none.
    Launches with the same constexprs and grid are compared, the nearest in all else; then launches with other
    constexprs with the nearest of the other side.
    configuration: tells these launches from the kernel's others; differs: differences between a and b.
    scope, kind, file, call_path: of b, else of a; line_a, line_b: 0 if that side has no such line. Lines are
    matched by the functions' texts, through edits.
    status: "changed", "same" (no more than noise), "appeared" or "gone".
    significant: whether the change is more than noise. Launches are compared (Yuen's trimmed t test), or CTAs
    if a side has one launch only. A change must exceed a floor, such as 3 % of a launch between two sessions;
    at most 5 % of all significant rows are noise, in the long run (Benjamini and Hochberg). Cold and first
    launches are left out if there are others. Emulated cycles have no noise: any change counts.
    change: of a launch, b less a, of self time summed over all its warps, so that rows can grow while the
    launch gets shorter; of async rows total time; of rows of kind "launch" the time of the launch itself. In
    attrs["unit"], "ns" or "cycles". percent: of a, missing if that is 0; low, high: the 95 % interval of
    change, floor included.
    self_a, self_b, total_a, total_b, count_a, count_b: of a launch, scaled up to its grid: trimmed means.
    They use corrected durations, without the cost of records, if both sides have it: attrs["durations"] is
    "corrected" or "raw". Launches as a whole stay raw.
    launches_a, launches_b: how many were compared.

    attrs has "unit", "emulated", "notes" (other differences, and the floor), "not_measured", "counters": a
    list of dicts, hardware counters that differ by more than 5 %, or 3 points of a percentage (kernel,
    variant_a, variant_b, counter, unit, a, b, change), and "program": the time of all recorded launches, and
    the parts that changed or were not judged.

    `.failed(above=5)` is the verdict of a gate, as of `profscope diff --fail-above 5%`: a list of reasons.
    `.not_judged` lists launches that the gate could not judge. `.code` is the table of differences in the
    compiled code.

    pair: kernels that were renamed, the name in a to that in b.

    Raises DiffError if no kernel is in both, one is emulated and the other is not, or one is no profile;
    TraceError if a file cannot be read.
    """
    from profscope.analysis.comparing.gate import Difference
    from profscope.analysis.comparing.renaming import paired

    for each in (a, b):
        if not isinstance(each, Questions | str | Path):
            raise DiffError(f"diff takes profiles, sessions and paths of files, no {type(each).__name__}")
    with working("comparing two profiles"):
        tables = [each.tables if isinstance(each, Questions) else load(each) for each in (a, b)]
        first, second = tables
        return Difference.between(paired(first, second, pair) if pair else first, second)
