"""What a notebook shows of a profile: a summary where a cell ends with it, and the report below a cell."""
