"""The whole diagnosis of one kernel in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profscope.errors import OptionError
from profscope.installed import require

if TYPE_CHECKING:
    from profscope.tuning.explanation import Explanation

__all__ = ["explain"]


def explain(
    kernel: Any,
    *args: Any,
    grid: Any,
    vary: Mapping[str, Sequence[Any]] | None = None,
    limit_s: float = 60.0,
    backend: str = "auto",
    **kwargs: Any,
) -> Explanation:
    """Why a kernel takes its time, and which options make it faster: `print` shows it.

        print(profscope.explain(add_kernel, x, y, n, grid=grid, BLOCK=64, vary={"BLOCK": [128, 256]}))

    kernel, args, grid, kwargs: as at a launch, `kernel[grid](*args, **kwargs)`, with constexprs, num_warps,
    num_stages and maxnreg among the keywords. It is timed bare, recorded and observed
    (`session(hardware=True)`), and its findings choose what is tried: num_warps, num_stages, maxnreg, and the
    constexprs of `vary`, a list of values each; `grid` should then be a function of them. What is
    faster is tried together once. Of an autotuned kernel its configurations are tried, and the fastest is
    recorded. limit_s: seconds after which no other try begins. backend: as of a session.

    Times are of bare launches, in interleaved pairs with the launch as it is given. Before each launch the
    memory of all tensors among the arguments is restored; in the end, too. Memory that is reached by
    pointers inside tensors is not.

    Returns an `Explanation`: profile, findings, tries. A try that cannot be run is a row of `tries` that
    says why. On the emulator times are cycles of its cost model.

    Raises OptionError for arguments or names that the kernel does not have, CompileError if the launch
    cannot be built, SessionError inside a session and where the backend is not there.
    """
    require("triton", "profscope.explain()")
    from profscope.tuning.launches import launch_of
    from profscope.tuning.search import explained

    check_limit(limit_s)
    varied = dict(vary or {})
    return explained(launch_of(kernel, grid, args, kwargs, varied), varied, limit_s, backend)


def check_limit(limit_s: object) -> None:
    """Raises OptionError if it is no time."""
    if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or not limit_s > 0:
        raise OptionError(f"explain: limit_s={limit_s!r} must be a number of seconds above 0")
