"""What the hardware says of a bare launch: counters of the whole kernel and counts of each instruction."""
