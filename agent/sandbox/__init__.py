"""Runs code nobody vouches for in a child that can be spoken to, limited and killed as a whole.

The child gets commands as JSON lines on its standard input, answers on a pipe of its own, and everything
it prints is a log of bounded size. What it says is a claim; who asks decides what a claim is worth.

`bubblewrap` and `namespaces` give it a root directory made of what it needs (`view`), no network, its own
processes and a user id that is not root's; `process` only limits it. What each level holds is data,
`PROMISES`, and is tested. Outside of every child stands a keeper (`enter/`), which watches its limits ten
times a second and ends all that it started.

Not covered, at any level: the kernel itself, whose calls are filtered by a deny list and not by an allow
list; the GPU, its driver and its memory, which all processes on it share; processor time and caches as
channels between processes; memory for up to a tenth of a second beyond its limit. The names of system
files, the kernel's version and the processor's description can be read. A plain process has the user's
files and may signal the user's processes, the keeper among them.
"""

from agent.sandbox.channel import Child, ChildFault, Gone, OutputFlood, Overrun, TimedOut, end_all
from agent.sandbox.enter.system import SETUP_FAILED
from agent.sandbox.isolation import enclosed, hide, strongest, surroundings
from agent.sandbox.levels import MEND, PROMISES, Isolation, Level, Limits
from agent.sandbox.servers import ProcessServer
from agent.sandbox.view import Box

__all__ = [
    "MEND", "PROMISES", "SETUP_FAILED", "Box", "Child", "ChildFault", "Gone", "Isolation", "Level", "Limits",
    "OutputFlood", "Overrun", "ProcessServer", "TimedOut", "enclosed", "end_all", "hide", "strongest",
    "surroundings",
]  # fmt: skip
