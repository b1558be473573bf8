"""The names that the command line offers; nothing is imported."""

__all__ = ["BY", "FIRST", "FORMATS", "SECTIONS", "SORTS"]

SECTIONS = ("findings", "kernels", "lines", "scopes", "tree", "numbers", "timeline")
"""What --show shows, one or several."""

FIRST = ("findings", "kernels", "lines", "tree", "numbers", "timeline")
"""What the first screen has of it, in this order."""

BY = ("kernel", "variant", "launch", "rank", "sm", "cta", "warp", "line", "scope", "kind")
SORTS = ("self", "total", "count", "mean", "max", "share", "name")
FORMATS = ("table", "json", "csv", "md", "collapsed")
