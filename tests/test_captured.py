"""Kernels of one text that differ in what they capture: each is a configuration of its own, everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import profscope
from profscope.analysis.model.labels import groups_of
from profscope.profiles import Profile
from tests.kernels.captured import EXPS, applied, heavy, light, passed_kernel, times
from tests.support.command_line import run
from tests.support.kernel_files import defined, line_of
from tests.support.sessions import session

BLOCK = 128


def recorded(kernels: Sequence[Any], **options: Any) -> Profile:
    x = torch.ones(8 * BLOCK)
    with session(**options) as prof:
        for _ in range(2):
            for kernel in kernels:
                kernel[(8,)](torch.empty_like(x), x, B=BLOCK)
    return prof.profile


def differs(profile: Profile) -> list[dict[str, Any]]:
    return [dict(group.differs) for group in groups_of(profile.tables).values()]


@pytest.fixture(scope="module")
def light_and_heavy() -> Profile:
    return recorded([applied(light), applied(heavy)], every=2)


def test_each_has_samples_and_counts_of_its_own_code(light_and_heavy: Profile) -> None:
    prof = light_and_heavy
    assert prof.launches["variant"].tolist() == [0, 1]
    exp = line_of(heavy, "tl.exp")
    for table, figure in ((prof.samples, "samples"), (prof.counts, "executed")):
        at_exp = table[table["line"] == exp].groupby("variant", observed=True)[figure].sum()
        assert at_exp.index.tolist() == [1]
        added = table[table["line"] == line_of(light, "x + 1.0")]
        assert set(added["variant"]) == {0}
    counts = prof.counts[prof.counts["opcode"].str.startswith("ex2")]
    warps = 8 * BLOCK // 32
    assert counts["executed"].sum() == EXPS * warps
    assert {each["rounds_as_bare"] for each in builds(prof)} == {True}
    assert not [note for note in prof.metadata["notes"] if "round" in note or "one of its" in note]


def builds(profile: Profile) -> list[dict[str, Any]]:
    variants = profile.metadata["variants"]["apply_kernel"]
    return [build for each in variants for build in each["builds"] if build["build"] == "instrumented"]


def test_labels_name_what_is_captured(light_and_heavy: Profile) -> None:
    names = "tests.kernels.captured.light", "tests.kernels.captured.heavy"
    assert differs(light_and_heavy) == [{"op": name} for name in names]
    keys = {each["key"] for each in light_and_heavy.metadata["variants"]["apply_kernel"]}
    assert {each["key"] for each in light_and_heavy.metadata["code"]} == keys
    scaled = recorded([applied(times(2.0)), applied(times(3.0))])
    assert differs(scaled) == [{"scale": 2.0}, {"scale": 3.0}]


def test_the_sources_hash_tells_apart_what_nothing_else_does(tmp_path: Path) -> None:
    """Files that are loaded under one module name; functions of one name that are arguments."""
    x, out = torch.ones(64), torch.zeros(64)
    kernels = [defined(tmp_path / place / "one" / "k.py", op) for place, op in zip("ab", "+*", strict=True)]
    operations = []
    for place, op in zip("cd", "+*", strict=True):
        path = tmp_path / f"{place}.py"
        path.write_text(f"import triton\n\n@triton.jit\ndef op(x):\n    return x {op} x\n")
        module: dict[str, Any] = {"__name__": "ops"}
        exec(compile(path.read_text(), path, "exec"), module)
        operations.append(module["op"])
    with session() as prof:
        for kernel in kernels:
            kernel[(1,)](x, out, 2, BLOCK=64)
        for operation in operations:
            passed_kernel[(1,)](out, x, OP=operation, B=64)
    for kernel in ("scale_kernel", "passed_kernel"):
        variants = prof.metadata["variants"][kernel]
        assert len({each["source_hash"] for each in variants}) == 2
        own = [dict(group.differs) for group in groups_of(prof.tables).values() if group.kernel == kernel]
        assert own == [{"source": each["source_hash"][:6]} for each in variants]


def test_diff_pairs_each_with_itself_whatever_the_order(light_and_heavy: Profile, tmp_path: Path) -> None:
    """Also where nothing but the source tells them apart."""
    turned = recorded([applied(heavy), applied(light)], every=2)
    difference = profscope.diff(light_and_heavy, turned)
    pairs = difference[["variant_a", "variant_b", "configuration"]].drop_duplicates().to_numpy().tolist()
    assert sorted(pairs) == [
        [0, 1, "op=tests.kernels.captured.light"],
        [1, 0, "op=tests.kernels.captured.heavy"],
    ]
    assert set(difference["status"]) == {"same"}
    files = [tmp_path / f"{name}.json" for name in "ab"]
    for profile, file in zip((light_and_heavy, turned), files, strict=True):
        profile.save(file)
    assert "nothing changed" in run("diff", *map(str, files), "--fail-above", "1").stdout
