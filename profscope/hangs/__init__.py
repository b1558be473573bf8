"""Launches that do not end: where their warps stand, read while they run."""
