"""profscope: see where each warp's time goes inside a Triton GPU kernel.

In short:

    with profscope.session() as prof:
        kernel[grid](...)
    prof.df                      # one row per span, per warp, per CTA, with source lines
    prof.save("trace.json")      # opens in Perfetto and in profscope-view
"""

from profscope.errors import ProfscopeError
from profscope.profile import Profile, load
from profscope.session import Session, session
from profscope.version import __version__

__all__ = ["Profile", "ProfscopeError", "Session", "__version__", "load", "session"]
