"""Starts one command in isolation, watches it, and ends all that it started. Standalone, trusted.

`python -I -S start.py PLAN COMMAND...` with a plan as `sandbox.enclosed` writes it. It imports nothing of
`agent` and as little else as it can (no json, no typing): a build starts it several times, and under
bubblewrap it runs inside as well.
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
