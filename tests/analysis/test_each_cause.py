"""Causes that no planted kernel of the emulator shows, on spans written down one by one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from profscope.profiles import Profile
from tests.support.made_up_spans import Row, made_up

TIMES = ("start_ns", "start_cycle", "duration_ns", "duration_cycles")


def named(profile: Profile, name: str) -> pd.DataFrame:
    table = profile.findings()
    return table[table["finding"] == name]


def builds(**entries: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a kernel with these binaries."""
    listed = [{"build": name, "registers": 40, "shared_bytes": 0} | each for name, each in entries.items()]
    entry = {"variant": 0, "num_warps": 2, "maxnreg": 40, "signature": {}, "builds": listed}
    return {"variants": {"k": [entry]}, "device": {"name": "NVIDIA H200", "arch": "sm_90", "sm_count": 4}}


def loop(steps: list[int], inside: tuple[str, int] | None = None) -> list[Row]:
    """A kernel with a loop of such steps, each with an op of a name and length."""
    whole = sum(steps)
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, whole), ("loop L5", "loop", 5, -1, 0, 0, whole)]
    begin = 0
    for step, length in enumerate(steps):
        rows.append(("iteration L5", "iteration", 5, step, 1, begin, length))
        if inside:
            rows.append((inside[0], "op", 6, step, len(rows) - 1, begin, inside[1]))
        begin += length
    return rows


@pytest.mark.parametrize(
    ("long", "gain_pct"), [([], 0.0), ([0], 100 * 900 / 5800), ([0, 20], 100 * 1800 / 6700)]
)
def test_outliers(long: list[int], gain_pct: float) -> None:
    steps = [1000 if step in long else 100 for step in range(49)]
    table = named(made_up(loop(steps)), "outliers")
    if not long:
        assert table.empty
        return
    (row,) = table.to_dict("records")
    assert row["line"] == 5
    assert row["gain_pct"] == pytest.approx(gain_pct)
    assert f"{100 / len(long):.0f} % of them are first steps" in row["evidence"]


def test_spills() -> None:
    steps = loop([1000] * 10)
    spilled = {"spills": 20, "ctas_per_sm": 4}
    (row,) = named(made_up(steps, **builds(bare=spilled)), "spills").to_dict("records")
    # 20 registers of 4 bytes, written and read, of the 2 warps that an SM runs, at 128 bytes a cycle.
    assert row["gain_pct"] == pytest.approx(100 * (2 * 20 * 4 * 32 * 2 / 128) / 1000)
    assert (row["line"], row["confidence"]) == (5, "medium")
    (row,) = named(made_up(steps, **builds(instrumented=spilled)), "spills").to_dict("records")
    assert row["confidence"] == "low"
    (row,) = named(made_up(steps, **builds(bare=spilled | {"spills": 60})), "spills").to_dict("records")
    assert row["gain_pct"] == 95.0  # more than the 40 that it keeps
    # Records that spill are not the kernel's fault.
    both = builds(bare={"spills": 0, "ctas_per_sm": 4}, instrumented=spilled)
    assert named(made_up(steps, **both), "spills").empty
    unknown = made_up(steps[:2], **builds(bare=spilled)).findings()
    assert any("how many steps loop L5 has" in text for text in unknown.attrs["not_measured"])


def test_layout_conversions() -> None:
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 1000), ("convert layout c", "op", 9, -1, 0, 500, 300)]
    (row,) = named(made_up(rows), "layout-conversion").to_dict("records")
    assert (row["line"], row["gain_pct"]) == (9, 30.0)
    behind: list[Row] = [rows[0], ("load c", "op", 8, -1, 0, 490, 10), rows[1]]
    assert named(made_up(behind), "layout-conversion").empty  # it waits for the load


def test_low_residency() -> None:
    rows = loop([1000] * 3, ("barrier wait c", 400))
    few = {"spills": 0, "ctas_per_sm": 4, "registers": 40, "shared_bytes": 50_000}
    (row,) = named(made_up(rows, **builds(bare=few)), "low-residency").to_dict("records")
    assert row["gain_pct"] == pytest.approx(40 * (1 - 8 / 64))
    assert "limited by shared memory" in row["evidence"]
    many = few | {"ctas_per_sm": 16}
    assert named(made_up(rows, **builds(bare=many)), "low-residency").empty


def pipelined(steps: int, length: int, wait: int) -> list[Row]:
    """A loop that starts a copy in each step, and waits for another one."""
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, steps * length)]
    rows.append(("loop L5", "loop", 5, -1, 0, 0, steps * length))
    for step in range(steps):
        begin = step * length
        rows.append(("async wait a", "op", 6, step, 1, begin, 900 if step == 0 else wait))
        rows.append(("async copy a", "op", 6, step, 1, begin + length - 20, 20))
    return rows


