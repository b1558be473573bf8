"""Two profiles side by side: which of their rows are the same, and what of their changes is more than noise."""

__all__: list[str] = []
