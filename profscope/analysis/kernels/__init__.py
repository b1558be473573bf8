"""One configuration of a kernel as an object: its spans, sync points, replay, work, device and roof."""
