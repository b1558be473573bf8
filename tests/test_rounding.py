"""Instrumentation would change which product is fused into a sum. It is put back; where it cannot be, the
place is named, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import profscope
from profscope.instrument_passes import llvm_ir
from profscope.instrument_passes.contractions import contractions_of, unlike_text
from profscope.instrument_passes.llvm_ir import as_bare, is_ambiguous
from profscope.options import Options
from tests.kernels import aot, contraction
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA80, CUDA90, Spec
from tests.support.builds import recording_builds
from tests.support.kernel_files import line_of
from tests.support.quick import quick
from tests.support.sessions import session

LINE = line_of(contraction.contraction_kernel, "forget * c + gain")
UNLIKE = f"the sum at contraction.py:{LINE} fuses another product than in the bare kernel"
SAID = f"contraction_kernel: results may round differently than without a session: {UNLIKE}"


@pytest.fixture
def left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if additions could not be put back."""
    monkeypatch.setattr(llvm_ir, "as_bare", lambda text, bare: text)


def both(spec: Spec, target: str) -> tuple[str, str]:
    """The PTX of a kernel, bare and with all that "heavy" records."""
    bare = aot.lowered(spec, target, "ptx")[0]["ptx"]
    with recording_builds(Options(instrument="heavy")):
        return bare, aot.lowered(spec, target, "ptx")[0]["ptx"]


def launch(warps: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    c, k, v = torch.randn(3, 4096, generator=generator)
    out = torch.empty_like(c)
    contraction.contraction_kernel[(128,)](c, k, v, out, 0.7, 1.3, BLOCK=32, num_warps=warps)
    return out


def module(flips: list[bool], records: list[int], *, alike: bool = False) -> str:
    """LLVM IR that adds up `c * x + d * y` of loads, the operands of some additions flipped.

    records: before each, so many clock reads, which shift the numbers of all values. alike: all loads are
    spelled the same, and products are of loads alone.
    """
    lines, number = ["define ptx_kernel void @k(float %0, float %1) {"], 1

    def add(what: str) -> str:
        nonlocal number
        number += 1
        lines.append(f"  %{number} = {what}, !dbg !{number}")
        return f"%{number}"

    for at, flipped in enumerate(flips):
        for _ in range(records[at]):
            add('tail call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"() #2')
        text = "ld.global.b32" if alike else f"ld.global.b32 {at % 3}"
        x, y = (add(f'tail call float asm sideeffect "{text}", "=r,l"(ptr %9) #2') for _ in "xy")
        a, b = add(f"fmul float {x}, {x if alike else '%0'}"), add(f"fmul float {'%1'}, {y}")
        add(f"fadd float {b}, {a}" if flipped else f"fadd float {a}, {b}")
    return "\n".join([*lines, "  ret void", "}", ""])


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), max_size=6), st.booleans())
def test_additions_are_put_back(sums: list[tuple[bool, bool, int]], alike: bool) -> None:
    there, here, records = ([each[at] for each in sums] for at in range(3))
    bare = module(there, [0] * len(sums), alike=alike)
    assert as_bare(module(here, records, alike=alike), bare) == module(there, records, alike=alike)
    assert is_ambiguous(bare) == bool(sums)


def test_what_has_no_counterpart_stays() -> None:
    bare, text = module([False, False], [0, 0]), module([True], [1]).replace("fmul float %1", "fmul float %0")
    assert as_bare(text, bare) == text
    assert as_bare(text, "") == text
    sums_of_one = "define void @k(float %0) {\n  %1 = fmul float %0, %0\n  %2 = fadd float %1, %0\n}\n"
    assert not is_ambiguous(sums_of_one)


@pytest.mark.parametrize("target", [CUDA80, CUDA90])
def test_the_same_product_is_fused(target: str) -> None:
    bare, instrumented = both(contraction.spec(), target)
    assert "%clock" in instrumented
    assert contractions_of(bare).sums == contractions_of(instrumented).sums != {}


def test_results_are_the_same_bits() -> None:
    """`left_alone` shows that it would not be so."""
    with session(instrument="heavy", every=2) as prof:
        recorded, bare = launch(), launch()
    assert torch.equal(recorded, bare)
    assert len(prof.launches) == 1


