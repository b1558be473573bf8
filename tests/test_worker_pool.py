"""The threads of a process that share its work."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future

import pytest

from profscope.threads import MOST_THREADS, in_order, worker_pool
from tests.support.forks import Forks

WAIT_S = 30


@pytest.fixture(params=[0, 1, 2])
def few_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """All threads of the process's pool are busy but so many."""
    left, busy = threading.Event(), max(os.cpu_count() or 1, MOST_THREADS) - request.param

    def work(begun: threading.Event) -> bool:
        begun.set()
        return left.wait(WAIT_S)

    with worker_pool(busy) as pool:
        begun = [threading.Event() for _ in range(busy)]
        futures = [pool.submit(work, each) for each in begun]
        assert all(each.wait(WAIT_S) for each in begun)
        yield request.param
        left.set()
        assert all(future.result() for future in futures)


def test_all_bodies_share_a_pool(few_threads: int) -> None:
    def name(_: int) -> str:
        return threading.current_thread().name

    names = set[str]()
    for _ in range(4):
        with worker_pool() as pool:
            names.update(pool.map(name, range(16)))
    assert len(names - {threading.current_thread().name}) <= few_threads


@pytest.mark.usefixtures("few_threads")
def test_work_may_share_out_work_and_wait_for_it() -> None:
    def leaves(depth: int) -> int:
        if not depth:
            return 1
        with worker_pool(2) as pool:
            return sum(pool.map(leaves, [depth - 1] * 3))

    assert leaves(4) == 3**4


@pytest.mark.usefixtures("few_threads")
def test_work_may_give_more_to_the_body_that_it_is_of() -> None:
    with worker_pool(1) as pool:
        assert list(pool.map(lambda each: sum(in_order(pool, int, str(each))), [12, 345])) == [3, 12]


def test_one_thread_works_beside_the_caller() -> None:
    begun, said = threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return said.wait(WAIT_S)

    with worker_pool(1) as pool:
        answer = pool.submit(work)
        assert begun.wait(WAIT_S)
        said.set()
        assert answer.result()


def test_no_more_threads_work_than_are_asked_for() -> None:
    lock, most, now = threading.Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.001)
        with lock:
            now -= 1

    with worker_pool(2) as pool:
        futures = [pool.submit(work, number) for number in range(16)]
        for future in futures:
            Future.result(future, WAIT_S)  # only waits, where `result()` helps
    assert most <= 2


def test_a_body_that_raises_waits_for_what_has_begun_and_not_for_the_rest() -> None:
    begun, left, done = threading.Event(), threading.Event(), []

    def work(number: int) -> None:
        begun.set()
        left.wait(WAIT_S)
        done.append(number)

    futures: list[Future[None]] = []

    def body() -> None:
        with worker_pool(1) as pool:
            futures.extend(pool.submit(work, number) for number in range(3))
            assert begun.wait(WAIT_S)
            threading.Timer(0.01, left.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        body()
    assert done == [0]
    assert [future.cancelled() for future in futures] == [False, True, True]
    with pytest.raises(CancelledError):
        futures[1].result()
    with worker_pool(1) as pool:  # the thread is free again
        assert pool.submit(int, "7").result() == 7


def test_a_body_waits_for_its_own_work_alone() -> None:
    left = threading.Event()
    with worker_pool(1) as pool:
        waiting = pool.submit(left.wait, WAIT_S)
        with worker_pool(1) as other:
            assert other.submit(int, "1").result() == 1
        assert not waiting.done()
        left.set()
        assert waiting.result()


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    with worker_pool() as pool:
        futures = [pool.submit(int, text) for text in ("1", "x", "3")]
        assert (futures[0].result(), futures[2].result()) == (1, 3)
        with pytest.raises(ValueError, match="invalid literal"):
            futures[1].result()


def test_a_fork_has_threads_of_its_own(forks: Forks) -> None:
    ran = forks.run(
        """
import os
from profscope.threads import worker_pool

def total():
    with worker_pool(2) as pool:
        return sum(pool.map(int, "12345678"))

assert total() == 36
child = os.fork()
if child == 0:
    os._exit(total())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    assert ran.stdout == "36\n", ran.stderr
