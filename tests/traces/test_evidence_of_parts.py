"""Evidence is of all launches of a configuration together: a part of a trace is not judged without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import profscope
from profscope.analysis.answers import EVIDENCE_LEFT_OUT
from profscope.profiles import Profile
from profscope.traces.merging import Part, merged
from profscope.viewer.cli import main
from tests.support.sessions import launch_add, session

EVIDENCE = Path(__file__).parents[1] / "data" / "evidence"
COLUMN = EVIDENCE / "column.pftrace.gz"
NOT_JUDGED = "not judged: evidence is of whole launches, all of a kernel's together; ask the trace without "


@pytest.fixture(scope="module")
def of_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One kernel of two ranks, another of one of them."""
    names = ("column", "column", "gather")
    parts = [
        Part(profscope.load(EVIDENCE / f"{name}.pftrace.gz").tables, name, at)
        for at, name in enumerate(names)
    ]
    path = tmp_path_factory.mktemp("ranks") / "t.pftrace.gz"
    Profile.of(merged(parts)).save(path)
    return path


@pytest.mark.parametrize(("part", "said"), [({"launch": 2}, "launch 2"), ({"cta": 0}, "cta 0")])
def test_a_part_is_not_judged(tmp_path: Path, part: dict[str, Any], said: str) -> None:
    whole = profscope.load(COLUMN)
    assert whole.findings()["gain_pct"].max() > 60
    chosen = profscope.load(COLUMN, **part)
    findings = chosen.findings()
    assert findings.empty
    assert findings.attrs["clean"] == {"transpose_kernel": NOT_JUDGED + said}
    assert repr(findings).splitlines()[1] == f"transpose_kernel: {NOT_JUDGED}{said}"
    told = [*findings.attrs["not_measured"], *chosen.lines().attrs["not_measured"]]
    told += [*chosen.limits().attrs["not_measured"], *chosen.breakdown().attrs["not_measured"]]
    told += chosen.report()["not_measured"]
    assert not [text for text in told if "evidence=True" in text]
    chosen.save(tmp_path / "part.pftrace")
    assert profscope.load(tmp_path / "part.pftrace").findings().attrs["clean"] == findings.attrs["clean"]


def test_a_rank_of_several_is_not_judged_and_the_only_rank_of_a_kernel_is(of_ranks: Path) -> None:
    first, last = (profscope.load(of_ranks, rank=rank) for rank in (0, 2))
    assert first.findings().attrs["clean"] == {"transpose_kernel": NOT_JUDGED + "rank 0"}
    alone = profscope.load(EVIDENCE / "gather.pftrace.gz").findings()
    assert len(alone)
    assert last.findings()["gain_pct"].tolist() == alone["gain_pct"].tolist()
    assert EVIDENCE_LEFT_OUT not in last.metadata


def test_the_only_launch_of_a_configuration_is_judged(tmp_path: Path) -> None:
    with session() as prof:
        launch_add()
    prof.save(tmp_path / "t.pftrace")
    chosen = profscope.load(tmp_path / "t.pftrace", launch=0)
    assert len(chosen.counts) == len(prof.counts) > 0
    assert chosen.findings().attrs["clean"] == prof.findings().attrs["clean"]


def test_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(COLUMN), "--launch", "2", "--show", "findings", "--width", "200"]) == 0
    assert capsys.readouterr().out.strip() == f"transpose_kernel: {NOT_JUDGED}launch 2"
    assert main([str(COLUMN), "--launch", "2", "--show", "limits"]) == 1
    assert "ask the trace without launch 2" in capsys.readouterr().err
    # Of a part of each launch the whole launches are at hand, and these are judged.
    assert main([str(COLUMN), "--cta", "0", "--show", "findings"]) == 0
    assert " 94%  bank-conflict" in capsys.readouterr().out
