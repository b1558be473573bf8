"""Launches that do not end: on the emulator, each released by the test once it has been reported."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import profscope
from profscope.errors import HangError, OptionError
from profscope.options import Options
from tests.kernels import hanging
from tests.kernels.add import add_kernel
from tests.support.sessions import CASES, session

BLOCK = 256


@contextmanager
def watched(release: Callable[[], object], hang_s: float = 0.5) -> Iterator[profscope.Session]:
    """A session on the emulator that releases what hangs in it when it is reported; reports are quiet."""
    with session(hang_s=hang_s) as prof:
        watcher = prof.watcher
        watcher._say = lambda text: None
        watcher.reported = lambda: release()
        yield prof


def reports(prof: profscope.Session) -> list[str]:
    return list(prof.metadata["hang_reports"])


def words(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def test_a_flag_that_nobody_sets() -> None:
    x, flags = torch.ones(12 * BLOCK), words(0, 0, 0, 0)
    with watched(lambda: flags.__setitem__(2, 1)) as prof:
        hanging.spin_kernel[(12,)](x, flags, 6, 5, BLOCK=BLOCK)
    (text,) = reports(prof)
    first, where, last = text.splitlines()
    assert first.startswith("spin_kernel, launch 0, after ")
    assert first.endswith(": 12 CTAs; 11 ended, 0 have not begun, 1 hangs")
    assert where.strip().startswith(
        "CTA 5 (SM 5): warps 0 to 3 poll release_ptr + 8 bytes (holds 0) at hanging.py:"
    )
    assert where.endswith(", of the outermost loop 3 of 6")
    assert "end of this process" in last
    rows = prof.hangs
    assert rows[["kernel", "launch", "cta", "sm"]].drop_duplicates().values.tolist() == [
        ["spin_kernel", 0, 5, 5]
    ]
    assert rows["warp"].tolist() == [0, 1, 2, 3]
    assert set(rows["op"]) == {"tt.atomic_rmw"}
    assert set(rows["waits_for"]) == {"release_ptr + 8 bytes (holds 0)"}
    assert rows["since_s"].between(0.2, 60).all()
    assert x[::BLOCK].tolist() == [6.0] * 12  # the results are those of a kernel that was only late


@pytest.mark.parametrize(
    ("kernel", "last", "where"),
    [
        (hanging.all_flags_kernel, {"BLOCK": 4}, "poll memory at"),
        (hanging.flags_in_turn_kernel, {"flags": 4}, "poll flags_ptr"),
        (hanging.chase_kernel, {"start": 3}, "poll next_ptr + 8 bytes (holds 2) at"),
    ],
)
def test_a_loop_that_polls(kernel: Any, last: dict[str, int], where: str) -> None:
    """chase_kernel's list ends in a ring of one until it is released."""
    flags = words(0, 1, 2, 2) if kernel is hanging.chase_kernel else words(1, 1, 0, 1)
    with watched(lambda: flags.__setitem__(2, 1 if flags[2] == 0 else 0)) as prof:
        kernel[(1,)](flags, torch.ones(1), **last)
    (text,) = reports(prof)
    assert f"CTA 0 (SM 0): warps 0 to 3 {where}" in text


def test_a_word_of_a_tuple() -> None:
    flags = words(0, 0)
    with watched(lambda: flags.__setitem__(1, 1)) as prof:
        hanging.tuple_kernel[(1,)]((torch.ones(1), flags))
    (text,) = reports(prof)
    assert "poll tensors[1] + 4 bytes (holds 0) at" in text


def test_a_list_that_is_followed_is_no_poll() -> None:
    following = torch.arange(-1, 12000, dtype=torch.int32).clamp(min=0)
    with watched(lambda: None, hang_s=0.3) as prof:
        hanging.chase_kernel[(1,)](following, torch.ones(1), 12000)
    (text,) = reports(prof)
    assert "slow, not hanging: " in text


def test_ctas_that_stand_alike_are_told_once() -> None:
    x, counters = torch.ones(8 * BLOCK), words(64, 0)  # as a launch before has left them
    with watched(lambda: counters.__setitem__(1, 8)) as prof:
        hanging.tiles_kernel[(6,)](x, counters, counters[1:], 8, BLOCK=BLOCK)
    (text,) = reports(prof)
    assert "6 hang" in text
    assert "  6 CTAs (0 to 5), such as CTA 0 (SM 0): warps 0 to 3 poll done_ptr (holds 0) at" in text
    assert len(prof.hangs) == 6 * 4


def test_a_deadlock_that_the_emulator_finds() -> None:
    with pytest.raises(HangError, match="deadlock"), watched(lambda: None) as prof:
        hanging.barrier_kernel[(1,)](torch.ones(BLOCK), BLOCK=BLOCK)
    (text,) = reports(prof)
    first, one, others, _ = text.splitlines()
    assert "1 hangs (barrier_kernel: deadlock: not all threads come to this barrier" in first
    assert one.strip().startswith("CTA 0 (SM 0): warp 0 waits for the other warps of its CTA at hanging.py:")
    assert others.strip().startswith("warps 1 to 3 wait for its assembly at hanging.py:")
    assert prof.hangs["since_s"].isna().all()
    assert prof.hangs["line"].nunique() == 2


