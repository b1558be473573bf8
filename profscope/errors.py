"""Everything profscope raises on purpose.

    ProfscopeError
    ├── OptionError        an option to session() or a pass is wrong (also a ValueError)
    ├── SessionError       sessions used in a way that cannot work (nested, wrong backend, closed)
    ├── CompileError       a pass or the rewritten module failed: names the kernel, pass, op and line
    ├── RecordError        a profile buffer is truncated, foreign, or of an unknown version
    ├── TraceError         a file is not a trace that can be read
    └── EmulatorError      the emulator met what it cannot or must not execute

Command-line tools turn any of them into one line on stderr and exit code 1; wrong usage exits with 2.

And everything it warns of:

    EmptyProfileWarning    a session has ended in which no launch was recorded; the message says why
"""

__all__ = [
    "CompileError",
    "EmptyProfileWarning",
    "EmulatorError",
    "OptionError",
    "ProfscopeError",
    "RecordError",
    "SessionError",
    "TraceError",
]


class ProfscopeError(Exception):
    """Base of every error profscope raises on purpose."""


class OptionError(ProfscopeError, ValueError):
    """An option is unknown, of the wrong type or out of range; the message names it and what it takes."""


class SessionError(ProfscopeError, RuntimeError):
    """A session was used in a way that cannot work."""


class CompileError(ProfscopeError, RuntimeError):
    """Instrumenting a kernel failed; the message names the kernel, the pass, the op and the line."""


class RecordError(ProfscopeError, ValueError):
    """A profile buffer is truncated, foreign, or of an unknown version."""


class TraceError(ProfscopeError, ValueError):
    """A file is not a trace that can be read; the message says what it is."""


class EmulatorError(ProfscopeError, RuntimeError):
    """The emulator met what it cannot or must not execute; the message names opcode, line and thread."""


class EmptyProfileWarning(UserWarning):
    """A session has ended in which kernels ran and no launch was recorded; the message says why."""
