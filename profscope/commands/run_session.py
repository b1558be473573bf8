"""The session of a whole program: it gives way to one that the program opens.

Imported at the first launch: it needs torch and Triton.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

from profscope.options import Options
from profscope.sessions import Session

__all__ = ["RunSession"]

_OWN_SESSION: Final = "the program opened its own session: only that one has the later launches"


class RunSession(Session):
    """gives_way: told that another session is about to begin, in words; it
    closes this one.

    program: the metadata's entry of that name, as far as it is known when the program starts.
    """

    def __init__(
        self, options: Options, gives_way: Callable[[str], None], *, program: dict[str, Any]
    ) -> None:
        super().__init__(options)
        self._told = {"program": program}
        self._gives_way = gives_way
        self._flushed = 0  # launches

    def __enter__(self) -> RunSession:
        super().__enter__()
        enter = Session.__enter__

        def enter_alone(session: Session) -> Any:
            Session.__enter__ = enter  # type: ignore[method-assign]
            if self.is_open:
                self._gives_way(_OWN_SESSION)
            return enter(session)

        Session.__enter__ = enter_alone  # type: ignore[method-assign]
        return self

    def entered(self, gate: str, original: Callable[..., Any], launched: Any) -> Callable[..., Any]:
        """See `Running.entered`."""
        return self._parts().entered(gate, original, launched)

    def flush_news(self) -> None:
        """As flush(), where there has been a launch since the last time.

        It does nothing while a CUDA graph is being captured: to wait breaks that.
        """
        recorder = self._parts().recorder
        launches = len(recorder.log)
        if launches == self._flushed:
            return
        with contextlib.ExitStack() as stack:
            if recorder.graphs is None or stack.enter_context(recorder.graphs.between_captures()):
                self.flush()
                self._flushed = launches

    def _warn(self) -> None:
        """The notes say it, where the profile is shown."""

    def _at_exit(self) -> None:
        """The run closes it, after what the program does at its exit."""