@pytest.mark.usefixtures("left_alone")
def test_other_products_of_as_many_instructions_are_noticed() -> None:
    bare, instrumented = both(contraction.spec(), CUDA80)
    assert [text.count("fma.rn.f32") for text in (bare, instrumented)] == [1, 1]
    first, second = map(contractions_of, (bare, instrumented))
    assert second.unlike(first) == first.unlike(second) == [f"contraction.py:{LINE}"]
    assert first.unlike(first) == []


@pytest.mark.parametrize(
    "name",
    quick(
        ("softmax", "layer_norm", "attention", "noinline"),
        ("layer_norm", "noinline"),
    ),
)
def test_kernels_that_round_alike_are_not_accused(name: str) -> None:
    """The clones of functions, the arguments they are handed and code that is unrolled otherwise included."""
    spec = next(spec for spec in specs() if spec.name == name)
    bare, instrumented = map(contractions_of, both(spec, CUDA90))
    assert instrumented.unlike(bare) == []
    if name in ("layer_norm", "attention"):
        assert bare.sums.keys() & instrumented.sums.keys()


@pytest.mark.usefixtures("left_alone")
def test_sessions_say_so_where_they_know_the_bare_binary(tmp_path: Path) -> None:
    # No other test asks for this buffer, and so for this binary.
    with session(instrument="heavy", every=2, kernels="|77", spool=tmp_path) as prof:
        recorded, bare = launch(), launch()
    assert not torch.equal(recorded, bare)  # it is so, on the emulator as on a GPU
    torch.testing.assert_close(recorded, bare)
    assert SAID in prof.metadata["notes"]
    assert prof.spool is not None
    for profile in (prof.profile, profscope.load(prof.spool)):
        (variant,) = profile.metadata["variants"]["contraction_kernel"]
        rounds = {build["build"]: build.get("rounds_as_bare") for build in variant["builds"]}
        assert rounds == {"bare": None, "instrumented": False}
        assert variant["builds"][-1]["fused_otherwise"] == [f"contraction.py:{LINE}"]
        assert SAID in profile.metadata["notes"]
        (judged,) = profile.verdict.values()
        assert f"{UNLIKE}: compare the outputs" in [each.text for each in judged.reasons]


def test_other_branches_are_no_other_rounding() -> None:
    """The bare build has a mean of its own for no columns at all."""
    x, outs = torch.randn(512), torch.empty(2, 512)
    with session(every=2) as prof:
        for out in outs:
            contraction.normalised_kernel[(1,)](x, out, 512, BLOCK=64)
    assert torch.equal(*outs)
    (variant,) = prof.metadata["variants"]["normalised_kernel"]
    assert variant["builds"][-1]["rounds_as_bare"] is True


def test_a_copy_of_a_file_rounds_as_the_file_does(tmp_path: Path) -> None:
    """Triton has one bare binary of both, which names the lines of the first."""
    x, outs = torch.randn(512), torch.empty(4, 512)
    kernels = []
    for name in ("mykernels", "mykernels_v1"):
        path = tmp_path / f"{name}.py"
        path.write_text(Path(contraction.__file__).read_text())
        module: dict[str, Any] = {"__name__": name}
        exec(compile(path.read_text(), path, "exec"), module)
        kernels.append(module["normalised_kernel"])
    with session(every=2) as prof:
        for out, kernel in zip(outs, [*kernels, *kernels], strict=True):
            kernel[(1,)](x, out, 512, BLOCK=64)
    assert torch.equal(outs[0], outs[2])
    assert torch.equal(outs[1], outs[3])
    variants = prof.metadata["variants"]["normalised_kernel"]
    assert [each["function"].partition(".")[0] for each in variants] == ["mykernels", "mykernels_v1"]
    assert [each["builds"][-1]["rounds_as_bare"] for each in variants] == [True, True]
    assert not [note for note in prof.metadata["notes"] if "round" in note]


def test_places_are_named_in_one_sentence() -> None:
    two, four = ([f"k.py:{line}" for line in range(1, last)] for last in (3, 5))
    assert unlike_text(two) == "the sums at k.py:1 and k.py:2 fuse other products than in the bare kernel"
    assert "k.py:1, k.py:2, k.py:3 and 1 more fuse" in unlike_text(four)


