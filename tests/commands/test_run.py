"""Programs under `profscope run`: they end as they end by themselves, and what was recorded is there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import profscope
from profscope.commands.program import without_ours
from tests.support.forks import Forks
from tests.support.validation import validate

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}  # programs import from the checkout
_RUN = """
import sys
from profscope.__main__ import main
sys.exit(main(["run", "--backend", "emulator", "--ctas", "1", *sys.argv[1:]]))
"""
_PROGRAM = """
import os, signal, sys, time
from tests.support.sessions import launch_add

def spooled():
    from pathlib import Path
    from profscope.store.chunks import MAGIC
    for _ in range(3000):
        if any(file.read_bytes().count(MAGIC + b"launch") == 2 for file in Path().glob("*.partial/*.spool")):
            return
        time.sleep(0.01)
    raise TimeoutError("the launches are not in the spool")

launch_add()
launch_add()
print("main" if __name__ == "__main__" else __name__, sys.argv[1:], sys.path[0], flush=True)
{end}
"""


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a program that launches twice and then does something, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)

    def run_program(end: str, *flags: str) -> subprocess.CompletedProcess[str]:
        Path("program.py").write_text(_PROGRAM.format(end=end))
        # Forks start where the checkout is, and programs import from it.
        code = f"import os, sys; os.chdir({str(tmp_path)!r}); sys.path.append({str(ROOT)!r})\n{_RUN}"
        return forks.run(code, "-o", "t.json", *flags, "program.py", "a", "-o")

    return run_program


def loaded(path: str, launches: int = 2) -> profscope.Profile:
    profile = profscope.load(path)
    assert len(profile.launches) == launches
    assert validate(profile.tables) == []
    return profile


def test_a_program_runs_as_by_itself(run: Run, tmp_path: Path) -> None:
    own = (
        "import builtins, __main__; assert __main__.launch_add is launch_add; assert __builtins__ is builtins"
    )
    ran = run(f"{own}; assert 'PROFSCOPE_EMULATOR' not in os.environ; os.chdir('/'); sys.exit(7)")
    assert (ran.returncode, ran.stdout) == (7, f"main ['a', '-o'] {tmp_path}\n")
    profile = loaded("t.json")
    assert profile.metadata["program"] == {"command": ["program.py", "a", "-o"], "exit_code": 7}
    assert profile.metadata["notes"] == []
    assert set(profile.metadata["evidence"]) == {"tensors"}  # the emulator has no instruments
    for said in (": 2 launches", "\nkernel ", "\nadd_kernel ", "wrote t.json; "):
        assert said in ran.stderr
    assert sorted(path.name for path in Path().iterdir()) == ["program.py", "t.json"]


_RAISED = """Traceback (most recent call last):
  File "{folder}/program.py", line 17, in <module>
    raise ValueError("oh")
ValueError: oh
"""
_TERMINATED = """
import threading
for n in range(10):  # as `timeout` sends its signal twice: the others come while the trace is written
    threading.Timer(0.2 + n / 100, os.kill, (os.getpid(), signal.SIGTERM)).start()
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("lowered", "why"),
    [
        ("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", "Too many open files"),
        ("sys.setrecursionlimit(40)", "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_a_limit_that_the_program_has_lowered_fails_the_run(run: Run, lowered: str, why: str) -> None:
    ran = run(lowered, "-q")
    assert ran.returncode == 1
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("profscope run: ")]
    assert why in line
    assert line.endswith("; what was recorded is in t.json.partial")
    loaded("t.json.partial")


def test_a_benchmark_may_come_first(forks: Forks, tmp_path: Path) -> None:
    code = (
        "import triton; from tests.support.sessions import launch; print(triton.testing.do_bench(launch) > 0)"
    )
    run = f"import os, sys; os.chdir({str(tmp_path)!r}); sys.path.append({str(ROOT)!r})\n{_RUN}"
    ran = forks.run(run, "-q", "-c", code)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "True\n", "")


@pytest.mark.parametrize(
    ("end", "code", "shown", "why"),
    [
        ('raise ValueError("oh")', 1, 1, "ValueError was raised"),
        (_TERMINATED, -15, 143, "SIGTERM ended it"),
        pytest.param("os._exit(9)", 9, 9, "os._exit(9) was called", marks=pytest.mark.exhaustive),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGINT)", -2, 130, "KeyboardInterrupt was raised",
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["raised", "terminated", "exit", "interrupted"],
)  # fmt: skip
def test_what_cuts_a_program_short(
    run: Run, tmp_path: Path, end: str, code: int, shown: int, why: str
) -> None:
    ran = run(end, "--quiet")
    assert ran.returncode == code
    profile = loaded("t.json")
    assert profile.metadata["program"]["exit_code"] == shown
    assert profile.metadata["program"]["cut_short"] == why
    assert profile.metadata["notes"] == [f"partial: the program was cut short: {why}"]
    assert "profscope" not in ran.stderr
    if code == 1:
        assert ran.stderr == _RAISED.format(folder=tmp_path)


