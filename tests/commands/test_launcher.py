"""A run around torchrun: what it starts for each rank is a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import profscope
from profscope.commands.run import ranks_recorded

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
    profile = profscope.load(tmp_path / "t")
    assert profile.launches["rank"].tolist() == [0, 1, 1]
    ranks = profile.metadata["ranks"]
    assert [each["program"]["rank"] for each in ranks] == [0, 1]
    assert len({each["job"]["id"] for each in ranks}) == 1
    assert {each["job"]["world_size"] for each in ranks} == {2}
    assert ran.stderr.count("\nWhere its time goes\n") == 1  # the first screen is the first rank's
