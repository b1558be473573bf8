"""The options of a session, validated once."""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
import reprlib
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from profscope import instrument_passes
from profscope.errors import OptionError
from profscope.instrument_passes import LEVELS, LOWERING, PROGRESS
from profscope.instrument_passes.errors import InstrumentError
from profscope.instrument_passes.selection import MAX_LISTED, LaunchBits

if TYPE_CHECKING:
    from profscope.instrument_passes.passes import Pass

__all__ = ["EvidenceOption", "Options"]

_BACKENDS: Final = ("auto", "gpu", "emulator")
_MEASURES: Final = ("issue", "latency")
_EVIDENCE: Final = ("counts", "samples", "counters", "records", "experiments")
_DEFAULT_EVIDENCE: Final = ("counts", "samples", "counters")  # of evidence=True
_METRIC: Final = "counters:"  # before NVIDIA's name of a metric
_LIMIT: Final = "seconds:"  # before a number of seconds
_SECONDS: Final = 5.0  # that a program waits for evidence at most
_MOST_SECONDS: Final = 86_400.0
_MOST_PAIRS: Final = 1000
_OF_RECORDS: Final = (
    "instrument", "measure", "ctas", "every", "overhead_pct", "evidence", "baseline",
)  # fmt: skip
_ALLOWED: Final = f"{', '.join(_EVIDENCE)}, {_METRIC}METRIC and {_LIMIT}S"


def _option(default: Any, says: str, example: str, cli: str | None = None, *, flag: str = "") -> Any:
    """A field of Options. says: what it does, with its unit; example: how to write it; cli: what its flag of
    `profscope run` does, None if it has none; flag: without its dashes, the option's name by default."""
    return field(default=default, metadata={"says": says, "example": example, "cli": cli, "flag": flag})


