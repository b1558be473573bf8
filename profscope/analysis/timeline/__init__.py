"""Questions about when spans run, and what runs at once: `prof.timeline.overlap()`."""
