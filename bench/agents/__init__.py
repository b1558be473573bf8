"""Slow kernels as tasks for agents, and a harness that judges what an agent made of them."""
