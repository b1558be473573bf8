"""What each op is to a profiler, one file a family of dialects; read by `analyses/opclasses.py`."""
