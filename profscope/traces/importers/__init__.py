"""Traces that are read: ours, torch.profiler's, Proton's."""
