"""The judge for others: coding agents, training, other programs. Each door is a room beside the viewer, over
the API; what a client says is hostile, and the packages that a door needs are imported inside it alone.
"""
