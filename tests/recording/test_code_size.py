"""How many instructions a cubin has: as many as the disassembler finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import profscope
from profscope.recording.builds import instruction_count
from tests.support.builds import build


def test_as_many_as_the_disassembler_finds() -> None:
    kernel = build()
    opcodes = profscope.instructions(kernel)["opcode"].tolist()
    while opcodes[-1] == "NOP":
        opcodes.pop()
    assert instruction_count(kernel.asm["cubin"]) == len(opcodes)


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x01", b"\x7fELF\x02" + bytes(20), b"// PTX"])
def test_what_is_no_cubin_has_none(data: bytes) -> None:
    assert instruction_count(data) is None


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    instruction_count(b"\x7fELF\x02" + data)
