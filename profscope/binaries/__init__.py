"""Binaries: which instructions is this kernel made of, and which of them does a stall belong to?"""

__all__: list[str] = []
