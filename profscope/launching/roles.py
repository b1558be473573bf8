"""Which role a launch takes, by its numbers and the session's options alone.

| number of the launch | role |
|---|---|
| of its function: no multiple of `every=` | `LEFT_OUT`: the bare binary |
| of its variant: 1 to s, with `samples=s` | `SAMPLED`: the bare binary, under the sampler |
| of its variant: s + 1, with `samples=s` | `SAMPLED_RECORDED`: recorded, under the sampler |
| of its variant: with `baseline=n` of the next 2n the first, third, ... | `BARE`: the bare binary, timed |
| of its variant: with `baseline=n` of the next 2n the second, fourth, ... | `TIMED`: recorded, timed |
| any other | `SPANS`: recorded |

Numbers begin with 0, so a kernel that is launched once is recorded, and one that is launched twice has
samples, too. A function's are over all its launches; a variant's are over those that are recorded, sampled or
timed, of one function with the same specialisation and options on one device. Launches of three kinds have no
number there: an autotuner's trials, whose turn would be the launch's that follows; those captured into a CUDA
graph, since each of its replays would pay; and those of torch.compile that run bare while their binary is
being built beside the program (`beside.py`), so that the first one that can be recorded is.

No launch pays for a call of `role_of`: `turns.Turns` counts a function's launches as it says, and
`keeping.Keeping` looks for a variant's among `numbers_sampled` and `numbers_timed`.
"""

from __future__ import annotations

import enum

from profscope.options import Options

__all__ = ["Role", "numbers_sampled", "numbers_timed", "role_of"]


class Role(enum.Enum):
    """What a launch does for its session."""

    LEFT_OUT = "left out"
    SPANS = "spans"
    SAMPLED = "sampled"
    SAMPLED_RECORDED = "sampled and recorded"
    BARE = "bare and timed"
    TIMED = "recorded and timed"


def role_of(options: Options, of_variant: int | None, of_function: int = 0) -> Role:
    """The role of a launch with these numbers; see above. of_variant: None if it has none."""
    if of_function % options.every:
        return Role.LEFT_OUT
    if of_variant is None:
        return Role.SPANS
    if of_variant in numbers_sampled(options):
        return Role.SAMPLED if of_variant <= options.sampled else Role.SAMPLED_RECORDED
    timed = numbers_timed(options)
    if of_variant in timed:
        return Role.TIMED if (of_variant - timed.start) % 2 else Role.BARE
    return Role.SPANS


def numbers_sampled(options: Options) -> range:
    """Of a variant's launches those that run under the sampler; the last of them is recorded, too."""
    return range(1, options.sampled + 2) if options.sampled else range(1, 1)


def numbers_timed(options: Options) -> range:
    """Of a variant's launches those that are timed: pairs of a bare launch and a recorded one."""
    first = numbers_sampled(options).stop
    return range(first, first + 2 * options.baseline)
