"""What each op is to a profiler, one file a family of dialects. `instrument_passes.opclasses` is the face."""
