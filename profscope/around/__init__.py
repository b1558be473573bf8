"""The program around the kernels: scopes of the host's code, and Kineto's events, as tables."""

__all__: list[str] = []