class EvidenceOption(NamedTuple):
    """The evidence that `evidence=` requests. witnesses: some of counts, samples, counters, records and
    experiments, in this order, which is the one in which launches are observed; metrics: NVIDIA's names of
    those that a user adds to the counters; seconds: that all of it may keep the program waiting."""

    witnesses: tuple[str, ...]
    metrics: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of one session, the arguments of `profscope.session`. Raises OptionError naming the option, the
    value and the allowed values.
    """

    kernels: str = _option(
        "",
        "Regular expression; only kernels whose name it matches somewhere are instrumented (all by default)",
        "kernels='attention|matmul'",
        "kernels whose name this regular expression matches (default: all)",
    )
    instrument: str | Sequence[str] = _option(
        "default",
        "The level: 'light' (kernel, loops and the scopes of profscope.language), 'default' (also "
        "loads, stores, atomics, waits, MMAs and calls), 'heavy' (also every iteration and every other op), "
        "or a list of passes with their options, as `profscope opt --list` shows them",
        "instrument=['kernel-span', 'op-spans{classes=load;wait}']",
        "light, default, heavy, or passes such as kernel-span,loop-spans, which `profscope opt --list` shows",
    )
    measure: str = _option(
        "issue",
        "Where spans on loads, atomics and shared-memory reads end: at their 'issue', or, with 'latency', "
        "when their data has arrived. Loads then no longer overlap: that measures memory, not the kernel",
        "measure='latency'",
        "issue or latency: where spans on loads end; with latency, when their data has arrived",
    )
    ctas: int | Sequence[int] = _option(
        1,
        "Which CTAs record: one in n (n is rounded up to a power of two), at least 8 and other ones in each "
        "launch, or those with the linear ids of a list",
        "ctas=64",
        "record one CTA in N, at least 8 of a launch, or those in a list, such as 0,17",
    )
    every: int = _option(
        1,
        "Record one launch of a kernel in so many, the first one first; the others run the bare binary, so "
        "that a session can stay open around a training job",
        "every=100",
        "record one launch in N of each kernel, the first one included",
    )
    overhead_pct: float | None = _option(
        None,
        "The most that recording may add to the program's time, in percent. The first launch of each "
        "configuration is recorded, then two pairs of bare and recorded launches are timed. Later launches "
        "are recorded in time windows until the budget is spent; launches between windows are not counted. "
        "prof.overhead() shows the time that was added. None, and the emulator, record all that every= and "
        "ctas= choose",
        "overhead_pct=1",
        "record only as many launches as add this much to the program's time",
    )
    evidence: bool | Sequence[str] | Mapping[str, float] = _option(
        False,
        "Evidence about the limit of each configuration. True: 'counts' of each instruction, PC "
        "'samples' with stall reasons, and hardware 'counters' of the whole kernel, from some bare launches "
        "on an NVIDIA GPU. A list: any of these, 'counters:NAME' for NVIDIA's metric NAME, 'records' (counts "
        "by the kernel itself, which need no permission) and 'experiments' (what each line of the biggest "
        "kernels costs, measured by leaving it out); with 'seconds:S' while the program has waited for less "
        f"than S seconds ({_SECONDS:g} by default). 'seconds:S' alone, {{'seconds': S}}: True, for S seconds",
        "evidence=['records', 'experiments', 'seconds:20']",
        "evidence of what limits kernels: counts, samples and counters of bare launches, counters:METRIC, "
        "records, experiments; true for the first three; seconds:S, how long the program may wait for it",
    )
    baseline: int = _option(
        0,
        "Pairs of a bare and a recorded launch to time for each configuration of a kernel, after its first "
        "launch; prof.overhead() compares them. All later launches are recorded",
        "baseline=20",
    )
    events: bool = _option(
        False,
        "Also record every kernel, copy and collective of the whole program, and torch's operators on the "
        "host, by torch's own profiler (Kineto): prof.events. It is read when the session ends or is paused",
        "events=True",
        "also record other kernels, copies, collectives and torch's operators, by torch's profiler",
    )
    wait: bool = _option(
        False,
        "Have launches of torch.compile wait until their instrumented binaries are built. By default these "
        "are built while the program runs on a GPU; launches until then run bare and are counted. All other "
        "launches wait, and so do those on the emulator",
        "wait=True",
        "launches of torch.compile wait for their recorded binaries; by default they run bare until then",
    )
    memory: int = _option(
        256,
        "MiB of device memory for profile buffers; a grid that needs more is recorded in part, at regular "
        "distances, and the profile says so",
        "memory=1024",
    )
    spool: str | Path | None = _option(  # noqa: RUF009  as the others
        None,
        "A folder; launches are written to a file in it as they drain, and leave memory. The file can be "
        "loaded with profscope.load while it grows, and after its process was killed",
        "spool='profiles'",
        "write records to a file here as the program runs; it can be viewed at any time",
    )
    hang_s: float | None = _option(
        None,
        "Find kernels that hang: a launch that has not ended after so many seconds is reported on stderr and "
        "in prof.hangs, with where each of its warps stands and what it waits for. Kernels run with marks of "
        "progress in place of records, so there are no spans",
        "hang_s=10",
        "report launches that have not ended after so many seconds, and where their warps stand; no spans",
        flag="hang",
    )
    sources: bool = _option(
        True,
        "False leaves the texts of kernels, and of the functions they call, out of the profile. With them "
        "views need no file on disk, and cannot show another version of it",
        "sources=False",
    )
    backend: str = _option(
        "auto",
        "'gpu', 'emulator', or 'auto': the GPU where there is one, else the emulator",
        "backend='emulator'",
        "auto is the GPU if there is one",
    )
    pipeline: tuple[Pass, ...] = field(init=False, repr=False, compare=False)

    @classmethod
    def document(cls) -> str:
        """One paragraph for each option: type, default, what it does, an example."""
        lines = []
        for each in fields(cls):
            if each.init:
                says = f"{each.metadata['says']}. Example: {each.metadata['example']}"
                lines.append(f"{each.name}: {each.type} = {each.default!r}")
                lines += textwrap.wrap(says, 106, initial_indent="    ", subsequent_indent="    ")
        return "\n".join(lines)

    @classmethod
    def check_names(cls, unnamed: Sequence[object], named: Iterable[str]) -> None:
        """Raises OptionError for a value without a name, and for a name that no option has."""
        if unnamed:
            raise OptionError("options are given by name, such as instrument='heavy'")
        names = [each.name for each in fields(cls) if each.init]
        for name in named:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
                hint = f"did you mean {near[0]}=?" if near else f"the options are {', '.join(names)}"
                raise OptionError(f"no option {name!r}; {hint}")

    @classmethod
    def not_default(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        """The options in a profile's metadata that differ from their defaults."""
        defaults = {each.name: each.default for each in fields(cls) if each.init}
        return {name: value for name, value in described.items() if value != defaults.get(name)}

    def described(self) -> dict[str, Any]:
        """The options as a profile's metadata have them: JSON-able, without the place of the spool."""
        return {
            each.name: _plain(getattr(self, each.name))
            for each in fields(self)
            if each.init and each.name != "spool"
        }

    def __post_init__(self) -> None:
        if not isinstance(self.kernels, str):
            raise OptionError(f"kernels={self.kernels!r} must be a regular expression as a str")
        try:
            re.compile(self.kernels)
        except re.error as error:
            raise OptionError(f"kernels={self.kernels!r} is not a regular expression: {error}") from error
        _check_int("every", self.every, 1, 1 << 31, "a number of launches")
        _check_percentage("overhead_pct", self.overhead_pct)
        for name in ("events", "wait", "sources"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name}={getattr(self, name)!r} must be True or False")
        self._check_hang()
        _check_int("memory", self.memory, 1, 1 << 20, "a number of MiB")
        _check_choice("backend", self.backend, _BACKENDS)
        if self.spool is not None:
            _check_folder("spool", self.spool)
        _check_int("baseline", self.baseline, 0, _MOST_PAIRS, "a number of pairs")
        _asked(self.evidence)
        _check_choice("measure", self.measure, _MEASURES)
        from profscope.instrument_passes.pipeline import parse_pipeline  # what shows options needs no passes

        try:
            watched = self.hang_s is not None
            passes = parse_pipeline(PROGRESS if watched else f"{self._recording()},{self._lowering()}")
        except InstrumentError as error:
            raise OptionError(f"instrument={self.instrument!r}: {error}") from error
        if self.measure == "latency":
            passes = self._to_their_data(passes)
        object.__setattr__(self, "pipeline", tuple(passes))

    def _to_their_data(self, passes: Sequence[Pass]) -> list[Pass]:
        from profscope.instrument_passes.passes.op_spans import OpSpans

        if not any(isinstance(step, OpSpans) for step in passes):
            raise OptionError(
                f"measure='latency' finds no load to measure: instrument={self.instrument!r} records no ops; "
                "take 'default', 'heavy' or a list with op-spans"
            )
        return [replace(step, measure="latency") if isinstance(step, OpSpans) else step for step in passes]

    def _check_hang(self) -> None:
        """Raises OptionError if `hang_s` is no number of seconds, or comes with an option of records."""
        if self.hang_s is None:
            return
        if not _is_limit(self.hang_s):
            allowed = f"a number of seconds, more than 0 and at most {_MOST_SECONDS:g}, or None"
            raise OptionError(f"hang_s={self.hang_s!r} must be {allowed}")
        given = {name: getattr(self, name) for name in _OF_RECORDS}
        for name in self.not_default(given):
            raise OptionError(
                f"hang_s= has marks of progress in place of records; leave {name}={given[name]!r} out"
            )

    def _recording(self) -> str:
        if isinstance(self.instrument, str):
            if self.instrument not in LEVELS:
                raise OptionError(
                    f"instrument={self.instrument!r} is not one of {', '.join(LEVELS)}; for passes of your "
                    "own choice give a list"
                )
            return LEVELS[self.instrument]
        given = self.instrument
        if not isinstance(given, Sequence) or not given or not all(isinstance(name, str) for name in given):
            raise OptionError(
                f"instrument={given!r} must be a level ({', '.join(LEVELS)}) or a list of passes, as "
                "`profscope opt --list` shows them"
            )
        return ",".join(given)

    def _lowering(self) -> str:
        """The passes behind the recording ones, told which CTAs record."""
        chosen = []
        if isinstance(self.ctas, int):
            _check_int("ctas", self.ctas, 1, 1 << LaunchBits.MASK, "a stride in CTAs")
        else:
            chosen.append(_list("ctas", self.ctas, 1 << LaunchBits.MASK, "a stride or a list"))
        chosen += ["unrecorded=true"] * self._has_bare_ctas
        if not chosen:
            return LOWERING
        lowering, rest = LOWERING.split(",")
        return f"{lowering}{{{' '.join(chosen)}}},{rest}"

    @property
    def _has_bare_ctas(self) -> bool:
        """Whether `ctas` leaves CTAs out, and these run at the bare kernel's speed."""
        return not isinstance(self.ctas, int) or self.ctas > 1

    @property
    def evidence_asked(self) -> EvidenceOption:
        """The evidence that `evidence=` asks for."""
        return _asked(self.evidence)

    @property
    def stride_log2(self) -> int:
        """One CTA in 2^stride_log2, where `ctas` is a number."""
        return (self.ctas - 1).bit_length() if isinstance(self.ctas, int) else 0

    def digest(self, version: str) -> str:
        """Identity of all that changes the binary, the passes' code included; for Triton's cache keys."""
        settings = repr((version, self.kernels, self.pipeline))
        modules = {type(step).__module__ for step in self.pipeline}
        return hashlib.sha256((settings + _code(frozenset(modules))).encode()).hexdigest()[:12]

    def matches(self, kernel: str) -> bool:
        """Whether a kernel of this name is to be instrumented."""
        return re.search(self.kernels, kernel) is not None


