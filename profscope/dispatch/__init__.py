"""Which binary runs a launch: the user's own, or the one with records."""
