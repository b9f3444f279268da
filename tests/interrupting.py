"""Setup for child processes that tests interrupt.

Shells start background jobs with SIGINT ignored, as do nohup and some CI systems. Children inherit this, and
Python then raises no KeyboardInterrupt. Tests of Ctrl-C therefore restore the default in their children.
"""

import signal

PATIENCE_S = 200.0
"""Seconds to wait for an event that takes moments unless the machine is overloaded."""


def interruptible() -> None:
    """Restore and unblock SIGINT between fork and exec; used as `preexec_fn`."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
