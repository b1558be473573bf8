"""Which instructions a binary is made of, where each comes from, and which of them each one waits for.

`rows` reads a cubin, in steps: `listing` (the text of nvdisasm, classes of instructions), `operands` (what an
instruction reads and writes), `flow` (what runs after it), `waits` and `asynchronous` (whose results it
needs), `ptx` (its place in the source). `mapping` is the table that users get; `blame` charges a stall to
the instruction that causes it.
"""
