"""What an experiment may change, and what it must leave alone, on TTGIR as Triton prints it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profscope.instrument_passes.ablation.groups import group_of
from profscope.instrument_passes.ablation.leave_out import why_stays
from profscope.instrument_passes.ablation.protected import Protected, why_refused
from profscope.instrument_passes.ablation.rewrite import CONTIGUOUS, OFF, RESIDENT
from profscope.instrument_passes.analyses.graph import Graph
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.passes.ablate import Ablate
from tests.support.corpus import modules as each_of
from tests.support.corpus import printed, triton_module
from tests.support.ttgir_cases import TEXTS

INPUTS = Path(__file__).parent / "inputs"
MEMORY = tuple(f"{at}:{1 << 24}" for at in range(16))


def text_of(name: str) -> str:
    folder = INPUTS if (INPUTS / f"{name}.ttgir").exists() else TEXTS
    return (folder / f"{name}.ttgir").read_text()


def why_not(name: str, op: str) -> list[str]:
    """Of the ops of a name, in order."""
    found = Graph(parse(text_of(name)))
    protected = Protected(found)
    return [protected.why_not(node) for node in found.nodes if node.name == op]


def ablated(text: str, how: str = OFF, **chosen: tuple[str, ...]) -> str:
    module = parse(text)
    memory = () if how == OFF else MEMORY
    Ablate(how=how, memory=memory, **chosen).apply(module, PassContext())
    return str(module)


def test_the_op_that_a_loops_bounds_rest_on_is_refused_by_its_line() -> None:
    """The data say how many steps there are; what each step loads may go."""
    bound, step = why_not("steps-data", "tt.load")
    assert re.fullmatch(r"a loop's bounds at line \d+ rest on it", bound)
    assert not step
    with pytest.raises(PassError, match=r"tt\.load: a loop's bounds at line \d+ rest on it"):
        ablated(text_of("steps-data"), ops=("tt.load",))


@pytest.mark.parametrize(
    ("name", "op", "reason"),
    [
        ("lookups-elements", "tt.load", "an address or a mask"),
        ("remainders-a-mask", "arith.remsi", "an address or a mask"),
        ("remainders-an-index", "arith.remsi", "an address or a mask"),
        ("tiles-asked", "tt.load", "a branch"),
    ],
)
def test_what_addresses_masks_and_branches_rest_on_stays(name: str, op: str, reason: str) -> None:
    assert any(why.startswith(reason) for why in why_not(name, op)), why_not(name, op)


def test_data_that_nothing_rests_on_may_go() -> None:
    assert why_not("remainders-data", "arith.remsi") == [""]
    assert why_not("softmax", "ttg.async_copy_global_to_local") == ["", ""]


BRANCH_ON_MEMORY = """\
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:80"} {
  tt.func public @kernel(%flag: !tt.ptr<i32>, %out: !tt.ptr<i32>) {
    %zero = arith.constant 0 : i32
    %asked = tt.load %flag : !tt.ptr<i32>
    %is_asked = arith.cmpi sgt, %asked, %zero : i32
    scf.if %is_asked {
      tt.store WHERE, %zero : !tt.ptr<i32>
    }
    tt.return
  }
}
"""


@pytest.mark.parametrize(("where", "stays"), [("%flag", True), ("%out", False)])
def test_what_is_written_and_read_again_stays(where: str, stays: bool) -> None:
    found = Graph(parse(BRANCH_ON_MEMORY.replace("WHERE", where)))
    (store,) = (node for node in found.nodes if node.name == "tt.store")
    why = Protected(found).why_not(store)
    assert why == ("what it writes is read again, and an address or a branch rests on it" if stays else "")


def test_a_kernel_that_waits_for_others_is_refused() -> None:
    assert "may wait for what tt.atomic_cas reads" in why_refused(Graph(parse(text_of("lock_sm90"))))
    with pytest.raises(PassError, match="may wait for"):
        ablated(text_of("lock_sm90"), ops=("tt.store",))
    assert not why_refused(Graph(parse(text_of("while"))))


SEARCH = """\
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:80"} {
  tt.func public @kernel(%x: !tt.ptr<i32>, %out: !tt.ptr<i32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %found = scf.while (%at = %zero) : (i32) -> i32 {
      %there = tt.addptr %x, WHERE : !tt.ptr<i32>, i32
      %own = tt.load %there : !tt.ptr<i32>
      %goes_on = arith.cmpi sgt, %own, %zero : i32
      scf.condition(%goes_on) %at : i32
    } do {
    ^bb0(%last: i32):
      %next = arith.addi %last, %one : i32
      scf.yield %next : i32
    }
    tt.store INTO, %found : !tt.ptr<i32>
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("where", "into", "waits"), [("%at", "%out", False), ("%zero", "%out", True), ("%at", "%x", True)]
)
def test_a_loop_that_searches_waits_for_nobody(where: str, into: str, waits: bool) -> None:
    """It reads another place in each step, of memory that the kernel does not write."""
    found = Graph(parse(SEARCH.replace("WHERE", where).replace("INTO", into)))
    assert bool(why_refused(found)) == waits


