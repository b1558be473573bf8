"""Questions about the tables of a profile."""
