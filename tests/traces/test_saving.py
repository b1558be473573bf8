"""A file appears whole or not at all, whatever stops the saving; what no file can hold is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profscope
from profscope.analysis.cause import Finding
from profscope.analysis.rules import diagnose
from profscope.analysis.rules.kernel import Kernel
from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from tests.support.examples import examples
from tests.support.full_disk import full_disk
from tests.support.profiles import profiles, regular_profile
from tests.support.quick import quick
from tests.support.round_trips import assert_same

ROOT = Path(__file__).parents[2]

_NOBODY = 65534


@contextmanager
def unprivileged_in(folder: Path) -> Iterator[None]:
    """In a folder that belongs to the user, with all that is in it. What is imported must be by then."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        if os.geteuid():
            yield
            return
        for path in (folder, *folder.rglob("*")):
            os.chown(path, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, 0)
        try:
            yield
        finally:
            os.setresuid(0, 0, 0)
    finally:
        os.chdir(before)


SAVE_AGAIN_AND_AGAIN = """
import sys
from tests.support.profiles import regular_profile
profile = regular_profile(launches=2, ctas=128, iterations=20)
print("ready", flush=True)
try:
    while True:
        profile.save(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_in_the_middle_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace.gz"
    regular_profile(launches=1, ctas=1).save(path)
    before = path.read_bytes()
    saver = subprocess.Popen(
        [sys.executable, "-c", SAVE_AGAIN_AND_AGAIN, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert saver.stdout is not None
    assert saver.stdout.readline() == "ready\n"
    while not being_written(tmp_path):
        assert saver.poll() is None
    saver.send_signal(signal.SIGINT)
    out, _ = saver.communicate(timeout=120)
    assert (out, saver.returncode) == ("interrupted\n", 0)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == before or len(profscope.load(path).launches) == 2


def test_a_finding_that_fails_fails_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = profscope.load(ROOT / "tests" / "data" / "findings" / "uncoalesced-load.json.gz")

    def fails(kernel: Kernel) -> Iterator[Finding]:
        raise ZeroDivisionError(f"in {kernel.analysis.kernel}")

    monkeypatch.setattr(diagnose, "diagnose", fails)
    profile.save(tmp_path / "t.html")
    said = f"findings are left out: working them out failed, ZeroDivisionError: in {profile.df['kernel'][0]}"
    assert said in (tmp_path / "t.html").read_text()


def being_written(folder: Path) -> bool:
    try:
        return any(part.stat().st_size for part in folder.glob(".*.part"))
    except FileNotFoundError:  # it has just become the file
        return False


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(OptionError, match=r"saved under a name, such as 'trace.pftrace.gz', not None"):
        regular_profile().save(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", [".json.gz", ".parquet"])
def test_a_disk_that_fills_up_leaves_the_file_as_it_was(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_text("precious")
    profile = regular_profile(launches=1, ctas=16)
    for free_bytes in (0, 100, 9000):
        with pytest.raises(TraceError, match=r"cannot write .*: File too large"), full_disk(free_bytes):
            profile.save(path)
        assert path.read_text() == "precious"
        assert os.listdir(tmp_path) == [path.name]
    profile.save(path)
    assert_same(profscope.load(path), profile)


def test_what_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    """A trace has the sources of kernels in it."""
    before = os.umask(0o027)
    try:
        regular_profile(launches=1, ctas=1).save(tmp_path / "t.json")
        assert mode(tmp_path / "t.json") == 0o640
        (tmp_path / "t.json").chmod(0o700)
        regular_profile(launches=2, ctas=1).save(tmp_path / "t.json")
        assert mode(tmp_path / "t.json") == 0o700
    finally:
        os.umask(before)


def test_what_is_read_only_is_not_replaced(tmp_path: Path) -> None:
    before = regular_profile(launches=1, ctas=1)
    before.save(tmp_path / "t.json")
    (tmp_path / "t.json").chmod(0o400)
    with unprivileged_in(tmp_path):
        with pytest.raises(TraceError, match=r"^cannot write t\.json: it is read-only; "):
            regular_profile(launches=2, ctas=1).save("t.json")
        assert_same(profscope.load("t.json"), before)
        assert os.listdir() == ["t.json"]
        Path("t.json").chmod(0o700)
        regular_profile(launches=2, ctas=1).save("t.json")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


TIMES = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**60)
DURATIONS = st.integers(-1, 2**63 - 1) | st.integers(0, 2**60)


@pytest.mark.hypothesis
@pytest.mark.parametrize("suffix", quick([".json", ".pftrace"], [".pftrace"]))
def test_any_times_are_saved_or_refused(suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("times") / f"t{suffix}"

    @settings(max_examples=examples(20))
    @given(profiles(max_actions=6), st.lists(TIMES, min_size=2), st.lists(DURATIONS, min_size=2))
    def check(profile: Profile, starts: list[int], durations: list[int]) -> None:
        df = profile.tables.df
        df["start_ns"] = np.resize(np.array(starts, np.int64), len(df))
        df["duration_ns"] = np.resize(np.array(durations, np.int64), len(df))
        last = max([int(df["start_ns"].max()) + int(df["duration_ns"].max()), 0]) if len(df) else 0
        first = min(int(df["start_ns"].min()), 0) if len(df) else 0
        if (df["duration_ns"] < 0).any() or last >= 2**63 or last - first >= 2**63:
            with pytest.raises(TraceError, match=r"no trace can hold (times from|a duration_ns of -)"):
                profile.save(path)
        else:
            profile.save(path)
            assert_same(profscope.load(path), profile)

    check()


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_what_it_leads_to_is_written(there: bool, tmp_path: Path) -> None:
    first, second = (regular_profile(launches=1, ctas=ctas) for ctas in (1, 2))
    link, target = tmp_path / "link.json", tmp_path / "disk" / "trace.json"
    target.parent.mkdir()
    if there:
        first.save(target)
    link.symlink_to(target.relative_to(tmp_path))
    second.save(link)
    assert link.is_symlink()
    assert [each.name for each in target.parent.iterdir()] == [target.name]
    assert len(profscope.load(target).df) == len(second.df) > len(first.df)


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    profile, path = regular_profile(launches=1, ctas=1), tmp_path / "trace.json"
    os.mkfifo(path)
    with pytest.raises(TraceError, match="it is a device or a pipe"):
        profile.save(path)
    assert path.is_fifo()
    path.unlink()
    path.symlink_to("other")
    (tmp_path / "other").symlink_to(path)
    with pytest.raises(TraceError, match="its links go in circles"):
        profile.save(path)
    assert path.is_symlink()
