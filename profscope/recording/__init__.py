"""Where do a launch's records go, and how do they reach the host?"""
