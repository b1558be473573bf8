"""Which role a launch takes, by its numbers and the session's options alone.

| `every=` | `samples=` | number of the launch | role |
|---|---|---|---|
| n | any | of its function: no multiple of n | `LEFT_OUT`: the bare binary |
| any | s > 0 | of its variant: 1 to s | `SAMPLED`: the bare binary, under the sampler |
| any | s > 0 | of its variant: s + 1 | `SAMPLED_RECORDED`: what follows, under the sampler |
| any | any | any other | `SPANS` |

With `baseline=` above 0, here b, before the row of `SPANS`:

| number of the launch | role |
|---|---|
| of its variant: two less than a multiple of 2b | `BARE`: the binary of the next launch, not timed |
| of its variant: one less than an odd multiple of 2b | `TIMED`: the bare binary, timed |
| of its variant: one less than an even multiple of 2b | `NULL`: a null build, timed |
| of its variant: one more than a multiple of 2b, but 1 | `TIMED_RECORDED`: what follows, timed |

So one launch in b runs bare. What is timed follows a launch of its own kind: records leave less of the L2
cache to who comes next, and another binary leaves other instructions.

Numbers begin with 0, so a kernel that is launched once is recorded, and one that is launched twice has
samples, too. A function's are over all its launches; a variant's are over those that are recorded, or
sampled, of one function with the same specialisation and options on one device. Launches of three kinds have
no number there: an autotuner's trials, whose turn would be the launch's that follows; those captured into a
CUDA graph, since each of its replays would pay; and those of torch.compile that run bare while their binary
is being built beside the program (`beside.py`), so that the first one that can be recorded is.

No launch pays for a call of `role_of`: `turns.Turns` counts a function's launches as it says, and
`keeping.Keeping` looks for a variant's among `numbers_sampled` and `numbers_timed`.
A null build is the bare kernel with its code shifted (`null_builds.py`); there are several, which take their
turns one after the other (`turn_of_null`). Until it is assembled, and on the emulator, its turn is the bare
binary's.
"""

from __future__ import annotations

import enum
from typing import Final

from profscope.options import Options

__all__ = ["Role", "numbers_sampled", "numbers_timed", "role_of", "turn_of_null"]

_MOST_LAUNCHES: Final = 1 << 62  # more than there will ever be


class Role(enum.Enum):
    """What a launch does for its session."""

    LEFT_OUT = "left out"
    SPANS = "spans"
    SAMPLED = "sampled"
    SAMPLED_RECORDED = "sampled and recorded"
    BARE = "bare"
    TIMED = "timed"
    NULL = "shifted and timed"
    TIMED_RECORDED = "timed and recorded"


def role_of(options: Options, of_variant: int | None, of_function: int = 0) -> Role:
    """The role of a launch with these numbers; see above. of_variant: None if it has none."""
    if of_function % options.every:
        return Role.LEFT_OUT
    if of_variant is not None and of_variant in numbers_sampled(options):
        return Role.SAMPLED if of_variant <= options.sampled else Role.SAMPLED_RECORDED
    timed = numbers_timed(options)
    if of_variant is not None and of_variant + 1 in timed:
        return Role.BARE
    if of_variant is not None and of_variant in timed:
        return Role.TIMED if turn_of_null(options, of_variant) is None else Role.NULL
    if of_variant is not None and of_variant - 2 in timed:
        return Role.TIMED_RECORDED
    return Role.SPANS


def numbers_sampled(options: Options) -> range:
    """Of a variant's launches those that run under the sampler; the last of them is recorded, too."""
    return range(1, options.sampled + 2) if options.sampled else range(0)


def numbers_timed(options: Options) -> range:
    """Of a variant's launches those that run bare and are timed, but for those under the sampler."""
    period = 2 * options.baseline
    return range(period - 1, _MOST_LAUNCHES, period) if period else range(0)


def turn_of_null(options: Options, of_variant: int) -> int | None:
    """Of a variant's launches that run bare, two at a time, every second two are of a null build: which turn
    of theirs it is, 0 first; None for the others."""
    turn, odd = divmod(of_variant // (2 * options.baseline), 2)
    return turn if odd else None
