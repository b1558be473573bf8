"""A pass is one file, and so is a target: added to a copy of the tree, they are known by their names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ADD = ROOT / "tests" / "passes" / "inputs" / "add.ttgir"
PASS = '''
from dataclasses import dataclass
from typing import ClassVar

from profscope.instrument_passes.passes import Pass, register
from profscope.instrument_passes.spans import Spans


@register
@dataclass(frozen=True)
class MyPass(Pass):
    """A span around every store.

    label: what the spans are called.
    """

    name: ClassVar[str] = "my-pass"
    label: str = "my store"

    def apply(self, module, context):
        spans = Spans(module, context)
        for op in tuple(module.walk()):
            if op.name == "tt.store":
                spans.around(op, self.label)
'''
# Like NVIDIA's, under another name.
TARGET = """
from dataclasses import dataclass
from typing import ClassVar

from profscope.instrument_passes.targets import register
from profscope.instrument_passes.targets.nvidia import Nvidia


@register
@dataclass(frozen=True)
class Xpu(Nvidia):
    spellings: ClassVar[tuple[str, ...]] = ("xpu:<generation>",)

    @classmethod
    def of(cls, name, *, clustered):
        return cls(0) if name.startswith("xpu:") else None

    @property
    def name(self):
        return "xpu:7"
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with a file more in two folders."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in ("profscope", "docs", "tests/passes", "tests/kernels", "tests/support"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tests" / "__init__.py", copy / "tests")
    (copy / "profscope" / "instrument_passes" / "passes" / "my_pass.py").write_text(PASS)
    (copy / "profscope" / "instrument_passes" / "targets" / "xpu.py").write_text(TARGET)
    return copy


def run(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy."""
    path = os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    words = [sys.executable, *command]
    return subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def opt(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(tree, "-m", "profscope", "opt", *arguments)


def test_pass_in_the_tool(tree: Path) -> None:
    assert "\nmy-pass: a span around every store\n    label=my store\n" in opt(tree, "--list").stdout
    done = opt(tree, str(ADD), "-p", "my-pass{label=mine}")
    assert 'name = "mine", op = "tt.store", bytes = 4096 : i64' in done.stdout, done.stderr


def test_target(tree: Path) -> None:
    module = tree / "xpu.ttgir"
    module.write_text(ADD.read_text().replace("cuda:90", "xpu:7"))
    done = opt(tree, str(module), "-p", "kernel-span,lower-records")
    assert r"\"target\":\"xpu:7\"" in done.stdout, done.stderr
    module.write_text(ADD.read_text().replace("cuda:90", "npu:7"))
    refused = opt(tree, str(module), "-p", "lower-records").stderr
    assert refused.endswith("knows cuda:<capability>, hip:gfx942, hip:gfx950, xpu:<generation>\n")
