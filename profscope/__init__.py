"""profscope: see where each warp's time goes inside a Triton GPU kernel.

In short:

    with profscope.session() as prof:
        kernel[grid](...)
    prof.df                      # one row per span, per warp, per CTA, with source lines
    prof.save("trace.json")      # opens in Perfetto and in profscope-view
"""

from typing import TYPE_CHECKING, Any

from profscope.errors import ProfscopeError
from profscope.sessions import Session, session
from profscope.version import __version__

if TYPE_CHECKING:
    from profscope.profiles import Profile, load

__all__ = ["Profile", "ProfscopeError", "Session", "__version__", "load", "session"]


def __getattr__(name: str) -> Any:
    # Triton imports this package whenever it looks for backends; the tables' pandas can wait.
    if name not in ("Profile", "load"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from profscope import profiles as profile

    return getattr(profile, name)
