"""The parts of launches' time, and accounts: they add up, and what is unknown is charged to nobody."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

import profscope
from bench.corpus.recording import RECORDINGS
from profscope.analysis.breakdown import (
    OTHER,
    PARTS,
    UNKNOWN,
    Account,
    breakdown,
    sm_time,
    time_accounts,
)
from profscope.analysis.line_rows import witnesses
from profscope.binaries.listing import CLASSES
from profscope.evidence.sample_tables import sample_tables
from profscope.schema import Tables
from tests.support.captures import captured
from tests.support.profiles import profiles, regular_profile
from tests.support.sessions import session

DATA = Path(__file__).parents[1] / "data"
MOST_NS = 60
NO_SM_TIME = "copy_kernel #0: idle-sms, tail, imbalance, between-ctas: "


@st.composite
def made_launches(draw: st.DrawFn) -> pd.DataFrame:
    """CTAs of one to three launches on four SMs; some overlap, some leave gaps."""
    rows = []
    for launch in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 8))):
            start = draw(st.integers(0, MOST_NS))
            length = draw(st.integers(0, MOST_NS))
            origin = 1_700_000_000_000_000_000 + 10_000 * launch
            rows.append((launch, draw(st.integers(0, 3)), origin + start, origin + start + length))
    return pd.DataFrame(rows, columns=["launch", "sm", "start_ns", "end_ns"])


@given(made_launches(), st.integers(4, 6))
def test_what_sms_did_is_that_of_each_nanosecond(ctas: pd.DataFrame, sms: int) -> None:
    expected: dict[str, int] = defaultdict(int)
    for _, launch in ctas.groupby("launch"):
        begin, end = launch["start_ns"].min(), launch["end_ns"].max()
        for sm in range(sms):
            own = launch[launch["sm"] == sm]
            for ns in range(begin, end):
                if own.empty:
                    what = "idle"
                elif ((own["start_ns"] <= ns) & (ns < own["end_ns"])).any():
                    what = "busy"
                else:
                    what = "after" if ns >= own["end_ns"].max() else "between"
                expected[what] += 1
    found = sm_time(ctas, sms)
    assert found._asdict() == {name: expected[name] for name in found._fields}


@given(profiles())
def test_shares_of_each_configuration_add_up_to_one(profile: profscope.Profile) -> None:
    table = breakdown(profile.tables)
    known = set(zip(profile.launches["kernel"], profile.launches["variant"], strict=True))
    shares = table.groupby(["kernel", "variant"])["share"].sum()
    assert set(shares.index) == known
    assert shares.to_list() == pytest.approx([1.0] * len(known))
    assert set(table["part"]) <= set(PARTS)
    assert (table["share"] > 0).all()
    assert (table.loc[table["part"] == "unknown", "file"] == "").all()
    accounts_of(profile.tables)


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


def without_samples(tables: Tables) -> Tables:
    return replace(tables, samples=tables.samples.iloc[:0])


def test_ctas_that_leave_sms_without_work() -> None:
    """The emulator has 16 SMs: four CTAs leave twelve of them idle."""
    x = torch.ones(4 * 128)
    with session() as prof:
        copy_kernel[(4,)](x, torch.empty_like(x), BLOCK=128)
    table = breakdown(without_samples(prof.tables))
    by_part = table.groupby("part")["share"].sum()
    assert by_part["idle-sms"] == 12 / 16
    assert by_part.sum() == pytest.approx(1.0)
    assert "issuing" not in by_part.index
    lines = table[table["part"] == "op"]
    assert set(zip(lines["reason"], lines["basis"], strict=True)) == {("load", "spans"), ("store", "spans")}
    (said,) = table.attrs["not_measured"]
    assert said.startswith("copy_kernel #0: issuing, waiting: ")


def test_the_emulator_says_what_its_warps_wait_for() -> None:
    x = torch.ones(4 * 128)
    with session() as prof:
        copy_kernel[(4,)](x, torch.empty_like(x), BLOCK=128)
    table = prof.breakdown()
    assert table["share"].sum() == pytest.approx(1.0)
    assert table.attrs["not_measured"] == []
    of_warps = table[table["basis"] == "model"]
    assert set(of_warps["part"]) == {"issuing", "waiting"}
    waits = of_warps[of_warps["part"] == "waiting"].groupby("reason")["share"].sum()
    assert waits["memory"] > 0.8 * waits.sum()
    load = prof.lines().set_index("line").loc[of_warps["line"].iloc[0]]
    assert load["stalls"].startswith("long_scoreboard ")
    assert load["waits_for"].startswith("long_scoreboard on load")
    assert load["share_samples_low"] <= load["share_samples"] <= load["share_samples_high"]
    (account,) = accounts_of(prof.tables)
    assert (account.basis, account.advice) == (("ctas", "model"), "")


def test_idle_sms_are_known_if_each_cta_is_whether_it_recorded_or_not() -> None:
    x = torch.ones(8 * 128)
    with session(ctas=[0, 1]) as prof:
        copy_kernel[(8,)](x, torch.empty_like(x), BLOCK=128)
    tables = without_samples(prof.tables)
    table = breakdown(tables)
    assert table.loc[table["part"] == "idle-sms", "share"].sum() == pytest.approx(0.5)  # of 16 SMs
    assert table["share"].sum() == pytest.approx(1.0)
    late = tables.ctas.copy()  # as if two without records began, or ended, after the others
    late.loc[late["cta"] == 6, "start_ns"] += 10
    late.loc[late["cta"] == 7, "end_ns"] += 1000
    assert {"tail", "between-ctas"} <= set(breakdown(replace(tables, ctas=late))["part"])
    table = breakdown(replace(tables, ctas=tables.ctas[tables.ctas["recorded"]]))
    assert set(table["part"]) == {"op", "unknown"}
    assert table["share"].sum() == pytest.approx(1.0)
    assert table.attrs["not_measured"][0].startswith(NO_SM_TIME)


def of_samples(samples: pd.DataFrame, sampler: dict[str, Any]) -> Tables:
    """One launch of the pointer chase with these PC samples of it."""
    tables = regular_profile(launches=1).tables
    launches = tables.launches.assign(kernel="chase_kernel")
    df = tables.df.assign(kernel=pd.Categorical(["chase_kernel"] * len(tables.df)))
    metadata = tables.metadata | {"sampler": sampler}
    return replace(tables, df=df, launches=launches, samples=samples, metadata=metadata)


def test_a_pointer_chase_waits_for_memory() -> None:
    """What an H200's sampler saw of it: 98 % long scoreboards, at the line of its load."""
    tables = of_samples(*sample_tables([captured("chase")]))
    table = breakdown(tables)
    by_reason = table[table["basis"] == "samples"].groupby(["part", "reason"])["share"].sum()
    assert by_reason["waiting", "memory"] / by_reason.sum() > 0.9
    assert (by_reason["issuing"] > 0).any()
    assert "unknown" not in set(table["part"])
    (account,) = accounts_of(tables)
    assert "samples" in account.basis
    assert account.advice == ""


