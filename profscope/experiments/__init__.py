"""Experiments: what each line of a kernel costs, measured by leaving it out."""

__all__: list[str] = []
