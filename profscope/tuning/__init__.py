"""The diagnosis of one kernel: its time, its findings, and what other launch options would save."""

__all__: list[str] = []