def test_a_launch_after_one_that_failed_is_seen_afresh() -> None:
    flags, reported = words(0, 0, 0, 0), iter((0, 1))
    with watched(lambda: flags.__setitem__(2, next(reported))) as prof:
        with pytest.raises(HangError):
            hanging.barrier_kernel[(1,)](torch.ones(BLOCK), BLOCK=BLOCK)
        hanging.spin_kernel[(2,)](torch.ones(2 * BLOCK), flags, 6, 1, BLOCK=BLOCK)
    assert prof.hangs[["kernel", "launch"]].drop_duplicates().values.tolist() == [
        ["barrier_kernel", 0], ["spin_kernel", 1],
    ]  # fmt: skip


def test_a_slow_launch_is_no_hang() -> None:
    with session(hang_s=60):
        for _ in range(2):  # the first one compiles
            begin = time.perf_counter()
            hanging.slow_kernel[(1,)](torch.ones(BLOCK), 20, 20, BLOCK=BLOCK)
            each_s = (time.perf_counter() - begin) / 20
    hang_s = max(0.6, 40 * each_s)  # on a slow machine, too, a warp gets on far sooner
    count = max(240, int(2.5 * hang_s / each_s))
    with watched(lambda: None, hang_s=hang_s) as prof:
        hanging.slow_kernel[(1,)](torch.ones(BLOCK), count, 20, BLOCK=BLOCK)
    (text,) = reports(prof)
    assert "slow, not hanging: " in text
    assert f" % of {count} done; 1 CTA; 0 ended" in text
    assert prof.hangs.empty


@pytest.mark.parametrize("name", ["matmul", "layer_norm", "while", "attention"])
def test_results_are_bit_identical(name: str) -> None:
    case = CASES[name]
    bare, marked = case.inputs("cpu"), case.inputs("cpu")
    with session() as prof:
        prof.pause()
        case.launch(bare)
        prof.resume()
        case.launch(bare)
    with session(hang_s=60) as prof:
        case.launch(marked)
        case.launch(marked)
    for name_of, tensor in bare.items():
        if torch.is_tensor(tensor):
            assert torch.equal(tensor, marked[name_of]), name_of
    assert reports(prof) == []
    assert prof.launches.empty


def test_a_kernel_that_cannot_hang_is_left_as_it_is() -> None:
    x, out = torch.ones(1024), torch.empty(1024)
    with session(hang_s=60) as prof:
        add_kernel[(1,)](x, x, out, 1024, BLOCK=1024)
        assert not prof.watcher.launches.seen
    assert out.tolist() == [2.0] * 1024
    assert [note for note in prof.metadata["notes"] if "add_kernel" in note] == []


def test_what_is_saved_has_the_hangs(tmp_path: Path) -> None:
    flags = words(0, 0, 0, 0)
    with watched(lambda: flags.__setitem__(2, 1)) as prof:
        hanging.spin_kernel[(2,)](torch.ones(2 * BLOCK), flags, 6, 1, BLOCK=BLOCK)
    for name in ("trace.json", "trace.pftrace.gz", "trace.parquet"):
        prof.save(tmp_path / name)
        again = profscope.load(tmp_path / name)
        assert again.hangs.equals(prof.hangs)
    assert again.report()["header"]["hangs"] == reports(prof)
    assert "1 hangs" in again.brief()
    prof.save(tmp_path / "page.html")
    assert "Launches that did not end" in (tmp_path / "page.html").read_text()


def test_a_profile_without_the_option_has_no_hangs() -> None:
    with session() as prof:
        pass
    profile = prof.profile
    assert profile.hangs.empty
    assert list(profile.hangs.columns)[:4] == ["kernel", "variant", "launch", "cta"]


def test_the_wakeup_descriptor_is_restored() -> None:
    assert signal.set_wakeup_fd(-1) == -1
    with session(hang_s=60):
        assert signal.set_wakeup_fd(-1) != -1
    assert signal.set_wakeup_fd(-1) == -1


def test_a_session_in_another_thread_watches_all_the_same() -> None:
    flags, found = words(0, 0, 0, 0), []

    def work() -> None:
        with watched(lambda: flags.__setitem__(2, 1)) as prof:
            hanging.spin_kernel[(2,)](torch.ones(2 * BLOCK), flags, 6, 1, BLOCK=BLOCK)
        found.append(len(prof.hangs))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [4]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"hang_s": 0}, "hang_s=0 must be a number of seconds"),
        ({"hang_s": True}, "hang_s=True must be"),
        ({"hang_s": 5, "ctas": 64}, "leave ctas=64 out"),
        ({"hang_s": 5, "evidence": True}, "leave evidence=True out"),
        ({"hang_s": 5, "instrument": "heavy"}, "leave instrument='heavy' out"),
    ],
)
def test_options_that_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(OptionError) as raised:
        Options(**options)  # type: ignore[arg-type]
    assert says in str(raised.value)


def test_a_fork_that_leaves_does_not_end_the_watch() -> None:
    flags = words(0, 0, 0, 0)
    with watched(lambda: flags.__setitem__(2, 1)) as prof:
        child = os.fork()
        if child == 0:
            prof.__exit__(None, None, None)
            os._exit(0)
        os.waitpid(child, 0)
        hanging.spin_kernel[(2,)](torch.ones(2 * BLOCK), flags, 6, 1, BLOCK=BLOCK)
    assert len(prof.hangs) == 4


def test_a_body_that_raises_leaves_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(ValueError, match="mine"), session(hang_s=60):
            raise ValueError("mine")
    assert len(os.listdir("/proc/self/fd")) <= before
