"""Which role a launch takes, by its numbers and the session's options alone.

| `keep=` | `every=` | `spans_every=` | number of the launch | role |
|---|---|---|---|---|
| any | n | any | of its function: no multiple of n | `LEFT_OUT`: the bare binary |
| "spans" | any | | any that is recorded | `SPANS` |
| "sums", "totals" | any | m > 0 | of its variant: a multiple of m | `SPANS` |
| "sums", "totals" | any | m > 0 | of its variant: any other | `SUMS` |
| "sums", "totals" | any | 0 | any that is recorded | `SUMS` |
| "sums", "totals" | any | any | of its variant: none | `SUMS` |

Numbers begin with 0, so a kernel that is launched once keeps spans. A function's are over all its launches; a
variant's are over those that are recorded of one function with the same specialisation and options on one
device. Launches of two kinds have no number there: an autotuner's trials, whose turn would be the
launch's that follows, and those captured into a CUDA graph, since each of its replays would pay for spans.

`turns.Turns` gives a function's launches this role without a call for each; `keeping.Keeping` asks here.
"""

from __future__ import annotations

import enum

from profscope.options import Options

__all__ = ["Role", "role_of"]


class Role(enum.Enum):
    """What a launch does for its session."""

    LEFT_OUT = "left out"
    SPANS = "spans"
    SUMS = "sums"


def role_of(options: Options, of_variant: int | None, of_function: int = 0) -> Role:
    """The role of a launch with these numbers; see above. of_variant: None if it has none."""
    if of_function % options.every:
        return Role.LEFT_OUT
    if options.keep == "spans":
        return Role.SPANS
    if of_variant is None or not options.spans_every or of_variant % options.spans_every:
        return Role.SUMS
    return Role.SPANS
