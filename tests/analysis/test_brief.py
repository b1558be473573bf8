"""The brief and the report of any profile: never too long, with every kernel, and no half sentences."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from profscope.analysis.brief import MOST_BYTES
from profscope.analysis.model.build import profile_model
from profscope.analysis.model.entries import KernelEntry
from profscope.analysis.report import MOST_CHARACTERS
from profscope.profiles import Profile
from tests.kernels.add import add_kernel
from tests.support.command_line import run
from tests.support.many_kernels import many_kernels
from tests.support.profiles import regular_profile
from tests.support.sessions import session

COUNTS = [1, 4, pytest.param(40, marks=pytest.mark.exhaustive)]
KERNEL = re.compile(r"^(\d+)\. (\S+): ([\d.]+) %, (?:bare [\d.]+\w+ \(|bare time not measured)", re.MULTILINE)


@cache
def profile_of(count: int) -> Profile:
    return many_kernels(count)


@cache
def told(count: int) -> tuple[str, dict[str, Any], tuple[KernelEntry, ...]]:
    """The brief, the report, and all kernels."""
    profile = profile_of(count)
    kernels = profile_model(profile.tables, parts=("findings",)).kernels
    return profile.brief(), profile.report(), kernels


@pytest.mark.parametrize("count", COUNTS)
def test_both_have_the_20_longest_kernels_and_count_the_rest(count: int) -> None:
    text, report, kernels = told(count)
    assert len(text.encode()) <= MOST_BYTES
    assert len(json.dumps(report, indent=1)) <= MOST_CHARACTERS
    expected = [each.kernel for each in kernels[:20]]
    assert [name for _, name, _ in KERNEL.findall(text)] == expected
    assert [each["kernel"] for each in (*report["kernels"], *report["other_kernels"])] == expected
    rest = [each.share or 0.0 for each in kernels[20:]]
    left = f"left out: {len(rest):,} kernels, {100 * sum(rest):.1f} % of the time"
    assert (left in text) == bool(rest)
    assert report["left_out"]["kernels"] == len(rest)
    assert report["left_out"]["share"] == pytest.approx(sum(rest), abs=1e-5)
    assert text.endswith(f"\nnext: {report['next_command']}\n")


@pytest.mark.parametrize("count", COUNTS)
def test_each_kernel_keeps_its_time_and_its_first_finding(count: int) -> None:
    text, report, kernels = told(count)
    lines = text.splitlines()
    for entry in kernels[:20]:
        at = next(at for at, line in enumerate(lines) if f". {entry.kernel}: " in line)
        own = "\n".join([lines[at], *(line for line in lines[at + 1 : at + 6] if line.startswith("   "))])
        first = entry.findings[0]
        named = f"{first.finding} {first.file.rsplit('/', 1)[-1]}:{first.line}: "
        assert named in own
        brief = [each for each in report["other_kernels"] if each["kernel"] == entry.kernel]
        assert all(each["findings"][0].startswith(named) and each["grid"] for each in brief)
        assert all(each["account"] and "sha256" in each["source"] for each in brief)


@pytest.mark.parametrize("count", COUNTS[:2])
def test_no_text_is_half_a_sentence(count: int) -> None:
    """Evidence and advice stand as the findings have them, or not at all."""
    text, report, _ = told(count)
    whole = {each for row in profile_of(count).findings().itertuples() for each in (row.evidence, row.advice)}
    for finding in re.findall(r"confidence: \w+; (.*)", text):
        evidence, _, advice = finding.partition(". Try: ")
        assert {evidence, advice} <= whole | {""}
    assert all(found["evidence"] in whole for each in report["kernels"] for found in each["findings"])


def test_what_was_not_measured_is_said_once() -> None:
    x = torch.ones(512)
    with session() as prof:
        add_kernel[(4,)](x, x, x, 512, BLOCK=128)
    said = [line.rpartition(": ")[2] for line in prof.brief().splitlines() if "not measured: " in line]
    assert "the emulator has no caches and no registers" in said
    assert len(said) == len(set(said))


def of_program(profile: Profile, command: list[str]) -> Profile:
    metadata = profile.metadata | {"program": {"command": command}}
    return Profile.of(replace(profile.tables, metadata=metadata))


def test_next_is_explain_if_the_program_is_known() -> None:
    profile = profile_of(1)
    (kernel,) = set(profile.launches["kernel"])
    command = ["train.py", "--name", "a b", "every=5"]
    known = of_program(profile, command)
    line = f"next: profscope explain --kernels '^{kernel}$' train.py --name 'a b' every=5\n"
    assert known.brief().endswith(line)
    assert "next: profscope view TRACE --source " in of_program(profile, ["torchrun", *command]).brief()
    assert Profile().brief().endswith("next: profscope doctor\n")


def test_the_command_says_it_in_flags(tmp_path: Path) -> None:
    path = tmp_path / "it is.json"
    regular_profile(launches=2, ctas=2, warps=2).save(path)
    shown = run(str(path), "--format", "brief")
    assert shown.returncode == 0
    assert len(shown.stdout.encode()) <= MOST_BYTES
    assert f"next: profscope view '{path}' --source " in shown.stdout
    assert "no counters were taken (`profscope run --evidence true`)" in shown.stdout
    assert json.loads(run(str(path), "--format", "report").stdout)["next_command"] in shown.stdout
    refused = run(str(path), "--format", "brief", "--top", "3")
    assert (refused.returncode, refused.stdout) == (2, "")


def test_names_of_any_alphabet_and_length_fit() -> None:
    profile = regular_profile(launches=2, ctas=1, warps=1)
    names = dict.fromkeys(profile.launches["kernel"].unique(), "核" * 3000)
    launches = profile.launches.assign(kernel=profile.launches["kernel"].astype("object").replace(names))
    profile = Profile(profile.df.iloc[:0], launches.astype({"kernel": "category"}), profile.metadata)
    text = profile.brief()
    assert len(text.encode()) <= MOST_BYTES
    assert "\n1. 核" in text
