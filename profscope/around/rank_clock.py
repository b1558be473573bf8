"""What a host's clock says when rank 0's says something else, asked over the network as NTP does.

asks at 0 us by its own clock; rank 0 answers at 5,020 us by its own; hears at 60 us
-> rank 0's clock is 4,990 us ahead, give or take 30 us
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["Moment", "RankClock", "ask"]

_TIMES: Final = struct.Struct("<qq")
_ASKED: Final = 40
_LEAVING_S: Final = 1.0

Now = Callable[[], int]


class Moment(NamedTuple):
    """At `unix_ns` of the own host's clock rank 0's was `offset_ns` ahead, give or take `error_ns`."""

    unix_ns: int
    offset_ns: int
    error_ns: int


def ask(connection: socket.socket, now: Now = time.time_ns) -> Moment:
    """What the quickest of some answers says. Raises OSError where there are none."""
    best: Moment | None = None
    for _ in range(_ASKED):
        asked = now()
        connection.sendall(b"?")
        answer = b""
        while len(answer) < _TIMES.size:
            part = connection.recv(_TIMES.size - len(answer))
            if not part:
                raise ConnectionResetError("the other end is gone")
            answer += part
        heard = now()
        got, sent = _TIMES.unpack(answer)
        # The answer was given some time between the two: at either end of that the offset is at its bounds.
        error = max(0, (heard - asked - (sent - got)) // 2 + 1)
        if best is None or error < best.error_ns:
            best = Moment(asked, (got - asked + sent - heard) // 2, error)
    assert best is not None
    return best


class RankClock:
    """Rank 0's: answers whoever knows the token, in threads of its own, until it is closed."""

    def __init__(self, token: bytes, now: Now = time.time_ns) -> None:
        """Raises OSError where no port can be had."""
        self._token, self._now = token, now
        self._listener = socket.create_server(("", 0))
        self.port: int = self._listener.getsockname()[1]
        self._answering: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, name="profscope-rank-clock", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Wait a moment for those who still ask, and answer no more."""
        until = time.monotonic() + _LEAVING_S
        for thread in list(self._answering):
            thread.join(max(0.0, until - time.monotonic()))
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts; close() alone does not
        finally:
            self._listener.close()
            self._accepting.join(_LEAVING_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            connection.settimeout(None)
            thread = threading.Thread(target=self._answer, args=(connection,), daemon=True)
            self._answering.append(thread)
            thread.start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if connection.recv(len(self._token), socket.MSG_WAITALL) != self._token:
                    return
                while connection.recv(1):
                    got = self._now()
                    connection.sendall(_TIMES.pack(got, self._now()))
            except OSError:  # it went
                return
