"""profscope: see where each warp's time goes inside a Triton GPU kernel.

In short:

    with profscope.session() as prof:
        kernel[grid](...)
    prof.df                      # one row per span, per warp, per CTA, with source lines
    prof.save("trace.json")      # opens in Perfetto and in profscope view
    profscope.diff(old, prof)    # changes, line by line, and whether they are more than noise
    with profscope.scope("step"):    # a part of the program: prof.host has when it ran and what it launched
        ...
    prof = profscope.start()     # a session where a with statement does not fit; profscope.stop() ends it
    profscope.instructions(k)    # the SASS of a compiled kernel, with its places and what each waits for
    profscope.explain(k, ...)    # one kernel's diagnosis, and what other options would save
    except profscope.ProfscopeError  # everything raised on purpose; each kind is in profscope.errors
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from profscope.version import __version__

if TYPE_CHECKING:
    from profscope import errors
    from profscope.around.host_scopes import scope
    from profscope.binaries.rows import instructions
    from profscope.errors import DistrustWarning, EmptyProfileWarning, ProfscopeError
    from profscope.profiles import Profile, diff, load
    from profscope.sessions import Session, session
    from profscope.switches import pause, profile, resume, start, stop
    from profscope.tuning.search import explain

__all__ = [
    "DistrustWarning",
    "EmptyProfileWarning",
    "Profile",
    "ProfscopeError",
    "Session",
    "__version__",
    "diff",
    "errors",
    "explain",
    "instructions",
    "load",
    "pause",
    "profile",
    "resume",
    "scope",
    "session",
    "start",
    "stop",
]

# Triton imports this package whenever it looks for backends, and a command's --help imports it, too: what a
# name needs (pandas above all) is loaded when the name is first used.
_HOMES = {
    "Profile": "profiles",
    "Session": "sessions",
    "diff": "profiles",
    "explain": "tuning.search",
    "instructions": "binaries.rows",
    "load": "profiles",
    "pause": "switches",
    "profile": "switches",
    "resume": "switches",
    "scope": "around.host_scopes",
    "session": "sessions",
    "start": "switches",
    "stop": "switches",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"profscope.{_HOMES.get(name, 'errors')}")
    value = home if name == "errors" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
