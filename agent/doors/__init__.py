"""Doors to the judge for coding agents, training and other programs.

Each door is a package beside the viewer, on top of the API. Input from clients is treated as hostile, and the
packages that a door needs are imported only inside it.
"""
