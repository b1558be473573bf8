"""A project whose tests use `kernel_gate`, run by a pytest inside of this one.

pytest's own `pytester` forgets modules that were imported inside: of profscope's there would be two then.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

__all__ = ["PLUGIN", "Project", "Run"]

PLUGIN: Final = ("-p", "profscope.pytest", "-p", "no:cacheprovider")
_INSIDE: Final = (*PLUGIN, "-p", "no:faulthandler", "--capture=sys", "-rN")


@dataclass(frozen=True)
class Run:
    """outcomes: how many tests passed and failed."""

    outcomes: dict[str, int]
    text: str

    def shows(self, lines: list[str]) -> None:
        """These patterns match lines, in this order."""
        pytest.LineMatcher(self.text.splitlines()).fnmatch_lines(lines)


class _Count:
    def __init__(self) -> None:
        self.outcomes = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome == "failed":
            self.outcomes[report.outcome] += 1


class Project:
    """In an empty folder, which becomes the current one."""

    def __init__(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.path = path
        self._capsys = capsys
        monkeypatch.chdir(path)
        monkeypatch.syspath_prepend(path)

    def write(self, **modules: str) -> None:
        for name, text in modules.items():
            (self.path / f"{name}.py").write_text(dedent(text))

    def run(self, *options: str) -> Run:
        count = _Count()
        self._capsys.readouterr()
        try:
            pytest.main([*_INSIDE, f"--basetemp={self.path / 'temporary'}", *options], plugins=[count])
        finally:
            for path in self.path.glob("*.py"):
                sys.modules.pop(path.stem, None)
        return Run(dict(count.outcomes), self._capsys.readouterr().out)

    @property
    def baselines(self) -> list[Path]:
        return sorted(self.path.glob(".profscope/baselines/*.pftrace.gz"))