def test_the_first_wait_is_no_lack_of_stages() -> None:
    (row,) = named(made_up(pipelined(10, 1000, 430)), "few-stages").to_dict("records")
    assert row["gain_pct"] == pytest.approx(100 * 9 * 400 / 10_000)
    assert row["confidence"] == "low"  # of copies that were not recorded nobody knows the bytes
    assert "copies were not recorded (heavy does)" in row["evidence"]
    assert named(made_up(pipelined(10, 1000, 30)), "few-stages").empty


def test_no_stage_hides_what_memory_cannot_deliver() -> None:
    """Also at the default level, where waits have the bytes of the copies."""
    entry = {"scope": "async wait a", "kind": "op", "file": "k.py", "line": 6, "call_path": "", "flops": 0}
    gains = []
    for count in (0, 24e6, 36e6, 40e6):  # in 10 us; 48 MB are the peak, 92 % of it what kernels reach
        scopes = [entry | {"measures": "completion", "bytes": count}]
        work = [{"variant": 0, "launches": 1, "ns": 10_000, "scopes": scopes}]
        table = named(
            made_up(pipelined(10, 1000, 430), **builds(), kernels={"k": {"work": work}}), "few-stages"
        )
        gains += table["gain_pct"].tolist()
        assert table["evidence"].str.contains("copies were not recorded").tolist() == [not count] * len(table)
    assert gains == pytest.approx([36, 36, 100 * (1 - 36 / 48 / 0.92)])  # at 83 % of the peak there is none


@pytest.mark.parametrize(
    ("shared", "said"),
    [
        (40_000, ""),
        (100_000, "with a further stage CTAs on an SM would be 1, not 2"),
        (160_000, "would not fit into"),
    ],
)
def test_what_a_further_stage_costs(shared: int, said: str) -> None:
    told = builds(
        bare={"ctas_per_sm": 2 if shared == 100_000 else 1, "registers": 64, "shared_bytes": shared}
    )
    told["variants"]["k"][0] |= {"num_stages": 2, "num_warps": 8}
    (row,) = named(made_up(pipelined(10, 1000, 430), **told), "few-stages").to_dict("records")
    assert said in row["evidence"]
    assert ("further stage" in row["evidence"]) == bool(said)
    assert ("raise num_stages" in row["advice"]) == ("would not fit into" not in said)


@pytest.mark.parametrize(
    ("stages", "length", "needed"), [(7, 1000, 2), (7, 300, 4), (3, 300, 0), (2, 1000, 0)]
)
def test_more_stages_than_copies_need(stages: int, length: int, needed: int) -> None:
    told = builds(bare={"ctas_per_sm": 1, "registers": 128, "shared_bytes": 160_000})
    told["variants"]["k"][0] |= {"num_stages": stages, "num_warps": 8}
    table = named(made_up(pipelined(20, length, 20), **told), "many-stages")
    assert len(table) == bool(needed)
    if needed:
        (row,) = table.to_dict("records")
        assert (row["line"], row["confidence"], row["advice"]) == (5, "low", f"num_stages={needed}")
        assert "2 CTAs fit on an SM where 1 run" in row["evidence"]
        late = named(made_up(pipelined(20, length, 200), **told), "many-stages")
        assert late.empty  # copies are waited for


def test_atomics_cost_the_same_however_much_is_recorded() -> None:
    def step(*ops: Row) -> list[Row]:
        return [("k", "kernel", 1, -1, -1, 0, 10_000), ("loop L5", "loop", 5, -1, 0, 0, 10_000), *ops]

    atomics: list[Row] = [("atomic t", "op", 6, at, 1, 1000 * at, 300) for at in range(10)]
    others: list[Row] = [("load x", "op", 7, at, 1, 1000 * at + 400, 20) for at in range(10)]
    both = sorted(atomics + others, key=lambda row: row[5])
    (alone,) = named(made_up(step(*atomics)), "atomics").to_dict("records")
    (beside,) = named(made_up(step(*both)), "atomics").to_dict("records")
    assert alone["gain_pct"] == pytest.approx(30.0)  # who knows what the other 700 cycles are
    assert beside["gain_pct"] == pytest.approx(40.0)  # until the load begins


