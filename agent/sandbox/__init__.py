"""Run untrusted code in a child process that answers commands, has limits and can be killed as a whole.

The child reads commands as JSON lines on its standard input and answers on a pipe of its own. Everything it
prints goes to a log of bounded size. Its answers are claims; the caller decides how far to trust them.

The isolation levels `bubblewrap` and `namespaces` give the child its own root directory (`view`) and pid
namespace. They also take away the network and run the child under a user id other than root. The level
`process` only applies limits. `PROMISES` lists the guarantees of each level, which the tests check. A keeper
(`enter/`) stays outside every sandbox, checks the limits ten times a second and ends all processes in it.

Not covered at any level:

- The Linux kernel itself: its system calls are filtered by a deny list, not an allow list.
- The GPU, its driver and its memory, which all processes share.
- Processor time and caches as channels between processes.
- Memory beyond the limit for up to a tenth of a second.

Names of system files, the Linux kernel's version and the processor description stay readable. A plain process
can read the user's files and may signal the user's processes, including the keeper.
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