def test_arguments_with_the_same_memory_are_one() -> None:
    found = Graph(parse(BRANCH_ON_MEMORY.replace("WHERE", "%out")))
    (store,) = (node for node in found.nodes if node.name == "tt.store")
    assert Protected(found, {0: 0, 1: 0}).why_not(store).startswith("what it writes is read again")


def test_what_others_wait_for_is_no_branch() -> None:
    """A tensor core that does not arrive at its barrier would be waited for without end."""
    with pytest.raises(PassError, match="others wait for its end"):
        ablated(text_of("matmul_tma_sm100"), ops=("ttng.tc_gen5_mma",))


def test_neighbouring_elements_keep_their_addresses() -> None:
    with pytest.raises(PassError, match="neighbouring elements already"):
        ablated(text_of("add"), CONTIGUOUS, ops=("tt.load",))


STRIDED = """\
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:80"} {
  tt.func public @kernel(%x_ptr: !tt.ptr<f32>, %out_ptr: !tt.ptr<f32>, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %size = arith.constant 128 : i32
    %value = arith.constant dense<0.000000e+00> : tensor<128xf32, #b>
    %pid = tt.get_program_id x : i32
    %lane = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #b>
    %first = arith.muli %pid, %size : i32
    %firsts = tt.splat %first : i32 -> tensor<128xi32, #b>
    %row = arith.addi %firsts, %lane : tensor<128xi32, #b>
    %ns = tt.splat %n : i32 -> tensor<128xi32, #b>
    %begin = arith.muli %row, %ns : tensor<128xi32, #b>
    %base = tt.splat %out_ptr : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #b>
    scf.for %step = %zero to %n step %one : i32 {
      %steps = tt.splat %step : i32 -> tensor<128xi32, #b>
      %at = arith.addi %begin, %steps : tensor<128xi32, #b>
      %there = tt.addptr %base, %at : tensor<128x!tt.ptr<f32>, #b>, tensor<128xi32, #b>
      tt.store %there, %value : tensor<128x!tt.ptr<f32>, #b>
    }
    tt.return
  }
}
"""


def test_scattered_elements_become_neighbours() -> None:
    """A column of each row in each step becomes a tile, within the memory behind the argument."""
    scattered = ablated(STRIDED, CONTIGUOUS, ops=("tt.store",))
    (store,) = re.findall(r"tt\.store (%\w+),", scattered)
    tile, lanes = re.search(rf"{store} = tt\.addptr (%\w+), (%\w+) :", scattered).groups()  # type: ignore[union-attr]
    assert re.search(rf"{lanes} = tt\.make_range {{end = 128 : i32, start = 0 : i32}}", scattered)
    (first,) = re.findall(rf"{tile} = tt\.splat (%\w+) :", scattered)
    (begin,) = re.findall(rf"{first} = tt\.addptr %out_ptr, (%\w+) :", scattered)
    number, _ = re.search(rf"{begin} = arith\.muli (%\w+), (%\w+) :", scattered).groups()  # type: ignore[union-attr]
    (tiles,) = re.findall(rf"{number} = arith\.remui %\w+, (%\w+) :", scattered)
    assert re.search(rf"{tiles} = arith\.constant {(1 << 24) // 4 // 128} : i32", scattered)
    assert re.search(r"%ablate_\w+ = arith\.addi %ablate_\w+, %step : i32", scattered), "a tile for each step"
    assert re.search(r"%ablate_\w+ = tt\.get_program_id x : i32", scattered), "and for each program"


