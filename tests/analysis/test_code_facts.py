"""What differs in the code of two compilations: kernels that differ in one thing, and profiles."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import profscope
from profscope.analysis.comparing.code_changes import by_kernel, ranked_facts, row_text, share_text
from profscope.analysis.comparing.code_facts import CodeFacts, about_facts, facts_of, ptx_of
from profscope.profiles import Profile
from profscope.schema import EXPERIMENT_DTYPES
from tests.kernels.aot import compiled
from tests.kernels.code_pairs import PAIRS, CodePair
from tests.kernels.spec import CUDA90, Spec
from tests.support.kernel_files import defined, line_of
from tests.support.sessions import launch_add, launch_matmul, session


def facts(spec: Spec) -> CodeFacts:
    kernel = compiled(spec, CUDA90)
    about = {name: getattr(kernel.metadata, name) for name in ("num_warps", "num_stages")}
    return facts_of(kernel.asm["ttgir"], list(ptx_of(kernel.asm["ptx"])), about=about_facts(about, {}))


def sources(spec: Spec) -> list[dict[str, Any]]:
    """The kernel's text, by no name, for the two of a pair are called otherwise."""
    function = spec.fn
    file, line = function.fn.__code__.co_filename, function.starting_line_number
    return [{"name": "", "file": file, "line": line, "text": "".join(function.raw_src)}]


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_what_differs_is_the_first_row(pair: CodePair) -> None:
    first, *_ = ranked_facts(facts(pair.a), facts(pair.b), sources(pair.a), sources(pair.b))
    assert (first.fact, first.a, first.b) == (pair.fact, *pair.values)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_kernel_compiled_twice_has_no_row(pair: CodePair) -> None:
    assert ranked_facts(facts(pair.b), facts(pair.b), sources(pair.b), sources(pair.b)) == []


def test_names_numbers_and_places_of_the_text_are_no_facts() -> None:
    """Another numbering of values, layouts and locations, and the kernel 100 lines below."""
    kernel = compiled(PAIRS["stages"].a, CUDA90)
    text = kernel.asm["ttgir"]
    for kind in ("blocked", "shared", "loc"):
        text = re.sub(rf"#{kind}(\d*)\b(?!<|_)", rf"#{kind}9\1", text)
    text = re.sub(r"%(\w+)", r"%v_\1", text)
    moved = re.sub(r'(matmul\.py":)(\d+)', lambda at: f"{at[1]}{int(at[2]) + 100}", text)
    assert moved != kernel.asm["ttgir"]
    before = sources(PAIRS["stages"].a)
    after = [before[0] | {"line": before[0]["line"] + 100}]
    assert ranked_facts(facts_of(kernel.asm["ttgir"]), facts_of(moved), before, after) == []


def recorded(stages: int, **options: Any) -> Profile:
    with session(evidence=True, **options) as prof:
        launch_matmul(stages)
    return prof.profile


@pytest.fixture(scope="module")
def one_stage() -> Profile:
    return recorded(1)


@pytest.fixture(scope="module")
def three_stages() -> Profile:
    return recorded(3)


def test_a_table_without_a_row_is_shown(one_stage: Profile) -> None:
    code = profscope.diff(one_stage, one_stage).code
    assert code.empty
    assert "Empty DataFrame" in repr(code)
    assert "<table" in code._repr_html_()


def test_profiles_tell_what_the_compiler_did(one_stage: Profile, three_stages: Profile) -> None:
    difference = profscope.diff(one_stage, three_stages)
    code = difference.code
    first = code.iloc[0]
    assert (first["kernel"], first["line"], first["fact"]) == ("matmul_kernel", 0, "num_stages")
    launch = difference.iloc[0]
    assert first["change"] == launch["change"]
    assert first["percent"] == pytest.approx(launch["percent"])
    rows = {(row["line"], row["fact"]): (row["a"], row["b"]) for row in code.to_dict("records")}
    assert rows[34, "asynchronous"] == rows[35, "asynchronous"] == ("no", "cp.async")
    assert rows[34, "iterations ahead"] == ("none", "2")
    assert rows[0, "shared_bytes"] == ("2048", "4096")
    assert set(code["basis"]) == {"samples", ""}
    assert {fact for line, fact in rows if line == 36} <= {"instructions"}  # the product is as it was
    (explained,) = code.attrs["explained"]
    assert explained["percent"] == pytest.approx(launch["percent"])
    assert abs(explained["explained"]) > 0.7 * abs(explained["percent"])
    assert list(code.columns)[:8] == [
        "kernel", "variant_a", "variant_b", "file", "line", "fact", "a", "b",
    ]  # fmt: skip


