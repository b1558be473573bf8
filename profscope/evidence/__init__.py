"""Hardware evidence of bare launches: counters of the whole kernel and counts of each instruction."""
