"""Questions about the times and overlap of spans: `prof.timeline.overlap()`."""
