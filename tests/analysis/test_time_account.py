"""Accounts: the breakdown in few shares, from which nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.analysis.breakdown import OTHER, UNKNOWN, Account, apportioned, breakdown, time_accounts
from profscope.analysis.line_rows import witnesses
from profscope.evidence.sample_tables import sample_tables
from profscope.profiles import Profile, load
from profscope.schema import Tables
from tests.support.captures import captured
from tests.support.profiles import profiles, regular_profile
from tests.support.sessions import launch_add, session

DATA = Path(__file__).parents[1] / "data"


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


@given(profiles())
def test_any_profile(profile: Profile) -> None:
    accounts_of(profile.tables)


def test_a_matmul_of_an_h200_without_samples_says_how_to_know_more() -> None:
    (account,) = accounts_of(load(DATA / "diff" / "matmul-1-stage.pftrace.gz").tables)
    assert account.shares[UNKNOWN] > 0.3
    assert "session(hardware=True)" in account.advice


def test_little_that_is_unknown_needs_no_advice() -> None:
    (account,) = accounts_of(load(DATA / "findings" / "starving-partition.json.gz").tables)
    assert 0 < account.shares[UNKNOWN] < 0.3
    assert account.advice == ""
    assert list(account.shares)[-1] == OTHER


def chased(samples: pd.DataFrame, sampler: dict[str, Any], spans: int | None = None) -> Account:
    """The account of a pointer chase with some samples, and so many spans."""
    tables = regular_profile(launches=1).tables
    launches = tables.launches.assign(kernel="chase_kernel")
    df = tables.df.assign(kernel=pd.Categorical(["chase_kernel"] * len(tables.df))).iloc[:spans]
    metadata = tables.metadata | {"sampler": sampler}
    (account,) = accounts_of(replace(tables, df=df, launches=launches, samples=samples, metadata=metadata))
    return account


def test_a_pointer_chase_with_samples() -> None:
    account = chased(*sample_tables([captured("chase")]))
    assert "samples" in account.basis
    assert UNKNOWN not in account.shares
    at_work = {name: share for name, share in account.shares.items() if ": " in name}
    assert at_work["waiting: memory"] > 0.9 * sum(at_work.values())
    assert account.advice == ""


def test_the_emulator() -> None:
    with session() as prof:
        launch_add(1000)
    (account,) = accounts_of(prof.tables)
    assert account.basis == ("ctas", "model")
    assert account.advice == ""


def test_too_few_samples_ask_for_launches() -> None:
    samples, sampler = sample_tables([captured("chase")])
    account = chased(samples.iloc[:1].assign(samples=12), sampler, spans=0)
    assert account.advice.startswith("12 PC samples of the 200 ")


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6).filter(any), st.integers(1, 10_000))
def test_integers_add_up_and_are_near(weights: list[int], whole: int) -> None:
    shares = [weight / sum(weights) for weight in weights]
    counts = apportioned(shares, whole)
    assert sum(counts) == whole
    for count, share in zip(counts, shares, strict=True):
        assert abs(count - share * whole) < 1 + 1e-6
        assert count >= 0
