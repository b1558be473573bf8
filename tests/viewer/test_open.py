"""`--open`: a page in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from profscope import __main__ as door
from tests.support.forks import Forks
from tests.support.profiles import regular_profile


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that a browser was told to open; a trace is in the current folder."""
    files: list[Path] = []

    def browser(url: str) -> bool:
        files.append(Path(unquote(urlsplit(url).path)))
        return True

    monkeypatch.setattr(webbrowser, "open", browser)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    regular_profile(launches=1, ctas=1).save(tmp_path / "t.json")
    return files


def test_view_opens_a_page_that_stays(opened: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert door.main(["view", "t.json", "--open"]) == 0
    (page,) = opened
    assert "matmul_kernel" in page.read_text()
    assert capsys.readouterr() == ("", f"profscope: opened {page}\n")


def test_convert_opens_what_it_wrote(opened: list[Path], tmp_path: Path) -> None:
    assert door.main(["convert", "t.json", "a page.html", "--open"]) == 0
    assert opened == [tmp_path / "a page.html"]


@pytest.mark.usefixtures("opened")
def test_without_a_browser_the_page_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert door.main(["convert", "t.json", "page.html", "--open"]) == 0
    assert capsys.readouterr().err == "profscope: found no browser for page.html\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["convert", "t.json", "u.json", "--open"], "--open shows .html, not 'u.json'"),
        (["view", "t.json", "--open", "--format", "json"], "--open has one form only"),
        (["view", "t.json", "--open", "--source"], "--source and --open are two views"),
    ],
)
def test_what_is_no_page_is_refused(
    words: list[str], said: str, opened: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        door.main(words)
    assert said in capsys.readouterr().err
    assert not opened
    assert not Path("u.json").exists()


def test_a_launcher_of_processes_opens_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert door.main(["run", "--open", "-m", "torch.distributed.run", "train.py"]) == 2
    assert "starts several processes; profscope view --open shows them" in capsys.readouterr().err


PROGRAM = """
import torch
from tests.kernels.add import add_kernel
x = torch.ones(64)
add_kernel[(4,)](x, x, x, 64, BLOCK=16)
"""


_RUN = """
import os, sys, tempfile, webbrowser
sys.path.append(os.getcwd())  # the checkout, from which the program imports
os.chdir(sys.argv[1])
tempfile.tempdir = sys.argv[1]
webbrowser.open = lambda url: True
from profscope.__main__ import main
words = ["run", "--backend", "emulator", "--open", "-q", "-o", "t.json"]
sys.exit(main([*words, "-c", sys.argv[2]]))
"""


def test_a_run_opens_its_profile_at_the_end(tmp_path: Path, forks: Forks) -> None:
    done = forks.run(_RUN, tmp_path, PROGRAM)
    (page,) = tmp_path.glob("profscope-page-*/profile.html")
    assert (done.returncode, done.stderr) == (0, f"profscope: opened {page}\n")
    assert "add_kernel" in page.read_text()