def _asked(evidence: object) -> EvidenceOption:
    """Raises OptionError for what `evidence=` cannot be."""
    if isinstance(evidence, bool):
        return EvidenceOption(_DEFAULT_EVIDENCE if evidence else (), (), _SECONDS)
    if isinstance(evidence, Mapping):
        seconds = evidence.get("seconds")
        if set(evidence) == {"seconds"} and _is_limit(seconds):
            return EvidenceOption(_DEFAULT_EVIDENCE, (), float(seconds))  # type: ignore[arg-type]
        raise OptionError(
            f"evidence={dict(evidence)!r} must be {{'seconds': S}}, "
            f"S more than 0 and at most {_MOST_SECONDS:g}"
        )
    if isinstance(evidence, Sequence) and all(isinstance(each, str) for each in evidence):
        limits = [_limit(each) for each in evidence if each.startswith(_LIMIT)]
        metrics = tuple(each.removeprefix(_METRIC) for each in evidence if each.startswith(_METRIC))
        named = {each for each in evidence if not each.startswith((_LIMIT, _METRIC))}
        unknown = sorted(named - {*_EVIDENCE})
        if unknown:
            raise OptionError(
                f"evidence={evidence!r}: {unknown[0]!r} is not one of {_ALLOWED}"
            ) from ValueError(f"{unknown[0]!r} is none of them")
        asked = named | ({"counters"} if metrics else set())
        if limits and not asked:
            asked = {*_DEFAULT_EVIDENCE}  # as {"seconds": S}
        if asked and all(metrics) and len(limits) <= 1:
            witnesses = tuple(each for each in _EVIDENCE if each in asked)
            return EvidenceOption(witnesses, metrics, limits[0] if limits else _SECONDS)
    raise OptionError(f"evidence={evidence!r} must be True, False, {{'seconds': S}} or a list of {_ALLOWED}")


