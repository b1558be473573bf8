"""The job of this process, a rank of it: the metadata's entry "job".

    {"id": "8f...", "rank": 3, "world_size": 8, "host": "node1", "boot": "c7...", "began_unix_ns": ...,
     "clock": [{"unix_ns": ..., "offset_ns": -181234, "error_ns": 21500}, ...]}

id: of the run, the same on all ranks, "" if they could not agree. boot: processes with the same one share a
clock. clock: comparisons of the host's clock with that of rank 0's host, at the session's start, or as soon
as rank 0 answers, and at its end; none on rank 0's host.

Ranks meet at the store of the job's process group (`torch.distributed`), once it is initialised. There rank 0
gives the address of its clock; nothing else is sent through the group, so no rank waits for another.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Final, NamedTuple

from profscope.compat.torch_parts import job_store
from profscope.threads import in_background

__all__ = ["JOB", "RANKS", "SIZES", "Job", "Moment", "RankClock", "ask", "rank", "ranks"]

JOB: Final = "PROFSCOPE_JOB"
"""Environment variable with the id of a run whose processes profscope itself has started."""

RANKS: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")  # torchrun and accelerate, Open MPI, MPICH
SIZES: Final = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_PAUSE_S: Final = 0.2
_TIMEOUT_S: Final = 1.0
_PORT_OF_NOTHING: Final = 9


_TIMES: Final = struct.Struct("<qq")
_ASKED: Final = 40
_LEAVING_S: Final = 1.0
Now = Callable[[], int]


def rank(environment: Mapping[str, str]) -> int | None:
    """The rank of this process in its job; None without a job."""
    return _number(environment, RANKS)


def ranks(environment: Mapping[str, str]) -> int | None:
    """How many processes the job has; None if nothing says it."""
    return _number(environment, SIZES)


def _number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    texts = [environment[name] for name in names if environment.get(name, "").isdecimal()]
    return int(texts[0]) if texts else None


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}-{os.getpid()}"  # shared with nobody


class Job:
    """The job of a session. Nothing here raises: without a job, or without a network, there is less to say.

    boot: id of the host's boot, which its ranks share; by default this host's.
    """

    def __init__(self, boot: str = "") -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._id = os.environ.get(JOB, "")
        self._rank, self._size = rank(os.environ), _number(os.environ, SIZES)
        self._began_ns = time.time_ns()
        self._boot = boot or _boot()
        self._clock: RankClock | None = None
        self._met = False
        self._left = threading.Event()
        self._store: Any = None  # where rank 0 says where its clock answers; of another rank
        self._asked: Future[None] | None = None
        self._moments: list[dict[str, int]] = []

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """For the length of a session."""
        self._meet()
        self._begin_to_ask()
        try:
            yield
        finally:
            self._leave()

    def describe(self) -> dict[str, Any]:
        """The metadata's entry "job", as far as it is known now; {} if there is no job."""
        if not self._left.is_set():
            self._meet()
            self._begin_to_ask()
        if self._rank is None:
            return {}
        about = {"id": self._id, "rank": self._rank, "world_size": self._size, "host": socket.gethostname()}
        with self._lock:
            moments = list(self._moments)
        return {"job": about | {"boot": self._boot, "began_unix_ns": self._began_ns, "clock": moments}}

    def _meet(self) -> None:
        """Meet the other ranks, as soon as there is a process group; once."""
        distributed: Any = sys.modules.get("torch.distributed")
        if os.getpid() != self._pid or distributed is None or not distributed.is_available():
            return
        with self._lock:
            if self._met or not distributed.is_initialized():
                return
            self._met = True
        self._rank, self._size = distributed.get_rank(), distributed.get_world_size()
        with contextlib.suppress(AttributeError, RuntimeError, OSError, ValueError):
            store = job_store()
            if not self._id:
                self._id = store.compare_set("profscope/job", "", secrets.token_hex(8)).decode()
            if self._rank == 0:
                self._answer(store)
            elif self._size > 1:
                self._store = store

    def _answer(self, store: Any) -> None:
        token = secrets.token_hex(8)
        self._clock = RankClock(token.encode())
        told = {"boot": self._boot, "token": token, "port": self._clock.port, "hosts": _own_addresses()}
        store.set("profscope/clock", json.dumps(told))

    def _begin_to_ask(self) -> None:
        """Compare the clocks in the background, if that has not been done."""
        with self._lock:
            if self._store is None or self._moments or not (self._asked is None or self._asked.done()):
                return
            self._asked = in_background(self._ask)

    def _ask(self) -> None:
        """Compare the clocks, if rank 0 is there, or comes in a moment."""
        with contextlib.suppress(RuntimeError, OSError, ValueError, KeyError):
            late_s = time.monotonic() + _TIMEOUT_S
            while not self._store.check(["profscope/clock"]):
                if time.monotonic() > late_s or self._left.wait(_PAUSE_S):
                    return
            told = json.loads(self._store.get("profscope/clock"))
            if told["boot"] == self._boot:
                return
            with _connected(told["hosts"], told["port"]) as connection:
                connection.sendall(told["token"].encode())
                moment = ask(connection)
            with self._lock:
                self._moments.append(moment._asdict())

    def _leave(self) -> None:
        self._left.set()
        if os.getpid() != self._pid:
            return
        if self._store is not None:
            if self._asked is not None:
                wait([self._asked], _TIMEOUT_S)
            self._ask()
        if self._clock is not None:
            with contextlib.suppress(OSError):
                self._clock.close()


