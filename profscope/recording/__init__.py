"""Recording of launches: buffers, builds, and diagnostics."""
