"""What must not go wrong whatever happens around a session: forks, threads, other allocators, huge grids."""

from __future__ import annotations

import os
import threading
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.emulator.launcher import Launch
from profscope.emulator.machine.batch import Grid
from profscope.errors import SessionError
from profscope.instrument_passes.records import MAX_CTAS
from profscope.instrument_passes.selection import Selection
from profscope.store.spool_reading import read
from tests.kernels.add import add_kernel
from tests.support.sessions import launch_add, parts_of_session, session
from tests.support.triton_globals import triton_globals
from tests.support.validation import validate


@triton.jit
def one_place_kernel(out_ptr):
    tl.store(out_ptr + tl.arange(0, 32), 1)


EXPECTED = torch.arange(2500, dtype=torch.float32) * 2


# Forks.


def in_child(work: Any) -> None:
    """Run in a forked process, which fails if `work` raises."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # that is what is tested
def test_a_forked_process_launches_bare_and_leaves_the_session_alone(tmp_path: Path) -> None:
    before = triton_globals()

    def child() -> None:
        assert torch.equal(launch_add(), EXPECTED)
        with pytest.raises(SessionError, match="this process is a fork"):
            _ = prof.df
        prof.__exit__(None, None, None)  # where its `with` ends
        assert triton_globals() == before
        with session() as own:  # it may have a session of its own
            launch_add()
        assert len(own.launches) == 1

    with session(spool=tmp_path) as prof:
        launch_add()
        prof.flush()
        file = prof.spool
        assert file is not None
        size = file.stat().st_size
        in_child(child)
        assert file.stat().st_size == size
        launch_add()
    assert len(prof.launches) == 2
    assert prof.metadata["notes"] == []
    assert len(profscope.load(tmp_path).launches) == 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("paused", [False, True])
def test_a_forked_process_records_and_explains_while_its_parents_session_is_open(paused: bool) -> None:
    """As a worker of a data loader does, which never leaves its parent's `with`."""

    def child() -> None:
        assert torch.equal(launch_add(), EXPECTED)
        for _ in range(2):
            with session() as own:
                assert torch.equal(launch_add(), EXPECTED)
                own.pause()
                launch_add()
                profscope.resume()  # its own, not its parent's
                launch_add()
            assert own.launches["kernel"].tolist() == ["add_kernel"] * 2
        x = torch.ones(1000)
        explained = profscope.explain(
            add_kernel, x, x, torch.empty(1000), 1000, grid=(1,), BLOCK=1024, limit_s=1e-3, backend="emulator"
        )
        assert explained.kernel == "add_kernel"
        with session() as own, pytest.raises(SessionError, match="a session is open"):
            profscope.explain(add_kernel, x, x, torch.empty(1000), 1000, grid=(1,), BLOCK=1024)

    with session() as prof:
        launch_add()
        if paused:
            prof.pause()
        in_child(child)
        prof.resume()
        launch_add()
    assert len(prof.launches) == 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_holds_the_sessions_lock() -> None:
    with parts_of_session() as parts:
        launch_add()
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with parts.recorder.routes.lock:
                held.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        in_child(lambda: (launch_add(), parts.recorder.close()))
        done.set()
        thread.join()
        launch_add()
        assert len(parts.recorder.fetch()[0]) == 2


# Leaving a session while others launch.


def test_a_session_left_while_a_thread_launches() -> None:
    wrong: list[torch.Tensor] = []
    started, stop = threading.Event(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            out = launch_add()
            if not torch.equal(out, EXPECTED):
                wrong.append(out)
            started.set()

    with profscope.emulator.activate():  # it stays when the session is left
        launch_add()
        with session() as prof:
            thread = threading.Thread(target=work)
            thread.start()
            started.wait()
        stop.set()
        thread.join()
    assert wrong == []
    assert validate(prof.profile.tables) == []
    assert not prof.launches.empty


# Huge grids.


def test_a_grid_that_32_bits_cannot_number_runs_bare() -> None:
    with parts_of_session() as parts:
        launch_add()
        manifest = parts.recorder.log.launches[0].manifest
        assert parts.recorder.routes.find(manifest, MAX_CTAS, 0, 0) is not None
        assert parts.recorder.routes.find(manifest, MAX_CTAS + 1, 0, 0) is None
        (note,) = [note for note in parts.recorder.notes() if "unrecorded" in note]
    assert "more than 2147483648 CTAs" in note


def test_addresses_beyond_2_gib_of_tags_do_not_wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to Triton 3.7 a CTA's address is computed in 32 bits; the kernel must take back the very same.

    Of a grid of 2^27 CTAs, whose ids times the tag pass 2^31 and 2^32, a few are run.
    """
    stride, ctas = 1 << 16, 1 << 27
    chosen = Selection().cta(np.array([0, 1, 40, 700, 1500, 2047]), 16)

    def some(launch: Launch, begun: Grid, total: int, placement: Any) -> None:
        assert total == ctas
        for cta in chosen:
            schedule = launch.schedule(placement, 1)
            times, sms = np.zeros((1, 2), np.int64), np.zeros(1, np.int32)
            launch.execute(begun, schedule, np.array([cta]), times, sms)

    monkeypatch.setattr(Launch, "run_in_rounds", some)
    out = torch.zeros(32, dtype=torch.int32)
    with session(ctas=stride, spool=tmp_path) as prof:
        one_place_kernel[(ctas,)](out, num_warps=1)
    assert (out == 1).all()
    assert prof.spool is not None
    (launch,) = read(prof.spool).launches
    assert int(chosen[-1]) * launch.manifest.tag > 1 << 31
    assert sorted(prof.df["cta"].unique()) == chosen.tolist()
