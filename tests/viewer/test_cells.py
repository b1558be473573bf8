"""Text wrapped in terminal cells, and columns that give way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from profscope.viewer.grid import Column, fit_middle, grid, heading, wrap


def test_lines_end_between_parts() -> None:
    assert wrap(["a 1", "b 22", "c"], 11, ", ") == ["a 1, b 22,", "c"]
    assert wrap(["a 1", "b 22", "c"], 9, ", ") == ["a 1,", "b 22, c"]
    assert wrap(["name 1", "name 2"], 20, "  ") == ["name 1  name 2"]
    assert wrap(["abcdefg"], 3) == ["abc", "def", "g"]
    assert wrap([], 3) == []


@given(
    st.lists(st.text(alphabet="ab 中é", max_size=12), max_size=6),
    st.integers(2, 20),
    st.sampled_from([" ", ", ", "  "]),
)
def test_wrapped_lines_fit_and_lose_nothing(parts: list[str], width: int, separator: str) -> None:
    lines = wrap(parts, width, separator)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(separator.join(parts).split())


COLUMNS = [Column("name", "name"), Column("a", spare=2), Column("b"), Column("c", spare=1)]
ROW = ["kernel_of_a_long_name", "1234", "5678", "9012"]


def drawn(width: int) -> list[str]:
    return [line.plain for line in grid(COLUMNS, [ROW], [""], width)]


def test_columns_are_left_out_before_names_are_cut_short() -> None:
    assert drawn(60)[1] == "kernel_of_a_long_name  1234  5678  9012"
    assert drawn(39)[1] == "kernel_of_a_long_name  1234  5678  9012"
    assert drawn(38)[1] == "kernel_of_a_long_name 1234 5678 9012"
    assert drawn(34)[1] == "kernel_of_a_long_n… 1234 5678 9012"
    assert drawn(30)[1] == "kernel_of_a_long_na… 5678 9012"
    assert drawn(22)[1] == "kernel_of_a_long… 5678"
    assert drawn(16)[1] == "kernel_of_… 5678"
    assert [len(line.split()) for line in drawn(22)] == [2, 2], "the head as the rows"


def test_a_heading_goes_on_below_where_the_line_is_short() -> None:
    parts = ["1 launch", "16 CTAs", "3.5us of warp time"]
    assert [line.plain for line in heading("k", parts, 50)] == ["k  1 launch, 16 CTAs, 3.5us of warp time"]
    short = [line.plain for line in heading("k", parts, 24)]
    assert short == ["k", "  1 launch, 16 CTAs,", "  3.5us of warp time"]
    assert [line.plain for line in heading("k" * 50, ["x"], 20)] == ["k" * 19 + "…", "  x"]


def test_kernels_that_begin_alike_look_different() -> None:
    """As those of torch.compile do."""
    names = [f"triton_per_fused_add_native_layer_norm_{number}" for number in range(12)]
    columns = [Column("kernel", "kernel"), Column("line")]
    lines = grid(columns, [[name, "7"] for name in names], [""] * 12, 30)
    assert len({line.plain for line in lines}) == 13
    assert lines[2].plain == "triton_per_f…layer_norm_1    7"
    assert grid(columns, [[names[3], "7"]], [""], 30)[1].plain == "triton_per_fused_add_nat…    7"
    wide = fit_middle("矩阵乘法矩阵乘法kernel_1", 11)
    assert wide.endswith("el_1")
    assert cell_len(wide) <= 11
