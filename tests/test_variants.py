"""One kernel, several configurations: numbered in `launches`, apart in the summary, told in the metadata."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.analysis.variants import differing
from profscope.recording.builds import build_of
from tests.support.kernel_files import defined
from tests.support.sessions import session
from tests.support.validation import validate

# ruff: noqa: N803


@triton.jit
def twice(x):
    return x + x


@triton.jit
def double_kernel(out_ptr, in_ptr, n, BLOCK: tl.constexpr, FLAG: tl.constexpr = None):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(in_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, twice(x), mask=offs < n)


def double(n: int = 4096, block: int = 256, **options: Any) -> None:
    x = torch.arange(n, dtype=torch.float32)
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(n, block),)](out, x, n, BLOCK=block, **options)
    assert torch.equal(out, 2 * x)


def test_configurations_of_one_ptx_are_told_apart_in_threads() -> None:
    """n is a multiple of 16 or not: the key differs, the code does not."""
    sizes = {100: 1, 400: 2}  # CTAs of each, which tell its launches
    start = threading.Barrier(len(sizes))

    def launch(n: int) -> None:
        x, out = torch.ones(512), torch.empty(512)
        start.wait()
        for _ in range(150):
            double_kernel[(sizes[n],)](out, x, n, BLOCK=256)

    with session() as prof:
        threads = [threading.Thread(target=launch, args=(n,)) for n in sizes]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    found = prof.launches.groupby(["variant", "grid_x"]).size()
    assert list(found) == [150, 150]
    assert set(found.index.get_level_values("grid_x")) == {1, 2}


def test_launches_are_numbered_by_configuration_in_order_of_appearance() -> None:
    with session() as prof:
        for block in (256, 1024, 256, 2048):
            double(block=block)
        double(block=256, num_warps=8)
        double(block=256, n=4095)  # no longer a multiple of 16
    assert prof.launches["variant"].tolist() == [0, 1, 0, 2, 3, 4]
    variants = prof.metadata["variants"]["double_kernel"]
    assert [each["variant"] for each in variants] == [0, 1, 2, 3, 4]
    assert [each["constexprs"]["BLOCK"] for each in variants] == [256, 1024, 2048, 256, 256]
    assert [each["num_warps"] for each in variants] == [4, 4, 4, 8, 4]
    assert variants[0]["signature"]["in_ptr"] == "*fp32"
    assert variants[0]["specialisation"]["n"] == [["tt.divisibility", 16]]
    assert "n" not in variants[4]["specialisation"]
    assert len({each["key"] for each in variants}) == 5
    differs = [differing(variants, each) for each in range(5)]
    assert len({str(each) for each in differs}) == 5
    assert (differs[0]["n"], differs[4]["n"]) == ("i32:16", "i32")
    json.dumps(prof.metadata)


def test_the_summary_keeps_configurations_apart() -> None:
    with session() as prof:
        for block in (256, 1024, 1024):
            double(block=block)
    summary = prof.summary()
    kernel = summary[summary["kind"] == "kernel"].sort_values("variant")
    ctas = 16, 4 + 4
    assert kernel["variant"].tolist() == [0, 1]
    assert kernel["count"].tolist() == [4 * each for each in ctas]
    assert kernel["launches"].tolist() == [1, 2]
    loads = summary[summary["scope"].str.startswith("load")].sort_values("variant")
    assert loads["bytes_at_most"].tolist() == [4 * 4096, 2 * 4 * 4096]
    for _, of_variant in summary[summary["kind"] != "async"].groupby("variant"):
        assert of_variant["share"].sum() == pytest.approx(1)
    assert validate(prof.profile.tables) == []


def test_resources_are_those_of_the_binary() -> None:
    class Metadata:
        target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
        num_warps, num_stages, num_ctas, shared = 8, 3, 1, 64 << 10

    class Source:
        signature, constants, attrs = {0: "*fp32"}, {}, {}

    class Kernel:
        metadata, src, name, n_regs, n_spills = Metadata, Source, "k", 128, 4
        asm: ClassVar[dict[str, str]] = {}

    build = build_of(Kernel)
    # 128 registers of 256 threads: two CTAs fill 65,536; 64 KiB and one reserved: three fit in 228.
    assert build.resources() == {
        "registers": 128, "spills": 4, "shared_bytes": 64 << 10, "ctas_per_sm": 2,
        "instructions": None,
    }  # fmt: skip
    assert build_of(Kernel, warps=12).ctas_per_sm == 1
    assert build.configuration["num_stages"] == 3


def test_the_texts_of_kernel_and_helpers_travel_with_the_profile(tmp_path: Path) -> None:
    with session() as prof:
        double()
    prof.save(tmp_path / "trace.json")
    sources = {each["name"]: each for each in profscope.load(tmp_path / "trace.json").metadata["sources"]}
    assert set(sources) == {"double_kernel", "twice"}
    own = Path(__file__).read_text().splitlines()
    for each in sources.values():
        lines = each["text"].splitlines()
        assert own[each["line"] - 1 : each["line"] - 1 + len(lines)] == lines
        assert each["file"] == __file__
        assert each["sha256"] == hashlib.sha256(each["text"].encode()).hexdigest()


def test_a_kernel_that_cannot_be_described_is_recorded_and_a_note_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any) -> None:
        raise AttributeError("no module")

    monkeypatch.setattr("profscope.recording.recorded_launches.build_of", fail)
    with session() as prof:
        double(n=5000, block=512)
    assert len(prof.df) > 0
    assert prof.metadata["variants"]["double_kernel"][0]["key"] == ""
    said = "double_kernel: its configuration is not known: AttributeError: no module"
    assert said in prof.metadata["notes"]
    monkeypatch.undo()
    with session() as prof:
        double(n=5000, block=512)
    assert said not in prof.metadata["notes"]


def test_kernels_of_one_name_in_two_modules_are_two(tmp_path: Path) -> None:
    files = [tmp_path / folder / "k.py" for folder in ("one", "two")]
    x, out = torch.ones(64), torch.zeros(64)
    with session() as prof:
        for file, op in zip(files, "+*", strict=True):
            defined(file, op)[(1,)](x, out, 2, BLOCK=64)
    variants = prof.metadata["variants"]["scale_kernel"]
    assert [each["function"] for each in variants] == ["one.k.scale_kernel", "two.k.scale_kernel"]
    for variant, file in enumerate(files):
        (launch,) = prof.launches["launch"][prof.launches["variant"] == variant]
        assert set(prof.df["file"][prof.df["launch"] == launch]) == {str(file)}
    assert [each["source"]["file"] for each in prof.report()["kernels"]] == [str(file) for file in files]
    json.dumps(prof.metadata, allow_nan=False)


@triton.constexpr_function
def half(n):
    return n // 2


@triton.jit
def half_kernel(out_ptr, BLOCK: tl.constexpr):
    half_block: tl.constexpr = half(BLOCK)
    tl.store(out_ptr + tl.arange(0, half_block), tl.full([half_block], 1.0, tl.float32))


def test_functions_that_run_when_a_kernel_is_compiled_are_among_the_texts() -> None:
    out = torch.zeros(64)
    with session() as prof:
        half_kernel[(1,)](out, BLOCK=64)
    assert int(out.sum()) == 32
    assert [text["name"] for text in prof.metadata["sources"]] == ["half_kernel", "half"]
