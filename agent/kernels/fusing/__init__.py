"""Fusion of a user's model: finds operations that one call of a shipped kernel computes, called a pair here.

`fuse` traces each module's forward separately, with its children as leaves, so that a module which does not
trace affects no other. For a pair that spans two forwards, the children's graphs are inlined into the graph
of their parent (`joining`). A pair is replaced under two conditions on the example inputs. The module's trace
gives what its forward gives, and the fused call is as accurate as the pair, in value and gradients. A fused
module keeps its own forward, which runs whenever a call differs from the traced one (`plans`).
"""
