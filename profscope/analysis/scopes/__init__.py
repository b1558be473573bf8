"""Sums of spans, as tables and trees of scopes, and by other keys."""
