"""Which configuration of an autotuned kernel is the best one, and why?"""

__all__: list[str] = []
