"""What the hardware would say, worked out from a kernel's own counts and from experiments."""

__all__: list[str] = []