def test_the_same_code_has_no_row(three_stages: Profile) -> None:
    code = profscope.diff(three_stages, recorded(3)).code
    assert code.empty
    assert code.attrs["explained"][0]["percent"] == 0


def test_records_are_not_of_the_kernels_code(three_stages: Profile) -> None:
    """With other records on one side. The emulator's instructions are those of the binary that recorded."""
    code = profscope.diff(three_stages, recorded(3, instrument="heavy")).code
    assert set(code["fact"]) <= {"instructions"}


def test_a_second_body_for_ctas_that_do_not_record_is_not_counted(
    one_stage: Profile, three_stages: Profile
) -> None:
    sampled = [recorded(stages, ctas=[0]) for stages in (1, 3)]
    assert sampled[1].metadata["variants"]["matmul_kernel"][0]["builds"][-1]["twin"]
    tables = [profscope.diff(one_stage, three_stages).code, profscope.diff(*sampled).code]
    whole, part = (
        sorted(code.loc[code["fact"] != "instructions", ["line", "fact", "a", "b"]].to_numpy().tolist())
        for code in tables
    )
    assert whole == part


def test_without_samples_the_rows_tell_the_time(one_stage: Profile, three_stages: Profile) -> None:
    unsampled = [replace(each, samples=each.samples.iloc[:0]) for each in (one_stage, three_stages)]
    difference = profscope.diff(*unsampled)
    code = difference.code
    assert set(code["basis"]) == {"spans", ""}
    (explained,) = code.attrs["explained"]
    assert abs(explained["explained"]) > 0.7 * abs(explained["percent"])
    copy = code[(code["line"] == 34) & (code["fact"] == "asynchronous")].iloc[0]
    launch = difference.iloc[0]
    rows = difference[~difference["kind"].isin(["launch", "async"])]
    waiting = (
        rows["line_b"]
        .where(rows["line_b"] > 0, rows["line_a"])
        .isin(
            range(15, 37)  # copies stand before the loop, too; the product and the other wait go with them
        )
    )
    parts = [
        launch[f"self_{side}"] * rows.loc[waiting, f"self_{side}"].sum() / rows[f"self_{side}"].sum()
        for side in "ab"
    ]
    assert copy["change"] == pytest.approx(parts[1] - parts[0])


def with_experiments(profile: Profile, saved_pct: float) -> Profile:
    """What an experiment would tell of the load of a."""
    file = profile.metadata["sources"][0]["file"]
    row = {
        "kernel": "matmul_kernel", "variant": 0, "file": file, "line": 34, "op": "load a",
        "experiment": "off", "saved_pct": saved_pct, "valid": True, "why_not": "",
    }  # fmt: skip
    table = pd.DataFrame([row]).reindex(columns=list(EXPERIMENT_DTYPES))
    return replace(profile, experiments=table.astype(EXPERIMENT_DTYPES))


def test_experiments_on_both_sides_tell_what_a_line_costs(one_stage: Profile, three_stages: Profile) -> None:
    a, b = with_experiments(one_stage, 50), with_experiments(three_stages, 10)
    difference = profscope.diff(a, b)
    launch = difference.iloc[0]
    row = next(each for each in difference.code.to_dict("records") if each["line"] == 34)
    assert row["basis"] == "experiment"
    assert row["change"] == pytest.approx(0.1 * launch["self_b"] - 0.5 * launch["self_a"])


