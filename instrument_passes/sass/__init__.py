"""What a cubin is made of: its instructions, where they come from, and which of them each one waits for.

`rows` reads a binary; the other modules are its steps: `listing` (the text of nvdisasm), `control`
(scoreboards), `operands` (what an instruction reads and writes), `flow` (what runs after it), `waits` (whose
results it needs), `ptx` (its place in the source), `ops` (the op of TTGIR), `classes` (what kind of
instruction it is).
"""

__all__: list[str] = []
