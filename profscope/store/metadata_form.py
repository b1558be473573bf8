"""Which form the entries of a profile's metadata have that analyses read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from profscope.store.json_form import EACH, NUMBER, Needs, Row, misfits

__all__ = ["misshapen"]

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
_BUILD: Final = Needs({"build": str}, {"rounds_as_bare": bool, "twin": bool, **_RESOURCES})
_MODEL: Final = Needs(
    {
        "module": str, "model_file": str, "model_line": int, "ops": [str],
        "places": [Needs({"module": str, "file": str, "line": int})],
    }
)  # fmt: skip
_VARIANT: Final = Needs(
    {"variant": int},
    {
        "key": str, "function": str, "constexprs": {}, "signature": {}, "specialisation": {},
        **dict.fromkeys(("num_warps", "num_stages", "num_ctas", "maxnreg"), int), "builds": [_BUILD],
        "model": _MODEL,
    },
)  # fmt: skip
_TIMED: Final = Needs(
    {"key": str, "bare_ns": [NUMBER], "instrumented_ns": [NUMBER]},
    dict.fromkeys(("variant", "unrecorded", "waited"), int),
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
    "device": {"name": str, "arch": str, "sm_count": int},
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
    "hardware": {"kernels": {EACH: {EACH: int}}, "added_s": NUMBER, "not_measured": [str]},
    "baseline": {"pairs": int, "kernels": {EACH: [_TIMED]}},
    "budget": Needs(dict.fromkeys(("overhead_pct", "elapsed_ns", "host_ns", "gpu_ns"), NUMBER)),
    "sampling": {"every": int, "kernels": {EACH: Needs({"launches": int, "recorded": int})}},
    "building": {"bare_launches": {EACH: int}},
    "bare": {EACH: {"arithmetic": str, **_RESOURCES}},
    "part": {},
}


def misshapen(metadata: dict[str, Any]) -> Iterator[str]:
    """What is of another form, in a few words each. Entries may lack, and be None, but for those that all of
    their kind have."""
    yield from misfits(metadata, _FORM, "metadata")