# Two products of elements of one load, and of two scalars: which of them is fused is told by the element.
_PAIR = """.visible .entry k(
    .param .u64 k_param_0,
    ld.param.b64 {address}, [k_param_0];
    ld.param.b32 %r20, [k_param_1];
    mov.u32 %r1, %tid.x;
    {index}
    mul.wide.s32 %rd2, %r3, 16;
    add.s64 %rd3, {address}, %rd2;
    .loc {file} 5 16
    ld.global.v2.b32 {{ %r4, %r5 }}, [ %rd3 + 0 ];
    .loc {file} 7 3
    {sum}
    ret;
"""
_PLAIN = {"address": "%rd1", "index": "or.b32 %r3, %r1, 64;", "file": "1"}
_FIRST = "mul.f32 %r6, %r5, %r20; \n fma.rn.f32 %r7, %r4, %r20, %r6;"
_SECOND = "mul.f32 %r6, %r4, %r20; \n fma.rn.f32 %r7, %r5, %r20, %r6;"
_SWAPPED = "mul.f32 %r8, %r20, %r5; \n mov.b32 %r9, %r8; \n fma.rn.f32 %r7, %r20, %r4, %r9;"
_APART = "mul.f32 %r6, %r5, %r20; \n mul.f32 %r7, %r4, %r20; \n add.f32 %r8, %r7, %r6;"
_PEELED = f"{_FIRST} \n mul.f32 %r10, %r5, %r5; \n fma.rn.f32 %r11, %r4, %r4, %r10;"


def pair(text: str, **other: str) -> str:
    return _PAIR.format(**_PLAIN | other, sum=text)


@pytest.mark.parametrize(
    "same",
    [
        pair(_SWAPPED),  # commuted, and behind a copy
        pair(_FIRST, index="add.s32 %r3, %r1, 64;", address="%rd9"),  # integer code and registers
        pair(_FIRST, file="2"),
        pair(_PEELED),  # a sum that the other build does not have
        pair(_FIRST) + "$L__BB0_1:\n" + _FIRST.replace("%r6", "%r16").replace("%r7", "%r17"),  # twice
    ],
)
def test_what_rounds_alike_is_alike(same: str) -> None:
    bare = contractions_of(pair(_FIRST))
    assert contractions_of(same).unlike(bare) == bare.unlike(contractions_of(same)) == []


@pytest.mark.parametrize("text", [_SECOND, _APART])
def test_another_product_or_none_in_a_sum_is_found(text: str) -> None:
    named = f'.file 1 "/src/k.py"\n{pair(text)}'
    assert contractions_of(named).unlike(contractions_of(pair(_FIRST))) == ["k.py:7"]


_ADDED_UP = """.visible .entry k(
    mov.b32 {total}, 0;
    mov.b32 %r1, 0;
    mov.u32 %r2, %r1;
    @%p1 ld.global.b32 {{ %r2 }}, [ %rd1 + 0 ];
$L__BB0_1:
    .loc 1 7 3                     // k.py:7:3
    ld.global.b32 {{ %r3 }}, [ %rd2 + 0 ];
    mul.f32 %r4, {factor}, %r3;
    add.f32 {total}, {total}, %r4;
    @%p2 bra $L__BB0_1;
    ret;
"""


def test_a_register_that_has_several_values_is_told_apart_at_each() -> None:
    own, shared = (contractions_of(_ADDED_UP.format(total=total, factor="%r2")) for total in ("%r9", "%r1"))
    assert own.sums == shared.sums != {}
    assert own.sums != contractions_of(_ADDED_UP.format(total="%r9", factor="%r9")).sums


_SKIPPED = """.visible .entry k(
    ld.param.b32 %r1, [k_param_0];
    ld.param.b32 %r2, [k_param_1];
    mov.b32 %r9, {first};
    @%p1 bra $L__BB0_2;
    ld.global.b32 {{ %r3 }}, [ %rd2 + 0 ];
    mov.b32 %r9, %r3;
$L__BB0_2:
    mul.f32 %r4, %r9, %r9;
    add.f32 %r5, %r4, %r3;
    ret;
"""


def test_a_branch_takes_along_what_a_register_has_there() -> None:
    """Though the way that does not branch writes to the register again."""
    first, second = (contractions_of(_SKIPPED.format(first=name)) for name in ("%r1", "%r2"))
    assert len(first.sums) == len(second.sums) == 1
    assert first.sums != second.sums
