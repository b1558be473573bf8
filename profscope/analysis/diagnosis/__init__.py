"""Causes that rest on the hardware's evidence: counters, counts and PC samples of bare launches."""
