"""Two profiles side by side: equal rows are matched, and changes tested against noise."""

__all__: list[str] = []