def test_loads_under_way_together_wait_together() -> None:
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 4000), ("loop L5", "loop", 5, -1, 0, 0, 4000)]
    for at in range(4):
        rows += [("load a", "op", 6, at, 1, 1000 * at, 10), ("load b", "op", 7, at, 1, 1000 * at + 10, 10)]
        rows.append(("store", "op", 8, at, 1, 1000 * at + 640, 10))
    (row,) = named(made_up(rows), "exposed-load").to_dict("records")
    assert "600 cycles in each step of the loop; 13 % of a memory latency" in row["evidence"]
    first = [each for each in rows if each[3] <= 0]
    later: list[Row] = [("load a", "op", 6, at, 1, 1000 * at, 10) for at in range(1, 4)]
    later += [("store", "op", 8, at, 1, 1000 * at + 20, 10) for at in range(1, 4)]
    (row,) = named(made_up(first + sorted(later, key=lambda each: each[5])), "exposed-load").to_dict(
        "records"
    )
    assert "100 % of it in first steps" in row["evidence"]


@pytest.mark.parametrize(
    ("waiting", "every", "doubted"), [(25, 1000, True), (800, 1000, False), (2, 100, False)]
)
def test_samples_may_speak_against_a_wait(waiting: int, every: int, doubted: bool) -> None:
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 4000), ("loop L5", "loop", 5, -1, 0, 0, 4000)]
    for at in range(4):
        rows.append(("load a", "op", 6, at, 1, 1000 * at, 10))
    profile = made_up(rows)
    same = {"kernel": "k", "variant": 0, "binary": "bare", "blamed_file": "", "blamed_line": 0}
    seen = {"long_scoreboard": waiting, "wait": every - waiting}
    samples = pd.DataFrame([same | {"stall": stall, "samples": count} for stall, count in seen.items()])
    (before,) = named(profile, "exposed-load").to_dict("records")
    object.__setattr__(profile, "samples", samples)
    (row,) = named(profile, "exposed-load").to_dict("records")
    assert row["gain_pct"] == before["gain_pct"]
    assert ("; but only 2 % of 1,000 hardware samples are such waits" in row["evidence"]) == doubted
    assert row["confidence"] == ("low" if doubted else before["confidence"])
    assert before["confidence"] != "low"


def test_few_ctas_may_be_uneven_too() -> None:
    rows = loop([1000] * 4)
    profile = made_up(rows, ctas=4, device={"name": "NVIDIA H200", "arch": "sm_90", "sm_count": 8})
    longer = profile.df["cta"] == 0
    times = ("start_ns", "start_cycle", "duration_ns", "duration_cycles")
    cycles = {name: profile.df[name].where(~longer, profile.df[name] * 9) for name in times}
    table = Profile(profile.df.assign(**cycles), profile.launches, profile.metadata).findings()
    assert {"idle-sms", "load-imbalance"} <= set(table["finding"])


def uneven(steps: int, more: int) -> Profile:
    """Eight CTAs whose loops have so many steps, but the last, which has `more`."""
    parts = [made_up(loop([1000] * count), ctas=8) for count in (steps, more)]
    others, last = (each.tables.df for each in parts)
    others, last = others[others["cta"] < 7], last[last["cta"] == 7]
    away = len(others) - int(last.index[0])
    last = last.assign(parent=last["parent"].where(last["parent"] < 0, last["parent"] + away))
    return Profile(pd.concat([others, last], ignore_index=True), parts[1].launches, parts[1].metadata)


def test_one_step_in_thirty_more_is_no_imbalance() -> None:
    assert named(uneven(60, 62), "load-imbalance").empty
    (row,) = named(uneven(30, 45), "load-imbalance").to_dict("records")
    assert row["confidence"] == "high"
    assert "30 to 45 steps" in row["evidence"]
    emulated = uneven(30, 45)
    emulated = replace(emulated, metadata=emulated.metadata | {"backend": "emulator"})
    (told,) = named(emulated, "load-imbalance")["evidence"]
    assert re.match(r"the mean CTA takes [\d,]+ cycles, the longest [\d,]+ \(", told)
    assert f", the longest {max(emulated.df['duration_cycles']):,} (" in told


