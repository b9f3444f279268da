"""Children that are to be interrupted, whatever this process inherited.

A shell starts what runs in its background with SIGINT ignored, nohup and some CI systems do as well, and a
program keeps to that: Python then has no KeyboardInterrupt. Tests of Ctrl-C give their children a foreground.
"""

import signal

PATIENCE_S = 200.0
"""For what comes within moments on any machine that is not overloaded, and has to come at all."""


def interruptible() -> None:
    """Between fork and exec (`preexec_fn`): SIGINT does what it does in the foreground of a shell."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
