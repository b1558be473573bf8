"""Trees for proton-viewer: what is in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from profscope.profiles import Profile, load
from profscope.traces.exporters.collapsed import weights
from tests.support.profiles import profile_metadata, regular_profile
from tests.support.sessions import launch_add, session

PROFILE = regular_profile(launches=2, ctas=4, warps=2, iterations=3)


def saved(profile: Profile, folder: Path) -> list[Any]:
    profile.save(folder / "t.hatchet")
    document: list[Any] = json.loads((folder / "t.hatchet").read_text())
    return document


def walk(node: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], dict[str, Any]]:
    here = (*path, node["frame"]["name"])
    found = {here: node["metrics"]}
    for child in node["children"]:
        found |= walk(child, here)
    return found


def inclusive(node: dict[str, Any], metric: str) -> float:
    below: float = sum(inclusive(child, metric) for child in node["children"])
    return below + float(node["metrics"][metric])


def test_frames_have_the_times_and_counts_of_the_summary(tmp_path: Path) -> None:
    root, devices = saved(PROFILE, tmp_path)
    (kernel,) = root["children"]
    summary = PROFILE.summary()
    roots = summary[summary["kind"] == "kernel"]
    assert kernel["metrics"]["count"] == roots["count"].sum()
    assert inclusive(kernel, "time (ns)") == roots["total_ns"].sum()
    frames = walk(root)
    assert ("ROOT", "matmul_kernel (matmul.py:10)", "loop L22 (matmul.py:22)") in frames
    assert sum(each["time (ns)"] for each in frames.values()) == sum(weights(PROFILE.tables).values())
    assert devices == {"CUDA": {"0": {"arch": "90", "num_sms": 132}}}


def test_what_was_emulated_has_cycles_and_no_time(tmp_path: Path) -> None:
    root, _ = saved(Profile(PROFILE.df, PROFILE.launches, profile_metadata("emulator")), tmp_path)
    assert {tuple(sorted(each)) for each in walk(root).values()} == {("count", "cycles")}


def test_it_is_a_tree_without_launches(tmp_path: Path) -> None:
    root, devices = saved(Profile(), tmp_path)
    assert (root["children"], devices) == ([], {"CUDA": {}})


def test_a_recorded_kernel_has_its_lines(tmp_path: Path) -> None:
    with session(instrument="heavy") as prof:
        launch_add()
    root, _ = saved(prof.profile, tmp_path)
    names = [path[-1] for path in walk(root)]
    assert any(name.startswith("add_kernel (add.py:") for name in names)
    assert sum(name.startswith("load ") and "(add.py:" in name for name in names) == 2


def test_a_trace_is_converted(tmp_path: Path) -> None:
    from profscope.commands.convert import main

    PROFILE.save(tmp_path / "t.pftrace.gz")
    assert main(["convert", str(tmp_path / "t.pftrace.gz"), str(tmp_path / "u.hatchet")]) == 0
    again = json.loads((tmp_path / "u.hatchet").read_text())
    assert again == saved(load(tmp_path / "t.pftrace.gz"), tmp_path)
