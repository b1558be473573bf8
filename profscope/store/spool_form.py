"""Which form the JSON in the chunks of a spool has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from profscope.store.json_form import ANY, ANY_NUMBER, EACH, Needs, Row, misfits
from profscope.store.metadata_form import misshapen

__all__ = ["malformed"]

_NUMBER: Final = range(1 << 31)
_PLACE: Final = range(-1, 1 << 31)  # -1: none
_FORMS: Final = {
    "session": Needs({"backend": str}),
    "so far": Needs({"metadata": {}, "notes": [str]}),
    "program": {"number": _NUMBER, "manifest": str, "build": {}, "code": Needs({"ttgir": str, "ptx": str})},
    "launch": Needs(
        {
            "index": _NUMBER, "program": _NUMBER, "device": _NUMBER, "stream": int, "ctas": _NUMBER,
            "mark": Row((_PLACE, _PLACE, bool)),
        }
    ),
    "samples": Needs({"table": {}, "sampler": {"binaries": [{}], "notes": [str]}}),
    "evidence": Needs(
        {
            "counts": {}, "counters": {},
            "about": Needs({"configurations": [Row((str, _NUMBER, str))], "notes": [str]}),
        }
    ),
    "scopes": Needs(
        {
            "scope": [str], "source": [str], "metrics": [{EACH: ANY_NUMBER}],
            "thread": [int], "start_unix_ns": [int], "end_unix_ns": [int],
            "depth": [_NUMBER], "parent": [_PLACE],
            "inside": [Row((int, int, int, _NUMBER))], "outside": [Row((int, int, int))],
        },
    ),
}  # fmt: skip


def malformed(kind: str, stated: Any) -> str | None:
    """What is wrong with what a chunk states, in a few words; None for one that can be read."""
    return next(_problems(kind, stated), None)


def _problems(kind: str, stated: Any) -> Iterator[str]:
    yield from misfits(stated, _FORMS.get(kind, ANY), kind)
    if kind == "session":
        yield from misshapen(stated)
    elif kind == "so far":
        yield from misshapen(stated["metadata"])
    elif kind == "samples":
        yield from misshapen({"sampler": stated["sampler"]})
