"""Recording switched on and off by calls, if a with statement does not fit.

profscope.start(ctas=64)
train()
prof = profscope.stop()
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from profscope.around.host_scopes import called, runs_later
from profscope.errors import OptionError, SessionError
from profscope.recording.open_sessions import OPEN
from profscope.sessions import Session, session

__all__ = ["pause", "profile", "resume", "start", "stop"]

P = ParamSpec("P")
T = TypeVar("T")


class _Started(Session):
    """A session that `start` has begun, which `stop` ends."""


def start(**options: Any) -> Session:
    """Begin and return a session, with the arguments of `profscope.session`.

        profscope.start(instrument="light")

    It ends with `profscope.stop()`, or with the interpreter. Raises SessionError if one is active.
    """
    if _started() is not None:
        raise SessionError("profscope.start() has begun a session already; profscope.stop() ends it")
    begun = _Started(session(**options).options)
    begun.__enter__()
    return begun


def stop() -> Session:
    """End the session that `start` began, and return it: its tables can be read and saved.

    Raises SessionError if there is none.
    """
    ending = _started()
    if ending is None:
        raise SessionError("profscope.stop(): profscope.start() has begun no session")
    ending.__exit__(None, None, None)
    return ending


def pause() -> None:
    """Let launches run bare until `resume()`, as without a session: they pay nothing and count nowhere.

        profscope.pause()
        warm_up()
        profscope.resume()

    It speaks to the session that was opened last: by `start`, by a with statement, or by `profscope run`
    around the program. It does nothing where none is open, so it may stay in a program.
    """
    if OPEN:
        OPEN[-1].pause()


def resume() -> None:
    """Record again after `pause()`; does nothing where no session is open, or it is not paused."""
    if OPEN:
        OPEN[-1].resume()


def profile(function: Callable[P, T] | None = None, /, **options: Any) -> Any:
    """Make each call of a function a session, with the arguments of `profscope.session`.

        @profscope.profile(instrument="light")
        def step(x): ...

        step(x)
        step.prof.summary()

    `prof` is the session of the call that ended last, None before the first one has. Raises OptionError
    at once for a bad option, and for functions that have not run when their call returns: coroutines and
    generators. A call raises SessionError where a session is active.
    """
    if function is not None and not callable(function):
        raise OptionError(
            f"@profscope.profile makes each call of a function a session, and {function!r} is no function; "
            "name the options, as in @profscope.profile(instrument='light')"
        )
    if function is None:
        session(**options)  # says what is wrong with the options
        return functools.partial(profile, **options)
    if runs_later(function):
        raise OptionError(
            f"@profscope.profile cannot see {called(function)} run: its call returns before that; "
            "open a profscope.session() inside it"
        )

    @functools.wraps(function)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> T:
        with session(**options) as opened:
            try:
                return function(*args, **kwargs)
            finally:
                recorded.prof = opened  # type: ignore[attr-defined]

    recorded.prof = None  # type: ignore[attr-defined]
    return recorded


def _started() -> _Started | None:
    return next((each for each in OPEN if isinstance(each, _Started)), None)
