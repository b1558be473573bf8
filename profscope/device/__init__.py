"""Where do records go, and how do they reach the host: memory, graphs and clocks of a device?"""
