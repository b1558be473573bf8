"""Two kernels profiled: `python -m profscope.demo trace.json`."""
