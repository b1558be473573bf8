"""Scopes of asyncio's tasks, async functions and generators."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import profscope
from profscope.errors import OptionError
from tests.support.sessions import launch_add, session


def test_a_scope_belongs_to_its_task() -> None:
    """Tasks alternate at each launch; a grid says whose it is."""

    async def work(name: str, ctas: int) -> None:
        with profscope.scope(name) if name else contextlib.nullcontext():
            for _ in range(3):
                launch_add(1024 * ctas)
                await asyncio.sleep(0)
        launch_add(1024 * ctas)

    async def main() -> None:
        with profscope.scope("all"):
            created = [asyncio.create_task(work(*each)) for each in (("a", 1), ("b", 2), ("", 3))]
        await asyncio.gather(*created, work("outside", 4))

    with session(instrument=["kernel-span"]) as prof:
        asyncio.run(main())
    host, launches = prof.host, prof.launches
    names = [*host["scope"], "none"]
    inside = {ctas: [names[row] for row in rows["host"]] for ctas, rows in launches.groupby("grid_x")}
    assert inside == {
        1: ["a", "a", "a", "none"],  # the scope that created the task has ended meanwhile
        2: ["b", "b", "b", "none"],
        3: ["none"] * 4,
        4: ["outside"] * 3 + ["none"],
    }
    assert host.set_index("scope")["depth"].to_dict() == {"all": 0, "a": 0, "b": 0, "outside": 0}
    assert prof.metadata["notes"] == []


def test_a_task_begins_in_the_scope_that_creates_it_and_one_open_before_the_session_goes_on() -> None:
    async def inner() -> None:
        await asyncio.sleep(0)
        launch_add(100)
        with profscope.scope("inner"):
            launch_add(100)

    async def main() -> profscope.Session:
        with profscope.scope("outer"):
            waiting = asyncio.create_task(inner())
            with session(instrument=["kernel-span"]) as prof:
                launch_add(100)
                await waiting
        return prof

    prof = asyncio.run(main())
    assert prof.host["scope"].tolist() == ["outer", "inner"]
    assert prof.host["parent"].tolist() == [-1, 0]
    assert prof.launches["host"].tolist() == [0, 0, 1]


class Step:
    async def __call__(self) -> str:
        launch_add(100)
        await asyncio.sleep(0)
        launch_add(100)
        return "done"


@pytest.mark.parametrize("step", [Step().__call__, Step(), functools.partial(Step())])
def test_the_scope_of_an_async_function_lasts_until_it_has_run(step: Any) -> None:
    with session(instrument=["kernel-span"]) as prof:
        assert asyncio.run(profscope.scope("step", tokens=2)(step)()) == "done"
    assert prof.host["tokens"].tolist() == [2]
    assert prof.launches["host"].tolist() == [0, 0]


def test_a_generator_is_no_scope() -> None:
    def batches() -> Iterator[int]:
        yield 1

    async def stream() -> AsyncIterator[int]:
        yield 1

    for function in (batches, stream, functools.partial(batches), functools.partial(stream)):
        for decorate in (profscope.scope("data"), profscope.profile):
            with pytest.raises(OptionError, match=r"cannot see .*(batches|stream)"):
                decorate(function)