@pytest.mark.parametrize(
    "cut",
    [
        lambda tables: replace(tables, launches=tables.launches.assign(grid_x=0, grid_y=0, grid_z=0)),
        lambda tables: replace(tables, ctas=tables.ctas.assign(sm=-1)),
        lambda tables: replace(tables, ctas=tables.ctas.iloc[1:]),
    ],
    ids=["no grid", "no SMs", "one CTA less"],
)
def test_what_a_foreign_trace_does_not_know_is_not_called_idle(cut: Callable[[Tables], Tables]) -> None:
    x = torch.ones(4 * 128)
    with session() as prof:
        for _ in range(2):
            copy_kernel[(4,)](x, torch.empty_like(x), BLOCK=128)
    table = breakdown(cut(without_samples(prof.tables)))
    assert set(table["part"]) == {"op", "unknown"}
    assert table["share"].sum() == pytest.approx(1.0)
    assert table.attrs["not_measured"][0].startswith(NO_SM_TIME)


@pytest.mark.parametrize(
    ("recording", "reason"),
    [("good-exponentials", "special functions"), ("field-of-a-structure", "memory")],
)
def test_kernels_without_shared_memory_do_not_wait_for_it(recording: str, reason: str) -> None:
    """Stalls of the queue that shared memory, special functions and accesses to memory have in common."""
    profile = profscope.load(RECORDINGS / f"{recording}.pftrace.gz")
    assert profile.counts["wavefronts"].sum() == 0
    table = profile.breakdown()
    waits = table[table["part"] == "waiting"].groupby("reason")["share"].sum()
    assert waits.idxmax() == reason
    assert "shared memory" not in waits


