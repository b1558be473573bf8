"""Recordings that are kept in the repository show in Perfetto what is found in them today: findings are drawn
when a trace is saved, and a rule that changes since then leaves an old one standing."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import profscope

ROOT = Path(__file__).parents[3]
STORED = sorted([*ROOT.glob("bench/results/*.pftrace.gz"), *ROOT.glob("tests/data/plotting/*.pftrace.gz")])
DRAWN = re.compile(rb"([a-z-]+) \(([\w.]+):(\d+)\)")


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_findings_that_are_drawn_are_those_of_a_load(path: Path) -> None:
    findings = profscope.load(path).findings()
    content = gzip.decompress(path.read_bytes())
    drawn = {(name.decode(), file.decode(), int(line)) for name, file, line in DRAWN.findall(content)}
    files = [Path(file).name for file in findings["file"]]
    assert drawn == set(zip(findings["finding"], files, findings["line"], strict=True))
    for evidence in findings["evidence"]:
        assert evidence.encode() in content
