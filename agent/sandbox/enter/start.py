"""Start one command in isolation, watch it, and end everything it started. Standalone and trusted.

Called as `python -I -S start.py PLAN COMMAND...` with a plan written by `sandbox.enclosed`. It imports
nothing of `agent` and as little else as possible (no json, no typing). A build starts it several times, and
under bubblewrap it also runs inside the sandbox.
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
