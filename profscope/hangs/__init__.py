"""Launches that do not end: the places of their warps, read while they run."""
