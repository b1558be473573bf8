"""Which form the entries of a profile's metadata have that analyses read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from profscope.traces.only import SAMPLES_OF_RANK

__all__ = ["misshapen"]

_NUMBER: Final = (int, float)
_ANY: Final = object
_EACH: Final = "*"
"""The key of what all entries of a dict are."""

_BINARY: Final = {
    "kernel": str, "variant": int, "binary": str, "key": str, "launches": int, "samples": int, "dropped": int,
    "period_cycles": [_NUMBER], "instructions": [[_ANY]], "timed": [_ANY], "sass": str, "apart": [_NUMBER],
}  # fmt: skip
_SCOPE: Final = {
    "scope": str, "kind": str, "file": str, "line": int, "call_path": str, "measures": str,
    "bytes": int, "flops": int,
}  # fmt: skip
_WORK: Final = {"variant": int, "trial": bool, "launches": int, "ns": _NUMBER, "scopes": [_SCOPE]}
_RECORDED: Final = {"ctas": int, "unfinished": int, "grid_ctas": int, "warps": [int], "sample": bool}
_BUILD: Final = {
    "build": str, "rounds_as_bare": bool, "twin": bool,
    **dict.fromkeys(("registers", "spills", "shared_bytes", "ctas_per_sm", "instructions"), int),
}  # fmt: skip
_MODEL: Final = {
    "module": str, "model_file": str, "model_line": int, "ops": [str],
    "places": [{"module": str, "file": str, "line": int}],
}  # fmt: skip
_VARIANT: Final = {
    "variant": int, "key": str, "function": str, "constexprs": {}, "signature": {}, "specialisation": {},
    **dict.fromkeys(("num_warps", "num_stages", "num_ctas", "maxnreg"), int), "builds": [_BUILD],
    "model": _MODEL,
}  # fmt: skip
_TIMED: Final = {
    "key": str, "variant": int, "bare_ns": [_NUMBER], "instrumented_ns": [_NUMBER], "unrecorded": int,
    "waited": int,
    "pairs": [{"shift": int, "bare_ns": [_NUMBER], "instrumented_ns": [_NUMBER]}],
}  # fmt: skip
_FORM: Final[dict[str, Any]] = {
    "tool": str,
    "backend": str,
    "began_unix_ns": int,
    "device": {"name": str, "arch": str, "sm_count": int},
    "options": {"every": int, "baseline": _NUMBER},
    "notes": [str],
    "clock": {"read_cycles": _NUMBER, "row_cycles": _NUMBER, "basis": str},
    "kernels": {
        _EACH: {"measure": str, "recorded": _RECORDED, "work": [_WORK]}
        | dict.fromkeys(("sites", "in_flight", "unpaired"), int)
    },
    "variants": {_EACH: [_VARIANT]},
    "sources": [{"file": str, "line": int, "name": str, "text": str, "sha256": str}],
    "code": [{"kernel": str, "variant": int, "key": str, "ttgir": str, "ptx": str}],
    "job": {"rank": int, "world_size": int, "id": str, "began_unix_ns": int, "clock": [_ANY]},
    "ranks": [{"rank": int}],
    SAMPLES_OF_RANK: int,
    "host_clock": {"devices": {_EACH: [{"timer_ns": int, "unix_ns": int, "error_ns": _NUMBER}]}},
    "sampler": {"binaries": [_BINARY], "kernels": {_EACH: {_EACH: int}}, "period_cycles": [_NUMBER]}
    | dict.fromkeys(("launches", "samples", "dropped"), int)
    | {"notes": [str]},
    "baseline": {"every": int, "kernels": {_EACH: [_TIMED]}},
    "ncu": {"kernels": [{"kernel": str}]},
    "sampling": {"every": int, "kernels": {_EACH: {"launches": int, "recorded": int}}},
    "building": {"bare_launches": {_EACH: int}},
    "part": {},
}
_NEEDED: Final = {
    "sources": frozenset({"file", "line", "name", "text"}),
    "ranks": frozenset({"rank"}),
    "work": frozenset({"variant", "trial", "launches", "ns", "scopes"}),
    "scopes": frozenset({"scope", "bytes", "flops"}),
    "variants": frozenset({"variant"}),
    "code": frozenset({"kernel", "key"}),
    "pairs": frozenset({"shift", "bare_ns", "instrumented_ns"}),
}
"""What each entry of such a list has, and each of a dict of such lists."""
_MOST: Final = 1 << 63


def misshapen(metadata: dict[str, Any]) -> Iterator[str]:
    """What is of another form, in a few words each. Entries may lack, and be None, but for those that all of
    their kind have."""
    yield from _misfits(metadata, _FORM, "metadata", "")


def _misfits(value: Any, form: Any, where: str, of: str, *, is_entry: bool = False) -> Iterator[str]:
    """of: the name of the list, or dict, that the value is in; is_entry: it is an entry of such a list."""
    if isinstance(form, dict):
        if not isinstance(value, dict):
            yield f"{where} that is no object"
            return
        needed = _NEEDED.get(of, frozenset()) if is_entry else frozenset()
        lacks = {name for name in needed if value.get(name) is None}
        if lacks:
            yield f"{where} without {', '.join(sorted(lacks))}"
        for name, inner in value.items():
            inner_form = form.get(name, form.get(_EACH))
            if inner_form is not None and inner is not None:
                yield from _misfits(inner, inner_form, f"{where}[{name!r}]", name if name in form else of)
    elif isinstance(form, list):
        if of == "work" and isinstance(value, dict):  # as before there were variants
            value = [{"variant": 0, "trial": False, **value}]
        if not isinstance(value, list):
            yield f"{where} that is no list"
            return
        for at, inner in enumerate(value):
            yield from _misfits(inner, form[0], f"{where}[{at}]", of, is_entry=True)
    elif not isinstance(value, form) or (isinstance(value, int) and form is not _ANY and abs(value) >= _MOST):
        yield f"{where} that is {value!r}"[:200]