def _limit(text: str) -> float:
    """ "seconds:20" as a number. Raises OptionError if it is none."""
    try:
        seconds = float(text.removeprefix(_LIMIT))
    except ValueError:
        seconds = 0.0
    if not _is_limit(seconds):
        wrong = f"S of {_LIMIT}S is more than 0 and at most {_MOST_SECONDS:g}"
        raise OptionError(f"evidence={text!r}: {wrong}") from ValueError(f"{text!r}: {wrong}")
    return seconds


def _is_limit(seconds: object) -> bool:
    """Whether it can be the time that a program waits."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return is_number and 0 < seconds <= _MOST_SECONDS  # type: ignore[operator]


def _plain(value: Any) -> Any:
    """An option as JSON has it: sequences but text as lists."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    if not isinstance(value, str) or value not in choices:  # an array compares entry by entry
        raise OptionError(f"{name}={value!r} is not one of {', '.join(choices)}")


def _check_percentage(name: str, value: object) -> None:
    """Raises OptionError unless it is None, or more than 0 and at most 100."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 < value <= 100):  # type: ignore[operator]
        raise OptionError(f"{name}={value!r} must be a percentage, more than 0 and at most 100, or None")


def _check_int(name: str, value: object, low: int, high: int, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise OptionError(f"{name}={value!r} must be {what}, {low} to {high}")


def _check_folder(name: str, value: object) -> None:
    if not isinstance(value, str | Path) or value == "" or "\0" in str(value):
        raise OptionError(f"{name}={value!r} must be the path of a folder; '.' is the current one")


def _list(name: str, values: object, bound: int, what: str) -> str:
    """A list of numbers as a pass takes it."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence) or not values:
        hint = "; the .tolist() of an array is one" if hasattr(values, "tolist") else ""
        raise OptionError(f"{name}={reprlib.repr(values)} must be {what} of numbers below {bound}{hint}")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < bound:
            raise OptionError(
                f"{name}={reprlib.repr(values)}: {value!r} is not a number from 0 to {bound - 1}"
            )
    if len(values) > MAX_LISTED:
        raise OptionError(f"{name}= lists {len(values)} numbers; at most {MAX_LISTED} can be compiled in")
    return f"{name}={';'.join(str(value) for value in values)}"


@functools.cache
def _code(modules: frozenset[str]) -> str:
    """Hash of the sources of instrument_passes and of the modules that define passes."""
    files = set(Path(instrument_passes.__path__[0]).rglob("*.py"))
    files |= {Path(file) for name in modules if (file := sys.modules[name].__file__) is not None}
    hashes = (hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files))
    return "".join(hashes)