@pytest.mark.parametrize("name", ["train.py", "profscope_train.py"])
def test_a_program_beside_the_installed_package_has_its_own_traceback(name: str) -> None:
    file = Path(profscope.__file__).parents[1] / name
    with pytest.raises(ValueError, match="oh") as raised:
        exec(compile('raise ValueError("oh")', file, "exec"))
    (trace,) = (each for each in raised.traceback if Path(each.path) == file)
    error = raised.value.with_traceback(trace._rawentry)
    without_ours(error)
    assert error.__traceback__ is trace._rawentry


_FAR = """
import torch
from tests.kernels.add import add_kernel
x = torch.ones(4)
add_kernel[(1,)](x, x, x, 1024, BLOCK=1024)
"""


def test_an_error_of_a_launch_has_no_frames_of_profscope(run: Run, tmp_path: Path) -> None:
    ran = run(_FAR, "--quiet")
    assert ran.returncode == 1
    frames = [line for line in ran.stderr.splitlines() if line.startswith('  File "')]
    assert frames[0].startswith(f'  File "{tmp_path / "program.py"}"')
    assert not [frame for frame in frames if str(ROOT / "profscope") in frame]
    assert "add_kernel: out of bounds: " in ran.stderr.splitlines()[-1]


_NEW = """["python", "-c", "print('new'); raise SystemExit(3)"]"""
_SAID = "profscope run: os.{}() replaces the program; `{}` runs bare, unless started with `profscope run`"


@pytest.mark.parametrize(
    ("end", "call"),
    [
        (f"os.execv(sys.executable, {_NEW})", "execv"),
        pytest.param(
            f"os.execvpe('python', {_NEW}, {{**os.environ}})", "execve", marks=pytest.mark.exhaustive
        ),
    ],
)
def test_what_was_recorded_is_written_before_another_program_takes_the_place(
    run: Run, end: str, call: str
) -> None:
    ran = run(end, "-q")
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (3, "new")
    command = """python -c 'print('"'"'new'"'"'); raise SystemExit(3)'"""
    assert ran.stderr == _SAID.format(call, command) + "\n"
    profile = loaded("t.json")
    assert profile.metadata["program"] == {
        "command": ["program.py", "a", "-o"], "cut_short": f"os.{call}() was called",
    }  # fmt: skip
    assert profile.metadata["notes"] == [f"partial: the program was cut short: os.{call}() was called"]


def test_a_program_that_starts_itself_again_is_told_that_it_runs_bare(forks: Forks, tmp_path: Path) -> None:
    code = f"import os; os.chdir({str(tmp_path)!r})\n{_RUN}"
    again = "import os, sys; os.execl(sys.executable, 'python', '-c', 'raise SystemExit(4)')"
    ran = forks.run(code, "-c", again)
    assert ran.returncode == 4
    assert ran.stderr == _SAID.format("execv", "python -c 'raise SystemExit(4)'") + "; nothing is written\n"
    assert list(tmp_path.iterdir()) == []


_NO_EXEC = """
try:
    os.execv("/nowhere/python", ["python"])
except FileNotFoundError:
    launch_add()
if os.fork() == 0:
    os.execv(sys.executable, ["python", "-c", "print('child')"])
os.wait()
launch_add()
"""


def test_a_program_that_nothing_replaces_goes_on(run: Run) -> None:
    ran = run(_NO_EXEC, "-q")
    assert (ran.returncode, ran.stderr, ran.stdout.splitlines()[-1]) == (0, "", "child")
    assert loaded("t.json", 4).metadata["notes"] == []


_TERMINATED_WHILE_WRITING = """
from profscope.profiles import Profile
save = Profile.save
Profile.save = lambda *given: (os.kill(os.getpid(), signal.SIGTERM), save(*given))
"""


def test_a_signal_waits_for_the_trace_of_a_program_that_has_ended(run: Run) -> None:
    assert run(_TERMINATED_WHILE_WRITING).returncode == 0
    assert "cut_short" not in loaded("t.json").metadata["program"]


