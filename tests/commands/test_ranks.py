"""Ranks of a job under `profscope run`: each writes its part, and the folder is one profile."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import profscope
from profscope.commands.run import ranks_recorded
from tests.support.forks import Forks
from tests.support.validation import validate

ROOT = Path(__file__).parents[2]
_JOB = """
import os, sys
os.chdir({folder!r})
sys.path.append({root!r})
from profscope.__main__ import main
children = []
for rank in range({ranks}):
    pid = os.fork()
    if not pid:
        os.environ.update(
            RANK=str(rank), WORLD_SIZE="{ranks}", MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}"
        )
        flags = ["--backend", "emulator", "--ctas", "1", "-q", "--events", "-o", {output!r}]
        sys.exit(main(["run", *flags, "train.py"]))
    children.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children], flush=True)
"""
_TRAIN = """
import os, signal, time
import torch
import torch.distributed as dist
import profscope
from tests.support.sessions import launch_add

dist.init_process_group("gloo")
rank = dist.get_rank()
if rank != 2:
    launch_add()
    with profscope.scope("step"):
        launch_add()
        if dist.get_world_size() == 2:
            store = dist.distributed_c10d._get_default_store()
            if rank == 1:
                store.get("rank 0 reduces")
                time.sleep(0.2)
            reducing = dist.all_reduce(torch.ones(8), async_op=True)
            store.set(f"rank {rank} reduces", "")
            reducing.wait()
if rank == 3:
    from pathlib import Path
    spools = "t/rank=3/*.partial/*.spool"
    while not any(file.read_bytes().count(b"session\\0") > 1 for file in Path().glob(spools)):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
if dist.get_world_size() == 2:
    dist.barrier()
"""


def job(forks: Forks, folder: Path, ranks: int, output: str) -> str:
    """What the exit codes of a job's processes are."""
    (folder / "train.py").write_text(_TRAIN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = _JOB.format(folder=str(folder), root=str(ROOT), ranks=ranks, port=port, output=output)
    ran = forks.run(code)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_two_ranks_are_one_profile(forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    assert job(forks, tmp_path, 2, "t.parquet") == "[0, 0]\n"
    assert sorted(os.listdir(tmp_path / "t")) == ["rank=0", "rank=1"]
    profile = profscope.load(tmp_path / "t")
    assert validate(profile.tables) == []
    assert profile.launches["rank"].tolist() == [0, 0, 1, 1]
    told = [each["job"] for each in profile.metadata["ranks"]]
    assert told[0]["id"] == told[1]["id"] != ""
    assert told[0]["boot"] == told[1]["boot"]
    assert [each["clock"] for each in told] == [[], []], "they share a host's clock"
    assert profile.ranks.summary()["launches"].tolist() == [2, 2]
    assert len(profile.ranks.skew()) == 2
    reduced = profile.ranks.collectives().query("name == 'gloo:all_reduce'")
    assert reduced[["rank", "ranks", "last_rank"]].to_numpy().tolist() == [[0, 2, 1], [1, 2, 1]]
    assert (reduced["waiting_ns"] > 0).tolist() == [True, False]


def test_a_run_of_fewer_ranks_takes_the_place_of_one_of_more(
    forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    for earlier in ("t/rank=1", "t/rank=7"):
        (tmp_path / earlier).mkdir(parents=True)
    (tmp_path / "t/about.txt").write_text("kept")
    assert job(forks, tmp_path, 1, "t.parquet") == "[0]\n"
    assert sorted(os.listdir(tmp_path / "t")) == ["about.txt", "rank=0"]
    profile = profscope.load(tmp_path / "t")
    assert profile.launches["rank"].tolist() == [0, 0]
    assert not any("rank" in note for note in profile.metadata["notes"])


@pytest.mark.exhaustive
def test_four_ranks_of_which_one_dies_and_one_launches_nothing(
    forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    assert job(forks, tmp_path, 4, "t.json.gz") == "[0, 0, 0, -9]\n"
    profile = profscope.load(tmp_path / "t")
    assert validate(profile.tables) == []
    assert profile.launches["rank"].value_counts().to_dict() == {0: 2, 1: 2, 3: 2}
    notes = profile.metadata["notes"]
    assert "rank 3 did not come to its end: what it had recorded by then is here" in notes
    assert "rank 2 of 4 is missing: there is no part of it" in notes
    assert [each["part"] for each in profile.metadata["ranks"]][-1] == "rank=3/trace.json.gz.partial"


# Around torchrun: what it starts for each rank is a run.

_COMMAND = "import sys; from profscope.__main__ import main; sys.exit(main())"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}  # programs import from the checkout


def test_what_torchrun_takes_for_python_is_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_EXEC", "echo")
    with ranks_recorded(["--every=2", "--ctas=0,1"]):
        for words in (["-u", "-m", "pkg.train", "a  b"], ["-u", "train.py", "-u"]):
            command = [os.environ["PYTHON_EXEC"], *words]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            start = Path(os.environ["PYTHON_EXEC"]).with_name("profscope_command.py")
            assert said == f"-u {start} run --every=2 --ctas=0,1 {' '.join(words[1:])}\n"
    assert os.environ["PYTHON_EXEC"] == "echo"
    monkeypatch.delenv("PYTHON_EXEC")
    with ranks_recorded([]):
        assert sys.executable in Path(os.environ["PYTHON_EXEC"]).read_text()
    assert "PYTHON_EXEC" not in os.environ


@pytest.mark.exhaustive
def test_each_rank_writes_a_trace(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise ImportError('of the working folder')\n")
    (tmp_path / "program").mkdir()
    (tmp_path / "program/train.py").write_text("""
import os
import torch.distributed as dist
from tests.support.sessions import launch_add

dist.init_process_group("gloo")
for _ in range(dist.get_rank() + 1):
    launch_add()
dist.barrier()
dist.destroy_process_group()
""")
    run = [sys.executable, "-P", "-c", _COMMAND, "run", "--backend=emulator", "-o", "t.json"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "program/train.py"]
    ran = subprocess.run(
        [*run, *torchrun], capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program", "queue.py", "t"]
    assert "wrote t/rank=1/trace.json; profscope view t shows all" in ran.stderr.replace(f"{tmp_path}/", "")
    parts = json.loads((tmp_path / "t" / "_ranks.json").read_text())["parts"]
    assert [parts[rank]["path"] for rank in ("0", "1")] == ["rank=0/trace.json", "rank=1/trace.json"]
    profile = profscope.load(tmp_path / "t")
    assert profile.launches["rank"].tolist() == [0, 1, 1]
    ranks = profile.metadata["ranks"]
    assert [each["program"]["rank"] for each in ranks] == [0, 1]
    assert len({each["job"]["id"] for each in ranks}) == 1
    assert {each["job"]["world_size"] for each in ranks} == {2}
    assert ran.stderr.count("\nWhere its time goes\n") == 1  # the first screen is the first rank's
