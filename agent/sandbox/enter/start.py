"""Program that starts a command in isolation, watches it, and ends all its processes.

It is called as `python -I -S start.py PLAN COMMAND...` with a plan written by `sandbox.enclosed`. The program
is standalone and trusted. To start fast, it imports few modules (no json, no typing), as a build starts it
several times. Under bubblewrap it also runs inside the sandbox.
"""

import marshal
import os
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
import keeper  # type: ignore[import-not-found]  # noqa: E402 - beside this file

plan = marshal.loads(bytes.fromhex(sys.argv[1]))
if plan["keeper"]:
    sys.exit(keeper.keep(plan, sys.argv[2:]))
keeper.enter(plan, sys.argv[2:], os.dup(2))