def test_what_a_killed_program_has_recorded_outlives_the_next_run(run: Run) -> None:
    run("spooled(); os.kill(os.getpid(), signal.SIGKILL)")
    Path("nothing.py").touch()
    ran = run("", "nothing.py")
    assert ran.stderr.splitlines() == [
        "profscope run: what an earlier run recorded until it was killed is now in t.json.partial.1",
        "profscope run: no Triton kernel was launched; nothing is written",
    ]
    assert sorted(os.listdir()) == ["nothing.py", "program.py", "t.json.partial.1"]
    loaded("t.json.partial.1")


def test_a_file_that_the_program_writes_is_not_replaced(run: Run) -> None:
    ran = run("open('t.json', 'w').write('of the program')")
    assert ran.returncode == 1
    assert Path("t.json").read_text() == "of the program"
    (line,) = ran.stderr.splitlines()
    assert "cannot write 't.json': profscope did not write the file that is there" in line
    assert line.endswith("; what was recorded is in t.json.partial")
    loaded("t.json.partial")


_FORKS = """
child = os.fork()
if child == 0:
    launch_add()
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
_OWN_SESSION = """
import profscope
with profscope.session(backend="emulator") as prof:
    launch_add()
launch_add()
print(len(prof.launches))
"""
_PAUSED = """
import profscope
profscope.pause()
launch_add()
profscope.resume()
launch_add()
print()
"""
_AT_EXIT = """
import atexit, threading
atexit.register(launch_add)
threading.Thread(target=launch_add).start()
print()
"""
_ASIDE = "the program opened its own session: only that one has the later launches"


@pytest.mark.parametrize(
    ("end", "launches", "printed", "note"),
    [
        pytest.param(_FORKS, 2, "3", "", marks=pytest.mark.exhaustive),
        (_OWN_SESSION, 2, "1", _ASIDE),
        pytest.param(
            _PAUSED,
            3,
            "",
            "recording was paused once; what was launched meanwhile counts nowhere",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(_AT_EXIT, 4, "", "", marks=pytest.mark.exhaustive),
    ],
    ids=["fork", "own-session", "paused", "at-exit"],
)
def test_what_a_program_does_besides(run: Run, end: str, launches: int, printed: str, note: str) -> None:
    ran = run(end, "-q")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[1:] == [printed]
    assert loaded("t.json", launches).metadata["notes"] == [note] * bool(note)


def test_a_full_disk_is_said_and_what_fits_is_written(run: Run) -> None:
    ran = run(
        """
import resource
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, unlimited[1]))
import profscope
from profscope.recording.open_sessions import OPEN
try:
    OPEN[-1].flush()
except profscope.errors.SessionError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
""",
        "-q",
    )
    assert "writing " in ran.stdout
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith("profscope run: writing ")
    assert line.endswith("failed, so the launches after it are lost: [Errno 27] File too large")
    assert Path("t.json").exists()


def test_kernels_that_match_none_leave_no_file_and_are_named(run: Run) -> None:
    ran = run("", "--kernels", "softmax")
    assert (ran.returncode, ran.stderr) == (
        0,
        "profscope run: nothing is written: --kernels softmax matches none of those that were launched: "
        "add_kernel\n",
    )
    assert os.listdir() == ["program.py"]


def test_a_trace_of_host_scopes_alone_is_called_so(run: Run) -> None:
    ran = run("import profscope\nwith profscope.scope('step'): launch_add()", "--kernels", "softmax")
    assert ran.stderr.endswith("\nprofscope run: wrote t.json, without a launch\n")
    assert loaded("t.json", launches=0).host["scope"].tolist() == ["step"]


@pytest.mark.exhaustive
def test_nothing_is_imported_before_the_program_asks_for_it(tmp_path: Path) -> None:
    """In a process that has imported nothing; a spawned child runs, and runs bare."""
    (tmp_path / "spawns.py").write_text("""
import sys
from multiprocessing import get_context

def work(n):
    from tests.support.sessions import launch_add
    launch_add()
    return n + 1

if __name__ == "__main__":
    print(sorted({"numpy", "pandas", "torch", "triton"} & set(sys.modules)))
    work(0)
    with get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [1]))
""")
    words = [sys.executable, "-m", "profscope", "run", "--backend=emulator", "-o", "t.json", "-m", "spawns"]
    environment = ENVIRONMENT | {"PROFSCOPE_EMULATOR": "1"}  # for the child
    ran = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "['numpy']\n[2]\n"
    loaded(str(tmp_path / "t.json"), 1)
