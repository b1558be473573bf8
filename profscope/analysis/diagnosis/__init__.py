"""Causes that rest on the hardware's evidence: counters, instruction counts and PC samples of bare launches."""
