"""Counts by the kernel itself, which need no permission: its PTX with code that counts what it executes."""

__all__: list[str] = []
