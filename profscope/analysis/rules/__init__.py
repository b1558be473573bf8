"""Rules: what holds a kernel back, each from named evidence."""
