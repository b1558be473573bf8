"""What did the program around the kernels do? Scopes of the host's code, and what Kineto saw, as tables."""

__all__: list[str] = []
