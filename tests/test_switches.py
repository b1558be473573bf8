"""start, stop, pause, resume and profile: recording switched on and off by calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import profscope
from tests.support.forks import Forks
from tests.support.sessions import launch, launch_add, session
from tests.support.triton_globals import triton_globals
from tests.support.validation import validate


def test_start_and_stop() -> None:
    before = triton_globals()
    started = profscope.start(backend="emulator", instrument="light")
    launch_add()
    with pytest.raises(
        profscope.errors.SessionError, match=r"^profscope.start\(\) has begun a session already"
    ):
        profscope.start(backend="emulator")
    assert profscope.stop() is started
    assert len(started.launches) == 1
    assert started.metadata["options"]["instrument"] == "light"
    assert triton_globals() == before
    with pytest.raises(profscope.errors.SessionError, match="has begun no session"):
        profscope.stop()


@pytest.mark.parametrize(("every", "recorded"), [(1, 3), (2, 2)])
def test_what_is_launched_in_a_pause_is_bare_and_has_no_turn(every: int, recorded: int) -> None:
    before = triton_globals()
    with session(every=every) as prof:
        launch()
        prof.pause()
        paused = triton_globals()
        assert {**paused, "driver": None} == before  # kernels go on running on the emulator
        for _ in range(3):
            launch()
        prof.pause()
        prof.resume()
        prof.resume()
        launch()
        launch()
    assert len(prof.launches) == recorded
    assert "recording was paused once; what was launched meanwhile counts nowhere" in prof.metadata["notes"]
    assert validate(prof.tables) == []


def test_a_session_may_begin_in_the_pause_of_another() -> None:
    with session() as outer:
        launch_add()
        outer.pause()
        with session() as inner:
            launch_add()
            launch_add()
            with pytest.raises(profscope.errors.SessionError, match="sessions do not nest"):
                outer.resume()
        profscope.resume()
        launch_add()
    assert (len(outer.launches), len(inner.launches)) == (2, 2)


def test_a_pause_lasts_to_the_end() -> None:
    prof = session().__enter__()
    profscope.pause()
    launch_add()
    with pytest.warns(profscope.EmptyProfileWarning, match="recording was paused once"):
        prof.__exit__(None, None, None)
    assert len(prof.launches) == 0
    with pytest.raises(profscope.errors.SessionError, match=r"pause\(\): the session has ended"):
        prof.pause()


def test_a_forked_process_has_nothing_to_pause(forks: Forks) -> None:
    ran = forks.run("""
import os
import profscope
from tests.support.sessions import session

with session() as prof:
    child = os.fork()
    if child == 0:
        profscope.pause()
        prof.resume()
        os._exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert (ran.stdout, ran.stderr) == ("5\n", "")


def test_a_function_each_call_of_which_is_a_session() -> None:
    @profscope.profile(backend="emulator")
    def step(launches: int) -> int:
        """Launches."""
        for _ in range(launches):
            launch_add()
        return launches // launches

    assert (step.__name__, step.__doc__, step.prof) == ("step", "Launches.", None)
    assert step(2) == 1
    assert len(step.prof.launches) == 2
    with pytest.raises(ZeroDivisionError):
        step(0)
    assert len(step.prof.launches) == 0  # of the call that ended last, however it ended


def test_functions_that_only_begin_are_refused() -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def coroutine() -> None: ...

    for function in (generator, coroutine):
        with pytest.raises(profscope.errors.OptionError, match=r"@profscope.profile cannot see \w+\(\) run"):
            profscope.profile(function)
    with pytest.raises(profscope.errors.OptionError, match="no option 'colour'"):
        profscope.profile(colour="red")
    with pytest.raises(profscope.errors.OptionError, match="'light' is no function; name the options"):
        profscope.profile("light")  # type: ignore[arg-type]
