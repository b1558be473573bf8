"""Pages whose code is run, and whose outputs are what it prints.

    python -m tests.support.pages docs/*.md     # write the outputs that there are now

A page has these kinds of blocks:

- `python title="NAME.py"`: a file, in the folder in which the page runs.
- `python`: a part of the page's program. It may print; nothing compares that.
- `<!-- python` to `-->`: likewise, and no reader sees it.
- `pycon`: Python behind ">>> ", of the same program, and what it prints.
- `console`: commands behind "$ ", and what they print.

A line "..." of an output stands for any lines. All runs in this process: `python NAME.py`,
`profscope ...`, each also with `| head -N`, and `echo $?`. The folder has recordings of the repository by
short names (`RECORDINGS`).
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from profscope.__main__ import main as profscope_command

ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(
    r'^(?:```|<!-- )(python|console|pycon)(?: title="([\w.]+)")?\n(.*?)^(?:```|-->)$',
    re.DOTALL | re.MULTILINE,
)
RECORDINGS: Final = {
    "delta-rule.pftrace.gz": "bench/results/nvidia-h200-3.6.0-2026-11-27-fla-before.pftrace.gz",
    "delta-rule-3-stages.pftrace.gz": "bench/results/nvidia-h200-3.6.0-2026-11-27-fla-after.pftrace.gz",
    "model.pftrace.gz": "tests/data/compiled_model.pftrace.gz",
    "one-stage.pftrace.gz": "tests/data/diff/matmul-1-stage.pftrace.gz",
    "three-stages.pftrace.gz": "tests/data/diff/matmul-3-stages-0.pftrace.gz",
    **{
        file.name: f"tests/data/{folder}/{file.name}"
        for folder in ("evidence", "advice")
        for file in ROOT.glob(f"tests/data/{folder}/*.pftrace.gz")
    },
}
_HEAD: Final = re.compile(r"(.*?)\s*\| head -(\d+)$")


@dataclass(frozen=True)
class Step:
    """One thing that a page does.

    kind: "file", "program", "command" or "python"; name: of a file; expected: what the page says it prints.
    """

    kind: str
    text: str
    expected: str = ""
    name: str = ""


def steps(page: str) -> Iterator[Step]:
    """What the blocks of a page do, in its order."""
    for kind, title, text in _BLOCK.findall(page):
        if kind == "python":
            yield Step("file" if title else "program", text, name=title)
        elif kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, expected = part.partition("\n")
                yield Step("command", command, expected)
        else:
            for each in doctest.DocTestParser().get_examples(text):
                yield Step("python", each.source, each.want)


def taken(page: str, folder: Path) -> Iterator[tuple[Step, str]]:
    """Do it all in a folder; each step that an output belongs to, and what it printed."""
    names: dict[str, Any] = {"__name__": "__main__"}
    status = 0
    for name, recording in RECORDINGS.items():
        (folder / name).symlink_to(ROOT / recording)
    with contextlib.chdir(folder), _modules_of(folder):
        for step in steps(page):
            if step.kind == "file":
                _write(folder / step.name, step.text)
                _forget(folder)
            elif step.kind in ("program", "python"):
                mode = "exec" if step.kind == "program" else "single"
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(step.text, "<page>", mode), names)
                if step.kind == "python":
                    yield step, out.getvalue()
            elif step.text == "echo $?":
                yield step, f"{status}\n"
            else:
                status, printed = _done(step.text, folder)
                yield step, printed


def _write(file: Path, text: str) -> None:
    """A pass is registered once a process, by its path: where a page has an example's, it is that file."""
    file.unlink(missing_ok=True)
    example = ROOT / "examples" / file.stem / file.name
    if example.exists() and example.read_text() == text:
        file.symlink_to(example)
    else:
        file.write_text(text)


def is_like(expected: str, printed: str) -> bool:
    """Whether an output is the expected one, where a line "..." stands for any lines."""
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", _trimmed(expected), flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)*?".join(parts), _trimmed(printed)) is not None


@contextlib.contextmanager
def _modules_of(folder: Path) -> Iterator[None]:
    """A page's program imports the page's files; nothing of them stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        # Bytecode is known by its source's second and size; two files of one second would be the same.
        patch.setattr(sys, "dont_write_bytecode", True)
        yield
        _forget(folder)


def _forget(folder: Path) -> None:
    """Modules of the folder are imported anew: a page may write a file twice."""
    for name, module in list(sys.modules.items()):
        if str(folder) in str(getattr(module, "__file__", None)):
            del sys.modules[name]
    importlib.invalidate_caches()


def _done(command: str, folder: Path) -> tuple[int, str]:
    """The exit status of a command, and what it printed."""
    lines = None
    if head := _HEAD.match(command):
        command, lines = head[1], int(head[2])
    program, *words = shlex.split(command)
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.delenv("COLUMNS", raising=False)
        if program == "profscope":
            status = profscope_command(words)
        elif program == "python":
            patch.setattr(sys, "argv", words)
            runpy.run_path(str(folder / words[0]), run_name="__main__")
            _forget(folder)
            status = 0
        else:
            raise ValueError(f"a page may run python and profscope, not {program}")
        out.seek(0)
        printed = out.read()
    return status, printed if lines is None else "".join(printed.splitlines(keepends=True)[:lines])


def _trimmed(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _updated(page: str) -> str:
    """The page with the outputs that there are now, where they are others."""
    at = 0
    with tempfile.TemporaryDirectory() as folder:
        for step, printed in taken(page, Path(folder)):
            shown = _shown(step)
            at = page.index(shown + step.expected, at) + len(shown)
            if not is_like(step.expected, printed):
                page = page[:at] + _trimmed(printed) + page[at + len(step.expected) :]
    return page


def _shown(step: Step) -> str:
    """What a page has in front of a step's output."""
    if step.kind == "command":
        return f"$ {step.text}\n"
    return "".join(f"{'...' if at else '>>>'} {line}\n" for at, line in enumerate(step.text.splitlines()))


def main(paths: Sequence[str]) -> int:
    """Write the outputs of these pages."""
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    for path in map(Path, paths):
        before = path.read_text()
        after = _updated(before)
        path.write_text(after)
        print(path, "unchanged" if after == before else "written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