def test_a_launch_with_more_steps_makes_no_other_ones_ctas_uneven() -> None:
    launches = []
    for number, steps in enumerate((30, 60)):
        even = made_up(loop([1000] * steps), ctas=8)
        slow = even.df["cta"] == 7  # of the same steps
        times = {name: even.df[name].where(~slow, even.df[name] * 5 // 4) for name in TIMES}
        table = even.launches.assign(launch=np.int32(number), end_ns=even.launches["end_ns"] * 5 // 4)
        spans = even.df.assign(**times, launch=np.int32(number))
        launches.append(Profile(spans, table, even.metadata))
        assert named(launches[number], "load-imbalance").empty
    first, second = (each.df for each in launches)
    second = second.assign(parent=second["parent"] + len(first) * (second["parent"] >= 0))
    table = pd.concat([each.launches for each in launches], ignore_index=True)
    both = Profile(pd.concat([first, second], ignore_index=True), table, launches[0].metadata)
    assert named(both, "load-imbalance").empty


def test_prologue() -> None:
    rows: list[Row] = [
        ("k", "kernel", 1, -1, -1, 0, 1000),
        ("load q", "op", 2, -1, 0, 100, 20),
        ("loop L5", "loop", 5, -1, 0, 300, 600),
        ("dot acc", "op", 6, 0, 2, 300, 600),
    ]
    (row,) = named(made_up(rows), "prologue").to_dict("records")
    assert (row["line"], row["gain_pct"]) == (2, 40.0)
    (row,) = named(made_up(rows[:1] + rows[1:2] + rows[2:], backend="emulator"), "prologue").to_dict(
        "records"
    )
    assert row["evidence"].endswith("(cycles of the emulator's cost model)")


def test_dots_and_other_work_that_take_turns() -> None:
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 4000), ("loop L5", "loop", 5, -1, 0, 0, 4000)]
    for step in range(4):
        begin = 1000 * step
        rows += [
            ("dot issue s", "op", 6, step, 1, begin, 100),
            ("dot wait s", "op", 6, step, 1, begin + 100, 300),
            ("exp2 p", "op", 7, step, 1, begin + 400, 600),
        ]
    (row,) = named(made_up(rows), "serial-stage").to_dict("records")
    assert (row["line"], row["gain_pct"]) == (7, 40.0)
    assert "40 % of its time in dots and 60 % in other work" in row["evidence"]


def test_an_op_that_nothing_else_explains() -> None:
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 1000), ("store", "op", 9, -1, 0, 200, 700)]
    (row,) = made_up(rows).findings().to_dict("records")
    assert (row["finding"], row["line"], row["gain_pct"]) == ("dominant-span", 9, 70.0)
    math: list[Row] = [rows[0], ("exp2 p", "op", 9, -1, 0, 200, 700)]
    assert made_up(math).findings().empty  # arithmetic is what a kernel is for


def test_loads_whose_data_comes_in_time_are_none() -> None:
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 10_000), ("load x", "op", 2, -1, 0, 0, 20)]
    rows.append(("exp2 p", "op", 3, -1, 0, 20, 200))
    assert named(made_up(rows), "exposed-load").empty
    waited: list[Row] = [*rows[:2], ("store", "op", 4, -1, 0, 1030, 20)]
    (row,) = named(made_up(waited), "exposed-load").to_dict("records")
    assert row["gain_pct"] == pytest.approx(10.0)  # 20 of the load and 1,010 behind it, less 30 of 10,000


@pytest.mark.parametrize(("issue", "found"), [(20, False), (400, True)])
def test_arithmetic_behind_a_load_is_no_queue_for_memory(issue: int, found: bool) -> None:
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 20_000), ("load x", "op", 2, -1, 0, 0, issue)]
    rows.append(("store", "op", 3, -1, 0, 19_000, 20))
    work = {
        "scope": "load x",
        "kind": "op",
        "file": "k.py",
        "line": 2,
        "call_path": "",
        "bytes": 20_000,
        "flops": 0,
    }
    entry = {
        "variant": 0,
        "launches": 1,
        "ns": 20_000,
        "scopes": [work | {"measures": "issue"}],
    }
    told = {"kernels": {"k": {"work": [entry]}}, "device": {"name": "NVIDIA H200", "sm_count": 4}}
    assert (not named(made_up(rows, **told), "uncoalesced-load").empty) == found


def test_waiting_for_loads_is_no_bank_conflict() -> None:
    def accesses(second: str) -> Profile:
        rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 4000), (second, "op", 2, -1, 0, 0, 10)]
        rows += [("local alloc a", "op", 3, -1, 0, 10, 600), ("local alloc b", "op", 4, -1, 0, 610, 600)]
        scopes = [
            {"scope": f"local alloc {name}", "kind": "op", "file": "k.py", "line": line, "call_path": ""}
            | {"bytes": 4 * 2048, "flops": 0, "measures": "issue"}
            for name, line in (("a", 3), ("b", 4))
        ]
        entry = {"variant": 0, "launches": 1, "ns": 4000, "scopes": scopes}
        return made_up(rows, kernels={"k": {"work": [entry]}})

    assert named(accesses("load b"), "bank-conflict").empty
    (row,) = named(accesses("exp2 a"), "bank-conflict").to_dict("records")
    assert "takes 600 cycles where its bytes need 49" in row["evidence"]
