"""The machine: the state of CTAs, their memory, and the threads' way through the blocks of a kernel."""

__all__: list[str] = []
