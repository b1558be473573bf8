"""Two profiles side by side: which rows are the same, and which of their changes are more than noise."""

__all__: list[str] = []
