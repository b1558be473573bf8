"""A format that is read is one file: adding it to the folder of importers is all it takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from profscope.traces import importers
from profscope.traces.formats import importer_names
from tests.support.profiles import regular_profile

ROOT = Path(__file__).parents[2]

IMPORTER = '''
"""Kernels of a table: name, start and end in ns."""

from profscope.traces.importers.kineto import launch_profile

def recognises(file):
    return file.head.startswith(b"#kernels")

def read(file):
    rows = [line.split() for line in b"".join(file.pieces()).decode().splitlines()[1:]]
    names, begins, ends = zip(*rows)
    kernels = {"kernel": names, "start_ns": [*map(int, begins)], "end_ns": [*map(int, ends)]}
    return launch_profile(kernels, {"tool": "table", "backend": "gpu", "notes": []})
'''

IMPORTED = 'print(json.dumps([name for name in sys.modules if name.startswith("profscope.traces")]))'


def run(code: str, tree: Path = ROOT) -> str:
    """What code prints in a new interpreter that imports profscope from `tree`."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{code}"],
        cwd=tree, env=environment, capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages with one importer more."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "profscope", tree / "profscope", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests/support", tree / "tests/support")
    (tree / "profscope/traces/importers/table.py").write_text(IMPORTER)
    return tree


def test_an_importer_is_one_file(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "kernels.txt").write_text("#kernels\nadd 10 30\nmul 40 45\n")
    loaded = run(
        f"""
import profscope
from tests.support.validation import validate
prof = profscope.load({str(tmp_path / "kernels.txt")!r})
found = prof.df["kernel"].tolist(), prof.df["duration_ns"].tolist(), validate(prof.tables)
print(prof.metadata["tool"], *found)
""",
        tree,
    )
    assert loaded == "table ['add', 'mul'] [20, 5] []\n"


def test_our_own_formats_come_first() -> None:
    own = ["own_formats", "spool", "ranks"]
    assert importer_names(importers, importers.OWN) == [*own, "kineto"]


def test_saving_and_loading_import_what_they_need(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    regular_profile(launches=1, ctas=1).save(path)
    told = run(f"import profscope\nprof = profscope.load({str(path)!r})\n{IMPORTED}\n"
               f"prof.save({str(path)!r})\n{IMPORTED}")  # fmt: skip
    loaded, saved = (set(json.loads(line)) for line in told.splitlines())
    assert "profscope.traces.importers.own_formats" in loaded
    assert not {f"profscope.traces.importers.{name}" for name in ("spool", "kineto")} & loaded
    assert not any(".exporters." in name or name.endswith((".events", ".packets")) for name in loaded)
    assert {name for name in saved if ".exporters." in name} == {"profscope.traces.exporters.pftrace"}


def test_recording_into_a_spool_loads_no_pandas() -> None:
    heavy = 'print([name for name in ("pandas", "torch", "triton") if name in sys.modules])'
    assert run(f"import profscope.store.chunks\n{heavy}") == "[]\n"
