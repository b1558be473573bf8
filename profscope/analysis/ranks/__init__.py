"""Questions about the ranks of a job: `prof.ranks.skew()`."""