def test_a_recorded_cta_makes_no_tail() -> None:
    """Of two full waves one CTA has records, and its SM ends a fifth later, or more."""
    profile = profscope.load(DATA / "diagnosis" / "a-recorded-cta-ends-last.pftrace.gz")
    last = profile.ctas.groupby("sm")["end_ns"].max().sort_values() - profile.ctas["start_ns"].min()
    assert last.iloc[-1] > 1.2 * last.iloc[-2]
    table = profile.breakdown()
    assert table.loc[table["part"].isin(["tail", "imbalance"]), "share"].sum() < 0.03
    assert table["share"].sum() == pytest.approx(1.0)


def test_the_page_tells_what_every_stall_is_a_wait_for() -> None:
    """Each stall of the page, blamed on nothing that is known and on each class of instructions."""
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()
    section = page.partition("## The breakdown\n")[2].partition("\n## ")[0]
    parts, waits = section.split("| `waiting` for |")
    assert set(PARTS) <= set(re.findall(r"`([\w -]+)`", parts))
    rows = [line.split("|") for line in waits.splitlines() if line.startswith("| `")]
    row_of = {reason: at for at, row in enumerate(rows) for reason in re.findall(r"`([\w -]+)`", row[1])}
    stalls_of = {at: re.findall(r"`(\w+)`", row[3]) or ["unheard_of"] for at, row in enumerate(rows)}
    documented = {(stall, at) for at, stalls in stalls_of.items() for stall in stalls}
    documented |= {(stall, row_of["tensor cores"]) for stall, _ in documented}
    samples, sampler = sample_tables([captured("chase")])
    one = samples[samples["stall"] == "long_scoreboard"].iloc[:1]
    stalls = sorted({stall for stall, _ in documented})  # each at a line of its own
    blamed = [
        one.assign(stall=stall, line=at, blamed_class=each)
        for at, stall in enumerate(stalls)
        for each in ("", *CLASSES)
    ]
    table = breakdown(of_samples(pd.concat(blamed).assign(samples=1000), sampler))
    waiting = table[table["part"] == "waiting"]
    found = {(stalls[line], reason) for line, reason in zip(waiting["line"], waiting["reason"], strict=True)}
    assert {reason for _, reason in found} == set(row_of)
    assert {(stall, row_of[reason]) for stall, reason in found} == documented


# Accounts: the breakdown in few shares, from which nothing is lost.


def accounts_of(tables: Tables) -> list[Account]:
    """Each has what the breakdown has of its configuration."""
    launches, table = tables.launches, breakdown(tables)
    keys = {*zip(launches["kernel"].astype("str"), launches["variant"].tolist(), strict=True)}
    accounts = time_accounts(tables, witnesses(tables), keys)
    assert len(accounts) == table.groupby(["kernel", "variant"]).ngroups
    for (kernel, variant), account in accounts.items():
        check(account, table[(table["kernel"] == kernel) & (table["variant"] == variant)])
    return list(accounts.values())


def check(account: Account, own: pd.DataFrame) -> None:
    shares = account.shares
    assert 1 <= len(shares) <= 6
    assert sum(shares.values()) == pytest.approx(1.0)
    names = own["part"] + (": " + own["reason"]).where(own["reason"] != "", "")
    whole = own["share"].groupby(names).sum()
    for name in shares.keys() - {OTHER}:
        assert shares[name] == pytest.approx(whole[name], abs=1e-3)
    assert (UNKNOWN in shares) == (UNKNOWN in whole.index)
    named = [share for name, share in shares.items() if name != OTHER]
    assert named == sorted(named, reverse=True)
    assert OTHER not in shares or list(shares)[-1] == OTHER
    left = [share for name, share in whole.items() if name not in shares]
    assert all(share <= min(named) + 1e-3 or share < 0.02 or UNKNOWN in shares for share in left)
    assert set(account.basis) == set(own["basis"])


def test_a_matmul_of_an_h200_without_samples_says_how_to_know_more() -> None:
    (account,) = accounts_of(profscope.load(DATA / "diff" / "matmul-1-stage.pftrace.gz").tables)
    assert account.shares[UNKNOWN] > 0.3
    assert "session(evidence=True)" in account.advice


def test_too_few_samples_ask_for_launches() -> None:
    samples, sampler = sample_tables([captured("chase")])
    tables = of_samples(samples.iloc[:1].assign(samples=12), sampler)
    (account,) = accounts_of(replace(tables, df=tables.df.iloc[:0]))
    assert account.advice.startswith("12 PC samples of the 200 ")
