"""What every view shows of a profile, worked out once: plain data, which `report()` returns."""
