"""The documentation's tables are those of the code."""

from pathlib import Path

from profscope.emulator.opcodes import TABLE
from tests.support.opcode_docs import updated

DOCUMENT = Path(__file__).parents[2] / "docs" / "emulator.md"


def test_tables_are_up_to_date() -> None:
    text = DOCUMENT.read_text()
    assert text == updated(text), "run: python -m tests.support.opcode_docs --update docs/emulator.md"


def test_every_opcode_has_a_meaning() -> None:
    assert all(op.meaning for op in TABLE.values())
