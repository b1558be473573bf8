"""Experiments on a kernel's TTGIR: an op is left out, or its addresses are replaced, and all else stays.

`passes/ablate.py` applies them; `protected` says which ops must keep what they compute; `leave_out` and
`addresses` rewrite an op.
"""

__all__: list[str] = []
