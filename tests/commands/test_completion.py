"""`profscope completion`: what a shell is told."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from profscope import __main__ as door

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file for each shell."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        with pytest.MonkeyPatch.context() as patch, (folder / shell).open("w") as file:
            patch.setattr("sys.stdout", file)
            assert door.main(["completion", shell]) == 0
    return {shell: folder / shell for shell in SHELLS}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_commands_and_flags_and_its_shell_reads_it(shell: str, scripts: dict[str, Path]) -> None:
    text = scripts[shell].read_text()
    for name in ("run", "explain", "merge", "overhead-pct", "self-test", "fail-above", "limit-s", "serve"):
        assert name in text
    if shutil.which(shell):
        read = subprocess.run([shell, "-n", scripts[shell]], capture_output=True, text=True, check=False)
        assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["do"], ["doctor"]),
        (["run", "--ev"], ["--every", "--evidence", "--events"]),
        (["run", "tr"], ["train.py", "trace.json"]),
        (["view", "tra"], ["trace.json", "train.py"]),
        (["completion", "z"], ["zsh"]),
        (["doctor", "tra"], []),
    ],
)
def test_bash_completes_commands_flags_and_files(
    words: list[str], offered: list[str], scripts: dict[str, Path], tmp_path: Path
) -> None:
    for name in ("train.py", "trace.json", "other"):
        (tmp_path / name).touch()
    program = (
        f"source {scripts['bash']}; COMP_WORDS=(profscope {' '.join(words)}); COMP_CWORD={len(words)}; "
        "_shtab_profscope; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert sorted(done.stdout.split()) == sorted(offered)
