"""profscope-opt --map."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import profscope
from profscope.commands.opt import main
from tests.kernels.spec import CUDA80
from tests.support.binaries import built


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stages = built("matmul", CUDA80).asm
    (tmp_path / "m.cubin").write_bytes(stages["cubin"])
    (tmp_path / "m.ptx").write_text(stages["ptx"])
    return tmp_path


def test_a_cubin(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--map", str(folder / "m.cubin")]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["pc", "sass", "class", "ttgir", "op", "place", "waits", "for"]
    counted = re.match(r"matmul_kernel: (\d+) instructions: .*16 mma", lines[-1])
    assert counted is not None
    assert int(counted[1]) == len(lines) - 2
    mmas = [line for line in lines if " mma " in line]
    assert all("HMMA.16816.F32" in line and "matmul.py:36" in line for line in mmas)
    assert re.search(r" matmul\.py:36 +\d+( \d+)*$", mmas[0])
    pcs = profscope.instructions(folder / "m.cubin")["pc"]
    assert [int(line.split()[0]) for line in lines[1:-1]] == pcs.tolist(), "as in the table"


def test_the_ptx_may_stand_elsewhere(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = (folder / "m.ptx").rename(folder / "other.ptx")
    assert main(["--map", str(folder / "m.cubin")]) == 1
    assert "No such file or directory" in capfd.readouterr().err
    assert main(["--map", str(folder / "m.cubin"), str(other), "-o", str(folder / "map.txt")]) == 0
    assert "16 mma" in (folder / "map.txt").read_text()


def test_a_module_is_built(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "m.ttgir").write_text(built("matmul", CUDA80).asm["ttgir"])
    assert main(["--map", str(folder / "m.ttgir")]) == 0
    out = capfd.readouterr().out
    assert " tt.store " in out
    assert " ttg.async_copy_global_to_local " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--map", "a.cubin", "-p", "light"], "a .cubin is built already; leave -p out"),
        (["a.ttgir", "a.ptx"], "a second file goes with --map and a .cubin"),
        (["--map", "--cost", "a.ttgir"], "not allowed with"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert message in capfd.readouterr().err


def test_what_is_no_cubin(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cubin").write_bytes(b"no cubin")
    (tmp_path / "a.ptx").write_text("")
    assert main(["--map", str(tmp_path / "a.cubin")]) == 1
    assert capfd.readouterr().err.endswith("a.cubin: not a cubin: an ELF file is expected\n")
    (tmp_path / "cut.cubin").write_bytes(built("matmul", CUDA80).asm["cubin"][:5000])
    (tmp_path / "cut.ptx").write_text("")
    assert main(["--map", str(tmp_path / "cut.cubin")]) == 1
    said = capfd.readouterr().err
    assert "cut.cubin: nvdisasm failed: this file is an invalid ELF file" in " ".join(said.split())
    assert main(["--map", str(tmp_path / "none.cubin")]) == 1
    assert "none.cubin" in capfd.readouterr().err
