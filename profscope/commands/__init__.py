"""The command `profscope`: a whole program inside a session, and the doors to the other commands.

This room stands above the viewer, which it shows a first screen with.
"""
