"""From a parsed kernel to Python functions, one a basic block."""

__all__: list[str] = []
