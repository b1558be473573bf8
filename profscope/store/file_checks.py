"""Checks of a file before it is used: the form of its JSON, and bounds on its size.

A form is a type, a tuple of types, a range of integers, `[form]` for a list, `Row` for a list of so many
entries, a dict of forms by name for an object whose entries may lack or be null, or `Needs` if some entries
may not. EACH is the name of all entries that are not named otherwise; these are never null.

A file of n bytes is read in memory and time proportional to n, whatever it says, so that none takes a machine
down. Each bound is far above what any trace has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = [
    "ANY_NUMBER", "EACH", "NUMBER", "Needs", "Row", "misfits", "misshapen", "most_cells",
    "most_content_bytes", "most_parquet_cells",
]  # fmt: skip

NUMBER: Final = (int, float)
ANY_NUMBER: Final = "number"  # NaN and the infinite ones, too
EACH: Final = "*"
_MOST: Final = 1 << 63  # what 64 bits can hold


class Needs(NamedTuple):
    """An object. needed: entries that must be there; others: entries that may lack or be null."""

    needed: Mapping[str, Any]
    others: Mapping[str, Any] = {}


class Row(NamedTuple):
    """A list of so many entries, a form each."""

    forms: Sequence[Any]


def misfits(value: Any, form: Any, where: str) -> Iterator[str]:
    """Parts of another form, in a few words each, such as "metadata['notes'] that is no list"."""
    if isinstance(form, dict):
        form = Needs({}, form)
    if isinstance(form, Needs):
        yield from _of_object(value, form, where)
    elif isinstance(form, list | Row):
        if not isinstance(value, list):
            yield f"{where} that is no list"
            return
        forms = form.forms if isinstance(form, Row) else form * len(value)
        if len(value) != len(forms):
            yield f"{where} that has {len(value)} entries, not {len(forms)}"
            return
        for at, (inner, inner_form) in enumerate(zip(value, forms, strict=True)):
            yield from misfits(inner, inner_form, f"{where}[{at}]")
    elif not _fits(value, form):
        yield f"{where} that is {value!r}"[:200]


def _of_object(value: Any, form: Needs, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} that is no object"
        return
    lacks = sorted(name for name in form.needed if value.get(name) is None)
    if lacks:
        yield f"{where} without {', '.join(lacks)}"
    forms = {**form.others, **form.needed}
    of_others = forms.pop(EACH, None)
    for name, inner in value.items():
        inner_form = forms.get(name, of_others)
        if inner_form is not None and (inner is not None or name not in forms):
            yield from misfits(inner, inner_form, f"{where}[{name!r}]")


def _fits(value: Any, form: Any) -> bool:
    if form is ANY_NUMBER:
        return isinstance(value, float) or _fits(value, NUMBER)
    if isinstance(form, range):
        return type(value) is int and value in form
    if isinstance(value, bool):
        return form is bool
    if isinstance(value, int):
        return abs(value) < _MOST and isinstance(value, form)
    return isinstance(value, form) and not (isinstance(value, float) and not math.isfinite(value))


_RESOURCES: Final = dict.fromkeys(("registers", "spills", "shared_bytes", "ctas_per_sm", "instructions"), int)
_BINARY: Final = Needs(
    {
        "kernel": str, "variant": int, "binary": str, "key": str,
        "instructions": [Row((str, int, str, {EACH: int}))],
    },
    {
        **dict.fromkeys(("launches", "samples", "dropped"), int),
        "period_cycles": [NUMBER],
        "timed": [Row((int, int, str, int, str))], "sass": str, "apart": Row((NUMBER, NUMBER)),
    },
)  # fmt: skip
_SCOPE: Final = Needs(
    {"scope": str, "measures": str, "bytes": int, "flops": int},
    {"kind": str, "file": str, "line": int, "call_path": str},
)
_WORK: Final = Needs({"variant": int, "launches": int, "ns": NUMBER, "scopes": [_SCOPE]})
_RECORDED: Final = {"ctas": int, "unfinished": int, "grid_ctas": int, "sample": bool}
_BUILD: Final = Needs(
    {"build": str}, {"rounds_as_bare": bool, "fused_otherwise": [str], "twin": bool, **_RESOURCES}
)
_MODEL: Final = Needs(
    {
        "module": str, "model_file": str, "model_line": int, "ops": [str],
        "places": [Needs({"module": str, "file": str, "line": int})],
    }
)  # fmt: skip
_VARIANT: Final = Needs(
    {"variant": int},
    {
        **dict.fromkeys(("key", "function", "source_hash"), str),
        "captured": {}, "constexprs": {}, "signature": {},
        "specialisation": {EACH: [Row([str, (int, str)])]},
        **dict.fromkeys(("num_warps", "num_stages", "num_ctas", "maxnreg"), int), "builds": [_BUILD],
        "model": _MODEL,
    },
)  # fmt: skip
_TIMED: Final = Needs(
    {"key": str, "bare_ns": [NUMBER], "instrumented_ns": [NUMBER]},
    {"basis": str} | dict.fromkeys(("variant", "unrecorded", "waited"), int),
)
_SOURCE: Final = Needs({"file": str, "line": int, "name": str, "text": str}, {"sha256": str})
_RANK: Final = range(-1, 1 << 31)
_OF_RANK: Final = {
    "clock": str, "job": {"host": str}, **dict.fromkeys(("clock_error_ns", "host_clock_error_ns"), NUMBER)
}  # fmt: skip
_CLOCKS: Final = {"unix_ns": int, "error_ns": NUMBER}
_CODE: Final = Needs({"kernel": str, "key": str, "ttgir": str, "ptx": str}, {"variant": int})
_KERNEL: Final = {"measure": str, "recorded": _RECORDED, "work": [_WORK]}
_FORM: Final[dict[str, Any]] = {
    "tool": str,
    "backend": str,
    "began_unix_ns": int,
    "device": {"name": str, "arch": str, "sm_count": int, "clock_khz": NUMBER},
    "options": {"every": int, "baseline": NUMBER},
    "notes": [str],
    "clock": {"read_cycles": NUMBER, "row_cycles": NUMBER, "basis": str},
    "kernels": {EACH: _KERNEL | dict.fromkeys(("sites", "in_flight", "unpaired"), int)},
    "variants": {EACH: [_VARIANT]},
    "sources": [_SOURCE],
    "code": [_CODE],
    "job": {
        "rank": _RANK,
        "world_size": range(1 << 20),
        "id": str,
        "began_unix_ns": int,
        "clock": [Needs(_CLOCKS | {"offset_ns": int})],
    },
    "ranks": [Needs({"rank": _RANK}, _OF_RANK)],
    "samples_of_rank": _RANK,
    "host_clock": {"devices": {EACH: [Needs(_CLOCKS | {"timer_ns": int, "perf_counter_ns": int})]}},
    "sampler": {"binaries": [_BINARY], "kernels": {EACH: {EACH: int}}, "period_cycles": [NUMBER]}
    | dict.fromkeys(("launches", "samples", "dropped"), int)
    | {"notes": [str]},
    "evidence": {
        "kernels": {EACH: {EACH: int}},
        "added_s": NUMBER,
        "not_measured": [str],
        "tensors": [Needs({"kernel": str, "key": str, "bytes": {EACH: range(_MOST)}})],
    },
    "baseline": {"pairs": int, "kernels": {EACH: [_TIMED]}},
    "bare_times": {EACH: [Needs({"key": str, "grid": [int], "times": [NUMBER]})]},
    "budget": Needs(dict.fromkeys(("overhead_pct", "elapsed_ns", "open_ns", "host_ns", "gpu_ns"), NUMBER)),
    "sampling": {"every": int, "kernels": {EACH: Needs({"launches": int, "recorded": int})}},
    "building": {"bare_launches": {EACH: int}},
    "bare": {EACH: {"fused_otherwise": [str], **_RESOURCES}},
    "part": {},
    "evidence_left_out": Needs({"part": str, "kernels": [Row([str, int])]}),
}


def misshapen(metadata: dict[str, Any]) -> Iterator[str]:
    """Parts of another form, in a few words each. Entries may lack or be None, except those that all of their
    kind have."""
    yield from misfits(metadata, _FORM, "metadata")


SMALL_CONTENT_BYTES = 16 << 20
GZIP_EXPANSION = 100
"""Bytes of content in a byte of gzip. Traces have 5 to 50; deflate can have 1032, of one byte repeated."""

FEW_CELLS = 1 << 24
CELLS_PER_BYTE = 200
"""Values of the span table, which has 17 columns and those of payloads, in a byte of the file. Measured
on synthetic profiles: 8 of a matmul without jitter, 114 of the same op again and again."""

PARQUET_CELLS_PER_BYTE = 20_000
"""The same of Parquet, which repeats cost next to nothing there."""


def most_content_bytes(gzip_bytes: int) -> int:
    """How long the content of the first so many bytes of a gzip file may be."""
    return max(SMALL_CONTENT_BYTES, GZIP_EXPANSION * gzip_bytes)


def most_cells(file_bytes: int) -> int:
    """How many values the span table in a file may have, over all its columns."""
    return max(FEW_CELLS, CELLS_PER_BYTE * file_bytes)


def most_parquet_cells(file_bytes: int) -> int:
    """The same of a Parquet file."""
    return max(FEW_CELLS, PARQUET_CELLS_PER_BYTE * file_bytes)
