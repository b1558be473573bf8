"""`profscope mcp` as an agent meets it: the SDK's own client, over standard input and output."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from profscope.__main__ import main as profscope
from tests.support.command_line import run

mcp = pytest.importorskip("mcp")

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "diff"
READING = {"doctor", "brief", "findings", "source_lines", "diff"}
_PROGRAM = """
import torch, triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, at < n) + 1, at < n)

add_kernel[(4,)](torch.ones(512), 512, BLOCK=128)
print("program done")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With two traces, a broken one, a module that must not be imported, and links that lead outside."""
    outside, folder = tmp_path_factory.mktemp("outside"), tmp_path_factory.mktemp("folder")
    shutil.copy(DATA / "matmul-1-stage.pftrace.gz", folder / "before.pftrace.gz")
    shutil.copy(DATA / "matmul-3-stages-0.pftrace.gz", folder / "-after.pftrace.gz")
    shutil.copy(DATA / "matmul-3-stages-0.pftrace.gz", outside / "secret.pftrace.gz")
    (folder / "broken.pftrace.gz").write_bytes((folder / "before.pftrace.gz").read_bytes()[:5000])
    (folder / "link.pftrace.gz").symlink_to(outside / "secret.pftrace.gz")
    (folder / "parts").mkdir()
    (folder / "parts" / "rank-0.pftrace.gz").symlink_to(outside / "secret.pftrace.gz")
    with (folder / "big.pftrace.gz").open("wb") as big:
        big.truncate(1_000_000_000)
    (folder / "pandas.py").write_text("raise SystemExit('imported')")
    return folder


def session(folder: Path, flags: Sequence[str], *calls: tuple[str, dict[str, Any]]) -> tuple[Any, list[Any]]:
    """The tools that the server lists, and what it answers."""

    async def talk() -> tuple[Any, list[Any]]:
        server = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "profscope", "mcp", *flags, str(folder)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        async with mcp.Client(server) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(talk())


def text_of(answer: Any) -> str:
    (content,) = answer.content
    return re.sub(r"^Error executing tool \w+: ", "", content.text)  # which the SDK puts before


def test_every_tool_answers_as_its_command_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = (
        {"trace": "before.pftrace.gz"},
        {"before": "before.pftrace.gz", "after": "-after.pftrace.gz"},
    )
    tools, answers = session(
        folder,
        (),
        ("doctor", {}),
        ("brief", before),
        ("findings", before | {"kernels": "matmul", "launch": 0}),
        ("source_lines", before | {"where": "matmul.py:36"}),
        ("diff", after),
    )
    assert {tool.name for tool in tools} == READING  # not explain
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
    assert not any(answer.is_error for answer in answers), [text_of(each) for each in answers]
    doctor, brief, findings, lines, diff = map(text_of, answers)
    monkeypatch.chdir(folder)
    path = "./before.pftrace.gz"
    assert "\nTo do: " in doctor
    assert brief == run(path, "--format", "brief").stdout.strip()
    assert findings == run(path, "--show", "findings", "--launch", "0", "--width", "160").stdout.strip()
    assert lines == run(path, "--source", "matmul.py:36", "--width", "160").stdout.strip()
    assert "tl.dot" in lines
    assert diff == run("diff", path, "./-after.pftrace.gz", "--width", "160").stdout.strip()
    assert "61.2% faster" in diff


def test_what_is_wrong_is_said_in_the_product_s_own_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = os.readlink(folder / "link.pftrace.gz")
    outside = [secret, os.path.relpath(secret, folder), "link.pftrace.gz", "parts", "..", "/etc/passwd"]
    wrong = ["broken.pftrace.gz", "none.pftrace.gz"]
    calls = [("brief", {"trace": path}) for path in (*outside, *wrong)]
    _, answers = session(
        folder,
        (),
        *calls,
        ("findings", {"trace": "before.pftrace.gz", "kernels": "("}),
        ("diff", {"before": "before.pftrace.gz", "after": secret}),
        ("source_lines", {"trace": "big.pftrace.gz", "launch": 1}),
        ("explain", {"program": ["program.py"]}),
    )
    assert all(answer.is_error for answer in answers)
    told = [text_of(answer) for answer in answers]
    for path, text in zip(outside, told, strict=False):
        assert text == f"{path!r} is not below {str(folder)!r}, the folder of this server"
    monkeypatch.chdir(folder)
    for path, text in zip(wrong, told[len(outside) :], strict=False):
        assert f"profscope view: {text.partition(': ')[2]}\n" == run(f"./{path}").stderr.replace(
            "profscope-", "profscope "
        )
        assert path in text
    pattern, other, big, absent = told[-4:]
    assert big == (
        "'big.pftrace.gz' has 1,000 MB, which would take 100 s to read: "
        "`profscope convert big.pftrace.gz big.parquet` once, then ask for a `launch` of that"
    )
    assert "not a regular expression" in pattern
    assert other.startswith(repr(secret))
    assert "explain" in absent


def test_explain_runs_a_program_only_if_allowed(folder: Path) -> None:
    (folder / "program.py").write_text(_PROGRAM)
    arguments = {"program": ["program.py"], "kernels": "add", "vary": ["BLOCK=256"], "limit_s": 20}
    tools, (ran, outside, none) = session(
        folder,
        ["--allow-run"],
        ("explain", arguments),
        ("explain", {"program": ["/usr/bin/true"]}),
        ("explain", {"program": []}),
    )
    assert {tool.name for tool in tools} == {*READING, "explain"}
    assert not next(tool for tool in tools if tool.name == "explain").annotations.read_only_hint
    assert not ran.is_error, text_of(ran)
    assert text_of(ran).startswith("program done\n")
    assert "add_kernel, as launched: " in text_of(ran)
    assert "\nBLOCK=256" in text_of(ran)
    assert "\nbest: " in text_of(ran)
    assert text_of(outside).startswith("'/usr/bin/true' is not below")
    assert (none.is_error, text_of(none)) == (True, "program names no script")


def test_a_folder_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert profscope(["mcp", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
