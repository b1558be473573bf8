"""All views of one profile say the same of it: kernels, scopes, lines, warps and launches, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from profscope.analysis.spans.rows import ended
from profscope.profiles import Profile, diff, load
from profscope.traces.jobs.merging import merged
from profscope.traces.jobs.stack import Part
from tests.support.all_views import Views, by_line, margins, of_group, warps_of
from tests.support.captured import captured
from tests.support.sessions import CASES, session

ROOT = Path(__file__).parents[1]
DATA, RESULTS = ROOT / "tests/data", ROOT / "bench/results"
approx = pytest.approx
GROUP = ["kernel", "variant"]
PLACE = ["kernel", "variant", "scope", "kind", "file", "line", "call_path"]
CLOCK = {"read_cycles": 2, "row_cycles": 18, "basis": "measured"}


def two_kernels() -> Profile:
    return captured(
        "liger_rms_norm-heavy-0", "liger_rms_norm-heavy-1", "noinline-heavy-0", "noinline-light-0"
    )


def with_cost() -> Profile:
    """Launches of one configuration and of two grids, of which it is known what a record costs."""
    profile = captured("layer_norm-heavy-0", "attention-light-0")
    return Profile.of(replace(profile.tables, metadata=profile.metadata | {"clock": CLOCK}))


def of_two_ranks() -> Profile:
    """What two ranks of a job recorded, merged: of one kernel both have a launch."""
    parts = [
        captured("layer_norm-heavy-0", "attention-light-0"),
        captured("softmax-heavy-0", "layer_norm-heavy-0", "noinline-heavy-0"),
    ]
    return Profile.of(merged([Part(each.tables, f"part {rank}", rank) for rank, each in enumerate(parts)]))


def recorded_as(*names: str, **options: Any) -> Profile:
    with session(**options) as prof:
        for name in names:
            CASES[name].launch(CASES[name].inputs("cpu"))
    return Profile.of(prof.tables)


FEW: dict[str, Callable[[], Profile]] = {
    "records overwritten, partitions": lambda: captured("gluon_ws_loop-heavy-16-0", "while-heavy-16-0"),
    "some CTAs": lambda: load(DATA / "diff/matmul-1-stage.pftrace.gz"),
    "two kernels": two_kernels,
    "corrected": with_cost,
    "two ranks": of_two_ranks,
}
MORE: dict[str, Callable[[], Profile]] = {
    "fla": lambda: load(next(RESULTS.glob("*fla-before.pftrace.gz"))),
    "heavy": lambda: recorded_as("noinline", "call_paths", "nested_loops", instrument="heavy"),
    "ctas, listed": lambda: recorded_as("matmul", "call_paths", ctas=[0, 3]),
}


@dataclass(frozen=True)
class Told:
    """A profile, and its views. unit: that of the views."""

    profile: Profile
    views: Views

    @property
    def unit(self) -> str:
        return "cycles" if self.profile.emulated else "ns"

    @cached_property
    def summary(self) -> pd.DataFrame:
        return self.profile.summary()

    @cached_property
    def own(self) -> pd.DataFrame:
        """The summary without what is in flight."""
        return self.summary[self.summary["kind"] != "async"]

    @property
    def warp_time(self) -> int:
        return int(self.own[f"self_{self.unit}"].sum())

    @cached_property
    def screen(self) -> dict[str, Any]:
        told: dict[str, Any] = self.views.ask("--show", "kernels,lines,scopes,tree", "--top", "0")
        return told


def told_of(make: Callable[[], Profile], folder: Path, *choice: str) -> Told:
    profile = make()
    views = Views(profile, folder, *choice)
    named = {
        name.removeprefix("--"): int(value) for name, value in zip(choice[::2], choice[1::2], strict=True)
    }
    return Told(load(views.path, **named) if named else profile, views)  # type: ignore[arg-type]


def agree_on_the_screen(told: Told) -> None:
    screen, launches = told.screen, told.profile.launches
    rows = {tuple(row[name] for name in GROUP): row for row in screen["kernels"]}
    for key, own in launches.groupby(GROUP, sort=False):
        row = rows[key]
        timed = ended(own)
        assert (row["launches"], row["untimed"]) == (len(own), len(own) - len(timed))
        assert row["ctas"]["recorded"] == own["ctas"].sum()
        if told.unit == "ns" and row["time"]:
            assert row["time"]["total"] == (timed["end_ns"] - timed["start_ns"]).sum()
    assert sum(row["share"] or 0 for row in rows.values()) == approx(1)
    assert screen["header"]["dropped"] == launches["dropped"].sum()
    assert screen["header"]["ctas"] == launches["ctas"].sum()
    tables = screen["tables"]
    inside = {(table["kernel"], table["variant"]) for table in tables}
    if len(inside) == len(rows):
        assert sum(table["warps"] for table in tables) == warps_of(told.profile)
    for table, tree in zip(screen["tables"], screen["trees"], strict=True):
        key = tuple(table[name] for name in GROUP)
        own = of_group(told.summary, key)
        mine = of_group(launches, key)
        assert table["launches"] == own["launches"].max()
        assert table["ctas"] == mine["ctas"].sum()
        assert table["warp_time"] == own[f"self_{told.unit}"].sum()
        assert sum(row["self"] for row in table["rows"]) == table["warp_time"]
        roots = sum(node["total"] for node in tree["nodes"] if not node["depth"])
        assert roots == approx(table["warp_time"], abs=len(own))
        of_tree: dict[tuple[Any, ...], list[int]] = {}
        for node in tree["nodes"]:
            sums = of_tree.setdefault(tuple(node[name] for name in PLACE[2:]), [0, 0])
            sums[0] += node["count"]
            sums[1] += node["total"]
        for row in table["rows"]:
            at = tuple(row[name] for name in PLACE[2:])
            assert of_tree[at] == approx([row["count"], row["total"]], abs=len(tree["nodes"])), at


def agree_on_lines(told: Told) -> None:
    profile, self_time = told.profile, f"self_{told.unit}"
    lines, warp_time = (
        profile.lines(),
        told.own.groupby(["kernel", "variant"], observed=True)[self_time].sum(),
    )
    at_lines = told.own[told.own["kind"] != "gap"]
    assert (lines["self_share"].fillna(0) <= 1).all()
    shares = by_line(lines, "self_share")
    for (kernel, variant, line), own in by_line(at_lines, self_time).items():
        if warp_time[kernel, variant]:
            assert shares[kernel, variant, line] == approx(own / warp_time[kernel, variant], abs=1e-9)
    of_summary = by_line(at_lines, "share")
    for entry in profile.report()["kernels"]:
        rows = pd.DataFrame(entry["lines"]["rows"])
        rows = rows.assign(kernel=entry["kernel"], variant=entry["variant"])
        if len(rows) and not entry["left_out"]["lines"]:
            for key, share in by_line(rows, "self_share").items():
                assert share == approx(of_summary.get(key, 0.0), rel=1e-3, abs=1e-4), key
    # The source, as text, as a table, and in a browser.
    best = {"samples": "share_samples", "spans": "self_share"}
    shown: dict[tuple[str, int, int], float] = {}
    for source in told.views.ask("--source"):
        for line in (each for block in source["blocks"] for each in block["lines"]):
            if line["share"] is not None:
                of_line = by_line(lines, best[source["witness"]])
                key = source["kernel"], source["variant"], line["line"]
                shown[key] = shown.get(key, 0.0) + line["share"]
                if key[2]:
                    assert line["share"] <= of_line[key] + 1e-9
    for key, share in shown.items():
        of_line = lines[
            (lines["kernel"] == key[0]) & (lines["variant"] == key[1]) & (lines["line"] == key[2])
        ]
        name = next(name for name in best.values() if of_line[name].notna().any())
        assert share == approx(float(of_line[name].sum()))
    known = [
        (entry, row) for entry in told.screen["kernels"] if entry["lines"] for row in entry["lines"]["rows"]
    ]
    of_view = pd.DataFrame([row | {name: entry[name] for name in GROUP} for entry, row in known])
    of_lines = by_line(lines, "self_share")
    for key, share in by_line(of_view, "self_share").items():
        assert share == approx(of_lines[key]), key


def agree_on_ranks(told: Told) -> None:
    """What a rank launched: in the table of ranks, and of that rank alone."""
    launches, ranks = told.profile.launches, told.profile.ranks.summary()
    took = launches["end_ns"] - launches["start_ns"]
    for row in ranks.to_dict("records"):
        own = launches["rank"] == row["rank"]
        assert (row["launches"], row["busy_ns"]) == (own.sum(), took[own].sum())
        alone = load(told.views.path, rank=row["rank"])
        assert alone.launches["kernel"].tolist() == launches.loc[own, "kernel"].tolist()
    if len(ranks):
        assert sum(row["launches"] for row in told.screen["kernels"]) == ranks["launches"].sum()
        assert sum(row["time"]["total"] for row in told.screen["kernels"]) == ranks["busy_ns"].sum()


def agree_in_other_forms(told: Told) -> None:
    profile, views, unit = told.profile, told.views, told.unit
    scopes = views.ask("--show", "scopes", form="csv") if told.screen["tables"] else []
    self_time = sum(int(row["self"]) for row in scopes)
    with_inside = {(table["kernel"], table["variant"]) for table in told.screen["tables"]}
    own = told.own[[key in with_inside for key in zip(told.own["kernel"], told.own["variant"], strict=True)]]
    assert self_time == own[f"self_{unit}"].sum()
    for entry in profile.report()["kernels"]:
        launches = of_group(profile.launches, (entry["kernel"], entry["variant"]))
        assert (entry["launches"], entry["ctas"]["recorded"]) == (len(launches), launches["ctas"].sum())
        assert entry["records"]["dropped"] == launches["dropped"].sum()
        timed = entry["time"]
        if timed and unit == "ns":
            row = next(
                row
                for row in told.screen["kernels"]
                if [row[name] for name in GROUP] == [entry["kernel"], entry["variant"]]
            )
            assert (timed["launches"], timed["total"]) == (
                row["launches"] - row["untimed"],
                approx(row["time"]["total"], rel=1e-5),
            )
    profile.save(views.path.with_name("x.html"))
    page = views.path.with_name("x.html").read_text()
    seen = margins(page)
    lines = profile.lines()
    best = next(name for name in ("share_samples", "self_share") if lines[name].notna().any())
    alone = lines.groupby(["kernel", "variant"]).ngroups == 1
    if alone:
        for line, share in seen:
            known = lines.loc[lines["line"] == line, best]
            assert share == approx(100 * float(known.fillna(0).sum()), abs=0.06), line
    assert len(seen) > 0
    side = diff(profile, profile)
    assert not side["significant"].any()
    assert (side["self_a"] == side["self_b"]).all()


ON_ONE_FILE = (agree_on_the_screen, agree_on_lines)
ALL = (*ON_ONE_FILE, agree_on_ranks, agree_in_other_forms)


@pytest.mark.parametrize(
    ("agree", "name"),
    [
        (agree_on_the_screen, "two kernels"),
        (agree_on_lines, "records overwritten, partitions"),
        (agree_on_lines, "some CTAs"),
        (agree_in_other_forms, "two kernels"),
        (agree_on_ranks, "two ranks"),
    ],
)
def test_views_agree(agree: Callable[[Told], None], name: str, tmp_path: Path) -> None:
    agree(told_of(FEW[name], tmp_path))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*FEW, *MORE])
def test_all_views_of_many_profiles(name: str, tmp_path: Path) -> None:
    told = told_of({**FEW, **MORE}[name], tmp_path)
    for agree in ALL:
        agree(told)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "choice"), [("some CTAs", ("--cta", "0")), ("corrected", ("--launch", "1", "--warp", "1"))]
)
def test_a_part_says_the_same_of_itself(name: str, choice: tuple[str, ...], tmp_path: Path) -> None:
    told = told_of(FEW[name], tmp_path, *choice)
    for agree in ON_ONE_FILE:
        agree(told)
