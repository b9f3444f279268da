"""Main loop of a process that receives orders, one JSON object per line, until its input ends."""

import _thread
import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TextIO

from agent.errors import Interrupted
from agent.records import Record


def write(out: TextIO, message: Record) -> None:
    out.write(message.model_dump_json() + "\n")
    out.flush()


def messages_out() -> TextIO:
    """Return a stream for messages on stdout, and redirect all other output to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def carry_out(orders_in: TextIO, act: Callable[[str], None]) -> int:
    """Carry out the order in each line; return the process's exit status.

    The end of the input also ends an order in progress, by a KeyboardInterrupt in the main thread.
    """
    orders: SimpleQueue[str | None] = SimpleQueue()
    busy = threading.Event()

    def listen() -> None:
        for line in orders_in:
            orders.put(line)
        orders.put(None)
        if busy.is_set():
            _thread.interrupt_main()

    threading.Thread(target=listen, daemon=True).start()
    try:
        while (line := orders.get()) is not None:
            busy.set()
            act(line)
            busy.clear()
    except (Interrupted, KeyboardInterrupt, BrokenPipeError):
        return Interrupted.exit_code
    return 0


def main_process(act: Callable[[str, TextIO], None]) -> int:
    """Run `carry_out` on this process's own input, and pass `act` the stream for messages."""
    out = messages_out()
    return carry_out(sys.stdin, lambda line: act(line, out))
