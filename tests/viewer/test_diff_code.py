"""profscope diff --show code and --pair, as they are run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import run

DATA = Path(__file__).parents[1] / "data" / "diff"
ONE, THREE, AGAIN = (
    str(DATA / f"matmul-{name}.pftrace.gz") for name in ("1-stage", "3-stages-0", "3-stages-1")
)


def test_the_code_takes_the_place_of_rows() -> None:
    done = run("diff", ONE, THREE, "--show", "code", "--top", "3")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    told = next(at for at, line in enumerate(lines) if line.startswith("matmul_kernel (num_stages 1 -> 3)"))
    assert lines[told + 3].endswith("num_stages: 1 -> 3")
    assert "unexplained: " in lines[-1]
    assert all(len(line) <= 80 for line in lines)
    assert not any(line.startswith("scope ") for line in lines)


def test_the_first_screen_names_causes_in_the_code() -> None:
    done = " ".join(run("diff", ONE, THREE, "--top", "2").stdout.split())
    assert "Code: num_stages: 1 -> 3; " in done
    assert "more with --show code" in done
    assert "Code:" not in run("diff", THREE, AGAIN).stdout


def test_json_has_the_facts() -> None:
    (kernel,) = json.loads(run("diff", ONE, THREE, "--show", "code", "--format", "json").stdout)["kernels"]
    first = kernel["code"]["changes"][0]
    assert (first["fact"], first["a"], first["b"], first["line"]) == ("num_stages", "1", "3", 0)
    assert kernel["code"]["percent"] == pytest.approx(kernel["launch"]["percent"])


def test_unchanged_code_is_said() -> None:
    done = run("diff", THREE, AGAIN, "--show", "code")
    assert "the compiled code is the same" in done.stdout


def test_the_page_has_the_facts(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("diff", ONE, THREE, "--html", str(page)).returncode == 0
    assert "num_stages: 1 -&gt; 3" in page.read_text()


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--pair", "matmul_kernel"], 2, "is not OLD=NEW"),
        (["--pair", "matmul=matmul_kernel"], 1, "no kernel matmul; it has matmul_kernel"),
    ],
)
def test_wrong_pairs(words: list[str], status: int, says: str) -> None:
    done = run("diff", ONE, THREE, *words)
    assert done.returncode == status
    assert says in done.stderr
