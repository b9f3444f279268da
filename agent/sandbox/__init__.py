"""Runs code nobody vouches for in a child that can be spoken to, limited and killed as a whole.

The child gets commands as JSON lines on its standard input, answers on a pipe of its own, and everything
it prints is a log of bounded size. What it says is a claim; who asks decides what a claim is worth.

What `namespaces` gives: own user, pid, network and ipc namespaces with a fresh /proc, so the child can
neither reach the network (loopback included) nor see, trace or signal a process outside. What `process`
gives: an own process group and the limits, nothing else. Not covered by either yet: the file system is
the caller's (readable, and writable where the caller may write), memory and process counts are not
bounded, and there is no system-call filter.
"""

from agent.sandbox.channel import Child, ChildFault, Gone, Limits, OutputFlood, TimedOut
from agent.sandbox.isolation import Isolation, strongest

__all__ = ["Child", "ChildFault", "Gone", "Isolation", "Limits", "OutputFlood", "TimedOut", "strongest"]
