"""The tables of opcodes, classes and documentation are about the same opcodes."""

from pathlib import Path

from profscope.binaries.listing import CLASSES
from profscope.emulator.opcodes import TABLE
from profscope.emulator.ptx_syntax import ptx_class
from tests.support.opcode_docs import updated

DOCUMENT = Path(__file__).parents[2] / "docs" / "emulator.md"


def test_tables_are_up_to_date() -> None:
    text = DOCUMENT.read_text()
    assert text == updated(text), "run: python -m tests.support.opcode_docs --update docs/emulator.md"


def test_every_opcode_has_a_meaning() -> None:
    assert all(op.meaning for op in TABLE.values())


def test_every_opcode_has_a_class() -> None:
    assert {ptx_class(name) for name in TABLE} <= {*CLASSES, "other"}
