"""Pairs of operations in a user's model that one call of a shipped kernel computes: found, checked, swapped.

`fuse` traces each module's forward by itself, with its children as leaves, so that what does not trace stays
alone; where a pair stands in two forwards, the graphs of the children are written into their holder's
(`joining`). A pair is swapped when, on the example inputs, the module's trace gave what its forward gives and
the fused call was as right as the pair, in value and gradients. A fused module keeps its own forward, which
runs whenever a call is not the one that was traced (`plans`).
"""
