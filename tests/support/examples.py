"""How many examples Hypothesis tries: one in six in `make test`, all of them in `make exhaustive`.

The first examples find most of what any find, and the tests of Hypothesis took a sixth of `make test`.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

THOROUGH: Final = "thorough"
"""The profile of Hypothesis in which all examples are tried: `pytest --hypothesis-profile=thorough`."""
_FEWEST: Final = 4


def examples(number: int) -> int:
    """So many in a thorough run; a part of them, but as many as four, in any other."""
    if settings.get_current_profile_name() == THOROUGH:
        return number
    return min(number, max(_FEWEST, -(-number // 6)))
