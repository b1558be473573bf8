"""Access to private parts of Triton and torch, all in this folder."""
