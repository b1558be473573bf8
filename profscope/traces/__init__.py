"""Files that hold a profile."""
