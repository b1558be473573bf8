"""The instructions of a binary: the source line of each, and the instructions that each one waits for.

`rows` is the table that users get. It reads a cubin in steps: `listing` (the text of nvdisasm, classes of
instructions, what runs after each), `operands` (what an instruction reads and writes), `waits` (whose results
it needs), `ptx` (its place in the source). `blame` charges a stall to the instruction that causes it.
`spinning` tells whether a kernel may wait for another.
"""