def _connected(hosts: list[str], port: int) -> socket.socket:
    """Raises OSError if no host of these can be reached."""
    failed: OSError = OSError("no host is named")
    for host in hosts:
        try:
            connection = socket.create_connection((host, port), _TIMEOUT_S)
        except OSError as error:
            failed = error
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    raise failed


def _own_addresses() -> list[str]:
    """By which others may reach this host, the likeliest first."""
    name = socket.gethostname()
    addresses = [os.environ.get("MASTER_ADDR", ""), name]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        route.connect(("192.0.2.1", _PORT_OF_NOTHING))  # sends nothing: only asks which way it would go
        addresses.insert(0, route.getsockname()[0])
    return list(dict.fromkeys(each for each in addresses if each))


class Moment(NamedTuple):
    """At `unix_ns` of the own host's clock rank 0's was `offset_ns` ahead, give or take `error_ns`."""

    unix_ns: int
    offset_ns: int
    error_ns: int


def ask(connection: socket.socket, now: Now = time.time_ns) -> Moment:
    """The quickest of several answers. Raises OSError without an answer."""
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
    """Rank 0's: answers whoever knows the token, in a thread of its own, until it is closed."""

    def __init__(self, token: bytes, now: Now = time.time_ns) -> None:
        """Raises OSError if no port can be had."""
        self._token, self._now = token, now
        self._listener = socket.create_server(("", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._answer, name="profscope-rank-clock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Refuse new ranks, and wait a moment for open requests."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread; close() alone does not
        finally:
            self._thread.join(_LEAVING_S)
            self._listener.close()

    def _answer(self) -> None:
        """Until the listener is shut down and all who asked are gone."""
        unheard: dict[socket.socket, bytes] = {}  # by connection, what is still to come of the token
        with selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            while ready.get_map():
                for key, _ in ready.select():
                    if key.fileobj is self._listener:
                        self._accept(ready, unheard)
                        continue
                    connection = key.fileobj
                    assert isinstance(connection, socket.socket)
                    if not self._heard(connection, unheard):
                        ready.unregister(connection)
                        del unheard[connection]
                        connection.close()

    def _accept(self, ready: selectors.BaseSelector, unheard: dict[socket.socket, bytes]) -> None:
        try:
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # shut down
            ready.unregister(self._listener)
            return
        unheard[connection] = self._token
        ready.register(connection, selectors.EVENT_READ)

    def _heard(self, connection: socket.socket, unheard: dict[socket.socket, bytes]) -> bool:
        """Take what has come: of the token, or a question, which is answered. False where it ends."""
        token = unheard[connection]
        try:
            came = connection.recv(len(token) or 1)
            got = self._now()
            if token:
                unheard[connection] = token[len(came) :]
                return bool(came) and token.startswith(came)
            if came:
                connection.sendall(_TIMES.pack(got, self._now()))
        except OSError:  # it went
            return False
        return bool(came)
