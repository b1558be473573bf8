"""Which instructions a binary is made of, where each comes from, and which of them each one waits for.

`rows` is the table that users get. It reads a cubin in steps: `listing` (the text of nvdisasm, classes of
instructions, what runs after each), `operands` (what an instruction reads and writes), `waits` (whose results
it needs), `ptx` (its place in the source). `blame` charges a stall to the instruction that causes it.
`spinning` tells whether a kernel may wait for another.
"""