NARROW = """\
#b = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:80"} {
  tt.func public @kernel(%out_ptr: !tt.ptr<TYPE>) {
    %value = arith.constant dense<ZERO> : tensor<32x4xTYPE, #b>
    %rows = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #b}>>
    %columns = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32, #ttg.slice<{dim = 0, parent = #b}>>
    %row = tt.expand_dims %rows {axis = 1 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #b}>> -> tensor<32x1xi32, #b>
    %column = tt.expand_dims %columns {axis = 0 : i32} : tensor<4xi32, #ttg.slice<{dim = 0, parent = #b}>> -> tensor<1x4xi32, #b>
    %apart = arith.constant dense<64> : tensor<32x1xi32, #b>
    %begin = arith.muli %row, %apart : tensor<32x1xi32, #b>
    %begins = tt.broadcast %begin : tensor<32x1xi32, #b> -> tensor<32x4xi32, #b>
    %beside = tt.broadcast %column : tensor<1x4xi32, #b> -> tensor<32x4xi32, #b>
    %at = arith.addi %begins, %beside : tensor<32x4xi32, #b>
    %base = tt.splat %out_ptr : !tt.ptr<TYPE> -> tensor<32x4x!tt.ptr<TYPE>, #b>
    %there = tt.addptr %base, %at : tensor<32x4x!tt.ptr<TYPE>, #b>, tensor<32x4xi32, #b>
    tt.store %there, %value : tensor<32x4x!tt.ptr<TYPE>, #b>
    tt.return
  }
}
"""  # noqa: E501


def test_rows_narrower_than_a_sector_are_scattered() -> None:
    """Four elements of 8 bytes fill a sector; of 4 bytes they do not."""
    narrow, wide = (
        NARROW.replace("TYPE", kind).replace("ZERO", zero) for kind, zero in (("f32", "0.0"), ("i64", "0"))
    )
    assert "ablate" in ablated(narrow, CONTIGUOUS, ops=("tt.store",))
    with pytest.raises(PassError, match="neighbouring elements already"):
        ablated(wide, CONTIGUOUS, ops=("tt.store",))


def test_addresses_that_are_data_stay() -> None:
    with pytest.raises(PassError, match=r"tt\.store: its addresses are data"):
        ablated(text_of("remainders-a-loaded-address"), CONTIGUOUS, ops=("tt.store",))


def test_memory_that_is_smaller_than_a_tile_is_left_alone() -> None:
    small = Ablate(ops=("tt.store",), how=CONTIGUOUS, memory=("1:256",))
    with pytest.raises(PassError, match="smaller than a tile"):
        small.apply(parse(STRIDED), PassContext())


def test_a_loop_over_a_programs_tiles_counts_them_itself() -> None:
    """Its counter begins with the program's number, which is not added once more."""
    text = ablated(text_of("row-sums"), RESIDENT, ops=("tt.load",))
    assert "get_program_id x : i32 loc" in text
    assert not re.search(r"%ablate_\w+ = tt\.get_program_id", text)
    assert re.search(r"%ablate_\w+ = arith\.constant 8 : i32", text), "eight tiles for all programs"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "which ops"),
        ({"ops": ("tt.load",), "how": "half"}, "how=half is none of off, contiguous, resident"),
        ({"lines": ("x",)}, "'x' is not a number"),
        ({"ops": ("tt.load",), "memory": ("1",)}, "memory=1"),
    ],
)
def test_options_are_checked(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Ablate(**options)  # type: ignore[arg-type]


def test_an_op_that_is_not_there_is_said() -> None:
    with pytest.raises(PassError, match=r"no op that can be left out is ops=tt\.dot"):
        ablated(text_of("add"), ops=("tt.dot",))


@each_of(large=("attention", "sort"), third=0, on_one_target=True)
def test_triton_takes_every_experiment(name: str, target: str) -> None:
    """Each op of the corpus that an experiment leaves out, alone; and all of a kernel together."""
    text = printed(name, target)
    found = Graph(parse(text))
    if why_refused(found):
        return
    protected = Protected(found)
    free = [
        str(number)
        for number, node in enumerate(found.nodes)
        if group_of(node.op) and not protected.why_not(node) and not why_stays(node.op)
    ]
    for numbers in [(number,) for number in free] + ([tuple(free)] if free else []):
        triton_module(ablated(text, numbers=numbers), target)
