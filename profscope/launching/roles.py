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

No launch pays for a call of `role_of`: `turns.Turns` counts a function's launches as it says, and
`keeping.Keeping` divides a variant's numbers by the step of `numbers_with_spans`.
"""

from __future__ import annotations

import enum
from typing import Final

from profscope.options import Options

__all__ = ["MOST_LAUNCHES", "Role", "numbers_with_spans", "role_of"]

MOST_LAUNCHES: Final = 1 << 62  # more than there will ever be


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
    numbered = of_variant is not None
    return Role.SPANS if numbered and of_variant in numbers_with_spans(options) else Role.SUMS


def numbers_with_spans(options: Options) -> range:
    """Of a variant's launches those that keep spans."""
    if options.keep == "spans":
        return range(MOST_LAUNCHES)
    return range(0, MOST_LAUNCHES, options.spans_every) if options.spans_every else range(0)
