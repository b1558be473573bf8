"""Clocks of two hosts compared over the network; and which rank of which job a session is."""

from __future__ import annotations

import socket
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from profscope.around.job import Job, RankClock, ask

AHEAD_NS = 5_000_000_000


def rank_0() -> int:
    return time.time_ns() + AHEAD_NS


def test_the_difference_of_two_clocks_is_within_its_error() -> None:
    clock = RankClock(b"secret", rank_0)
    with socket.create_connection(("127.0.0.1", clock.port)) as connection:
        connection.sendall(b"secret")
        moment = ask(connection)
    clock.close()
    assert abs(moment.offset_ns - AHEAD_NS) <= moment.error_ns
    assert moment.error_ns < 100_000_000


def test_only_who_knows_the_token_is_answered() -> None:
    clock = RankClock(b"secret", rank_0)
    with socket.create_connection(("127.0.0.1", clock.port)) as connection:
        connection.sendall(b"guess!")
        with pytest.raises(OSError, match=r"the other end is gone|Connection reset|Broken pipe"):
            ask(connection)
    clock.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", clock.port), 1)


class Store:
    """As one of torch.distributed, in one process."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def set(self, key: str, value: str) -> None:
        self.values[key] = value.encode()

    def get(self, key: str) -> bytes:
        return self.values[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        return self.values.setdefault(key, desired.encode())


def joined(store: Store, rank: int, boot: str, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job as this process would have it, were it that rank on that host."""
    distributed: Any = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True,
        get_rank=lambda: rank, get_world_size=lambda: 2,
        distributed_c10d=SimpleNamespace(_get_default_store=lambda: store),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    return Job(boot)


def test_ranks_of_two_hosts_compare_their_clocks_at_start_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    first = joined(store, 0, "a", monkeypatch)
    with first.joined():
        second = joined(store, 1, "b", monkeypatch)
        with second.joined():
            for _ in range(500):
                if second.describe()["job"]["clock"]:
                    break
                time.sleep(0.01)
        about = second.describe()["job"]
    assert (about["rank"], about["world_size"], len(about["clock"])) == (1, 2, 2)
    assert all(abs(each["offset_ns"]) <= each["error_ns"] for each in about["clock"])
    assert first.describe()["job"]["id"] == about["id"] != ""
    assert first.describe()["job"]["clock"] == []
    assert "profscope-rank-clock" not in [thread.name for thread in threading.enumerate()]


def test_on_one_host_there_is_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    with joined(store, 0, "a", monkeypatch).joined():
        second = joined(store, 1, "a", monkeypatch)
        with second.joined():
            pass
    assert second.describe()["job"]["clock"] == []


def test_without_a_job_there_is_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    job = Job()
    with job.joined():
        assert job.describe() == {}
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    about = Job().describe()["job"]
    assert (about["rank"], about["world_size"], about["id"], about["clock"]) == (2, 4, "", [])
