"""The verdict: each rule by a profile that breaks it and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from profscope.analysis import verdict as judging
from profscope.analysis.trust_rules import RULES
from profscope.analysis.verdict import CARE, DISTRUST, EMULATED, TRUST
from profscope.profiles import Profile
from profscope.schema import spans_frame
from tests.support.profiles import launch_table, profile_metadata, regular_profile
from tests.support.samples import sample_rows

ROOT = Path(__file__).parents[2]
CLOCK = {"read_cycles": 1e-3, "row_cycles": 0.0, "basis": "measured"}
OWN = {"build": "instrumented", "registers": 100, "spills": 0, "shared_bytes": 1024}
OWN |= {"ctas_per_sm": 4, "instructions": 900, "rounds_as_bare": True}
BARE = {"build": "bare", "registers": 100, "spills": 0, "shared_bytes": 1024, "ctas_per_sm": 4}
BARE |= {"instructions": 700}
LISTED = {"matmul_kernel": {"recorded": {"ctas": 12, "unfinished": 0, "grid_ctas": 24, "sample": False}}}


def profile(own: dict[str, Any] | None = None, slowdown: float = 1.01, **changed: Any) -> Profile:
    """What is to be trusted but for what changes: of its launches, `clock`, the build `own`, or metadata."""
    plain = regular_profile(launches=3, ctas=4, warps=2, iterations=4)
    (kernel,) = set(plain.launches["kernel"])
    builds = [BARE, OWN | (own or {})]
    times = {"key": "k", "bare_ns": [1000.0] * 9, "instrumented_ns": [1000.0 * slowdown] * 9}
    metadata = profile_metadata(
        clock=changed.pop("clock", CLOCK),
        variants={kernel: [{"variant": 0, "key": "k", "builds": builds}]},
        baseline={"pairs": 2, "kernels": {kernel: [times | {"waited": 0}]}},
        **changed.pop("metadata", {}),
    )
    return Profile(plain.tables.df, plain.launches.assign(**changed), metadata)


def rules(of: Profile) -> list[str]:
    (judged,) = of.verdict.values()
    return [reason.rule for reason in judged.reasons]


def test_what_is_to_be_trusted() -> None:
    judged = profile().verdict
    assert judged.label == TRUST
    assert rules(profile()) == []
    assert str(judged).splitlines()[0] == TRUST


@pytest.mark.parametrize(
    ("rule", "label", "broken"),
    [
        ("slowdown", CARE, {"slowdown": 1.2}),
        ("slowdown", DISTRUST, {"slowdown": 1.8}),
        ("slowdown", CARE, {"slowdown": 0.8}),
        ("slowdown", DISTRUST, {"slowdown": 0.6}),
        ("occupancy", CARE, {"own": {"ctas_per_sm": 3}, "slowdown": 1.12}),
        ("occupancy", CARE, {"own": {"ctas_per_sm": 2}}),
        ("occupancy", DISTRUST, {"own": {"ctas_per_sm": 2}, "slowdown": 1.12}),
        ("unroll", CARE, {"own": {"instructions": 600}}),
        ("spills", CARE, {"own": {"spills": 12}}),
        ("rounding", CARE, {"own": {"rounds_as_bare": False, "fused_otherwise": ["k.py:7"]}}),
        ("unfinished", CARE, {"unfinished": [1, 0, 0], "grid_x": 5}),
        ("unfinished", DISTRUST, {"unfinished": 4, "ctas": 0}),
        ("short spans", CARE, {"clock": {"read_cycles": 1e6, "row_cycles": 0.0, "basis": "measured"}}),
        ("drops", CARE, {"dropped": 10}),
        ("cold", CARE, {"cold": True}),
        ("clock", CARE, {"clock_ghz": [1.9, 1.9, 1.6]}),
        ("slowdown", CARE, {"slowdown": 1.3, "grid_x": 8}),
        ("sampled", CARE, {"grid_x": 8, "metadata": {"kernels": LISTED}}),
        ("foreign", CARE, {"metadata": {"tool": "proton"}}),
    ],
)
def test_a_rule(rule: str, label: str, broken: dict[str, Any]) -> None:
    of = profile(**broken)
    (judged,) = of.verdict.values()
    (reason,) = [each for each in judged.reasons if each.rule == rule]
    assert (judged.label, reason.label) == (label, label)
    assert reason.text in str(of.verdict)
    assert rule in of.verdict.headline


def test_fewer_ctas_on_an_sm_are_no_reason_if_launches_take_as_long() -> None:
    assert rules(profile(own={"ctas_per_sm": 3})) == []


def of_unequal_ctas(shares: list[list[float]], grid: int = 64) -> Profile:
    """A launch for each list; its CTAs have this part of their time in their only row, a load. Every second
    CTA takes ten times as long."""
    plain = regular_profile(launches=len(shares), ctas=len(shares[0]), warps=1, iterations=1)
    df = plain.tables.df
    df = df[(df["depth"] == 0) | (df["scope"] == "store")].reset_index(drop=True)
    roots = (df["depth"] == 0).to_numpy()
    root = np.where(df["cta"] % 2, 10_000, 1_000)
    part = np.array([shares[launch][cta] for launch, cta in zip(df["launch"], df["cta"], strict=True)])
    took = np.where(roots, root, np.rint(root * part)).astype("int64")
    parent = np.where(roots, -1, np.flatnonzero(roots)[np.cumsum(roots) - 1])
    df = df.assign(duration_ns=took, duration_cycles=took, parent=parent.astype(df["parent"].dtype))
    return Profile(df, plain.launches.assign(grid_x=grid), plain.metadata)


def test_a_sample_asks_for_care_only_if_shares_of_rows_are_unsure() -> None:
    """However unequal CTAs are: a share is a ratio, and the same in short and long ones here."""
    alike = of_unequal_ctas([[0.4] * 8] * 2)
    assert alike.summary()["self_error_pct"].min() > 20
    assert "sampled" not in rules(alike)
    unsure = of_unequal_ctas([[0.2, 0.9, 0.1, 0.2, 0.4, 0.3, 0.8, 0.4]] * 2)
    (reason,) = [each for each in unsure.verdict["matmul_kernel", 0].reasons if each.rule == "sampled"]
    # By hand: of the kernel's own rest, which has the larger error of the two rows' shares or the smaller.
    share = np.array([0.2, 0.9, 0.1, 0.2, 0.4, 0.3, 0.8, 0.4])
    time = np.where(np.arange(8) % 2, 10_000, 1_000)
    ratio = (share * time).sum() / time.sum()
    rest = share * time - ratio * time
    error = np.sqrt(64**2 * (1 - 8 / 64) * rest.var(ddof=1) / 8 * 2) / (2 * 64 * (share * time).mean())
    assert f"standard error of {error:.0%} of itself" in reason.text
    assert reason.text.startswith("16 of 128 CTAs were recorded")


def test_of_one_cta_nobody_knows_how_the_others_differ() -> None:
    (reason,) = [
        each
        for each in of_unequal_ctas([[0.4]]).verdict["matmul_kernel", 0].reasons
        if each.rule == "sampled"
    ]
    assert reason.text == "1 of 64 CTAs were recorded; how much CTAs differ is unknown"


def test_one_launch_is_cold() -> None:
    plain = regular_profile(launches=1)
    assert "cold" in rules(Profile(plain.tables.df, plain.launches, profile_metadata()))


def test_a_clock_that_changes_within_a_launch() -> None:
    plain = profile()
    df = plain.tables.df.copy()
    roots = np.flatnonzero(df["depth"] == 0)
    df.loc[roots, "duration_ns"] = 10_000
    df.loc[roots, "duration_cycles"] = np.where(np.arange(len(roots)) % 2, 16_000, 19_000)
    of = Profile(df, plain.launches, plain.metadata)
    assert rules(of) == ["clock"]
    assert "19% within a launch" in str(of.verdict)


@pytest.mark.parametrize("rule", ["clock", "short spans"])
def test_spans_count_for_the_kernel_of_their_launch_alone(rule: str) -> None:
    """Of three launches of two kernels, and of a launch that is missing from the table of launches."""
    plain, own = profile(), ["calm", "calm", "odd"]
    df = plain.tables.df.copy()
    roots, is_odd = (df["depth"] == 0).to_numpy(), (df["launch"] == 2).to_numpy()
    if rule == "clock":
        df.loc[roots, "duration_ns"] = 10_000
        df.loc[roots, "duration_cycles"] = 16_000
        df.loc[np.flatnonzero(roots & is_odd)[::2], "duration_cycles"] = 19_000
    else:
        df.loc[~roots & ~is_odd, "duration_cycles"] += 10_000
    df["kernel"] = pd.Categorical(np.where(is_odd, "odd", "calm"))
    clock = CLOCK if rule == "clock" else {"read_cycles": 100.0, "row_cycles": 0.0, "basis": "measured"}
    metadata = profile_metadata(clock=clock)
    launches = plain.launches.assign(kernel=pd.Series(own, dtype="str"))
    both = Profile(df, launches, metadata).verdict
    alone = Profile(df, launches[:2], metadata).verdict

    def told(reasons: Any) -> bool:
        return rule in [each.rule for each in reasons]

    assert told(both["odd", 0].reasons)
    assert not told(both["calm", 0].reasons)
    assert not told(alone["calm", 0].reasons)


def test_spans_that_samples_contradict(monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel,) = set(profile().launches["kernel"])
    pair = {"distance": 0.4, "noise": 0.05}

    def distances(tables: object) -> pd.DataFrame:
        return pd.DataFrame([{"kernel": kernel, "variant": 0, **pair}])

    monkeypatch.setattr(judging, "distances", distances)
    of = profile()
    assert rules(of) == []
    sampled = Profile(of.tables.df, of.launches, of.metadata, samples=sample_rows({7: {"wait": 1}}))
    assert rules(sampled) == ["samples"]


def test_emulated_is_a_label_of_its_own() -> None:
    of = profile(metadata={"backend": "emulator"}, dropped=10)
    assert of.verdict.label == EMULATED
    assert rules(of) == ["drops"]


def test_the_worst_kernel_gives_the_label_and_comes_first() -> None:
    launches = launch_table([0, 1, 2], ["good", "bad", "worse"], dropped=[0, 10, 0], ctas=4)
    launches = launches.assign(unfinished=launches["launch"].map({0: 0, 1: 0, 2: 4}).astype("int32"))
    launches = launches.assign(ctas=launches["launch"].map({0: 4, 1: 4, 2: 0}).astype("int32"))
    of = Profile(spans_frame(), launches, profile_metadata())
    assert of.verdict.label == DISTRUST
    assert of.verdict.headline.startswith("do not trust; worse: ")
    assert [key[0] for key in of.verdict] == ["good", "bad", "worse"]
    reason = next(each for each in of.verdict["worse", 0].reasons if each.label == DISTRUST)
    assert of.verdict.in_brief().startswith(f"do not trust the spans: worse: {reason.text}; also cold, ")


def test_in_brief_tells_of_the_kernel_that_matters_most() -> None:
    launches = launch_table([0, 1, 2, 3], ["a", "b", "a", "b"], dropped=[10, 20, 10, 20], ctas=4)
    of = Profile(spans_frame(), launches.assign(cold=True), profile_metadata()).verdict
    for kernel, longest in (("a", []), ("b", [("b", 0), ("a", 0)])):
        assert of.in_brief(longest).startswith(
            f"trust the spans with care: {kernel}: {of[kernel, 0].reasons[0].text}; also "
        )
    assert of.in_brief([("b", 0)], str.upper).startswith("trust the spans with care: B: ")
    assert Profile().verdict.in_brief() == "nothing recorded"
    assert profile().verdict.in_brief() == "trust"


def test_every_rule_is_in_the_docs_and_the_other_way_round() -> None:
    text = (ROOT / "docs" / "verdict.md").read_text()
    table = text[text.index("| rule |") :].split("\n\n")[0].splitlines()[2:]
    assert [line.split("`")[1] for line in table] == [rule.name for rule in RULES]
