"""Rules that find what slows a kernel, each from named evidence."""
