"""Kernels nobody here wrote: every Triton kernel of some libraries, bare and in a session, bit by bit.

python -m bench.libraries [--library NAME] [--ops REGEX] [--level light] [--jobs N] [--json FILE]
"""
