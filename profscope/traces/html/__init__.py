"""A profile as one HTML file: what stands in it, and how that is written safely (see docs/views.md)."""