def test_a_line_that_is_gone_costs_what_it_took(tmp_path: Path) -> None:
    """A load of its own line, and what waits for it."""
    profiles = []
    for name, line in (("with", "tl.load(o + i) *"), ("without", "")):
        kernel = defined(tmp_path / name / "kernels.py", f"+\n            {line}\n           ")
        x = torch.ones(64)
        with session(evidence=True) as prof:
            for _ in range(2):
                kernel[(4,)](x, x.clone(), 8, BLOCK=64)
        profiles.append(prof.profile)
    difference = profscope.diff(*profiles)
    at = line_of(kernel, "tl.store") + 1
    row = next(each for each in difference.code.to_dict("records") if each["line"] == at)
    assert (row["a"], row["b"], row["basis"]) == ("load 1", "none", "samples")
    samples = profiles[0].samples.query("binary == 'bare'")
    own = samples[(samples["line"] == at) | (samples["blamed_line"] == at)]
    took = difference.iloc[0]["self_a"] * own["samples"].sum() / samples["samples"].sum()
    assert row["change"] == pytest.approx(-took)


def test_a_profile_without_texts_says_so(one_stage: Profile, three_stages: Profile) -> None:
    bare = replace(one_stage, metadata=one_stage.metadata | {"code": []})
    code = profscope.diff(bare, three_stages).code
    assert code["fact"].tolist() == ["num_stages", "shared_bytes"]
    (explained,) = code.attrs["explained"]
    assert "a profile has no TTGIR" in explained["why_not"]
    assert explained["explained"] is None


def test_a_table_made_of_it_has_no_code(one_stage: Profile, three_stages: Profile) -> None:
    difference = profscope.diff(one_stage, three_stages)
    with pytest.raises(profscope.errors.DiffError, match=r"profscope\.diff"):
        type(difference).of(difference.head(1)).code  # noqa: B018


def test_words(one_stage: Profile, three_stages: Profile) -> None:
    table = profscope.diff(one_stage, three_stages)
    (found,) = by_kernel(one_stage.tables, three_stages.tables, table)
    texts = [row_text(change) for change in found.changes]
    assert texts[0] == "num_stages: 1 -> 3"
    assert "matmul.py:34 asynchronous: no -> cp.async" in texts
    assert re.fullmatch(r"unexplained: \d+\.\d of -\d+\.\d %", share_text(found))


# Kernels with other names.


def renamed_in_file(profile: Profile, new: str) -> Profile:
    """The profile as it would be of a kernel of this name, in its tables and texts."""
    from profscope.analysis.comparing.renaming import renamed

    return Profile.of(renamed(profile.tables, {"matmul_kernel": new}))


def test_a_renamed_kernel_is_compared_with_what_it_was(one_stage: Profile, three_stages: Profile) -> None:
    other = renamed_in_file(three_stages, "product_kernel")
    with pytest.raises(profscope.errors.DiffError, match="no kernel is in both"):
        profscope.diff(one_stage, other)
    difference = profscope.diff(one_stage, other, pair={"matmul_kernel": "product_kernel"})
    assert set(difference["kernel"]) == {"product_kernel"}
    plain = profscope.diff(one_stage, three_stages)
    assert difference["change"].tolist() == plain["change"].tolist()
    assert difference["status"].tolist() == plain["status"].tolist()
    assert len(difference.code) == len(plain.code)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("matmul", "matmul_kernel", "first profile has no kernel matmul; it has add_kernel, matmul_kernel"),
        ("matmul_kernel", "product", "second profile has no kernel product; it has add_kernel, matmul"),
        ("matmul_kernel", "add_kernel", "first profile would have two kernels add_kernel"),
    ],
)
def test_a_wrong_name_is_said(old: str, new: str, said: str) -> None:
    with session() as prof:
        launch_matmul(1, launches=1)
        launch_add()
    with pytest.raises(profscope.errors.DiffError, match=said):
        profscope.diff(prof, prof, pair={old: new})
