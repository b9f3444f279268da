"""A process that is told what to do, one JSON object a line, until its input ends."""

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
    """Where messages go; whatever else prints goes to stderr, and is not taken for one."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def carry_out(orders_in: TextIO, act: Callable[[str], None]) -> int:
    """Does what each line says; the process's exit status.

    The input's end ends it also in the middle of an order, by a KeyboardInterrupt in the main thread.
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
    """`carry_out` of this process's own input; `act` is given where messages go as well."""
    out = messages_out()
    return carry_out(sys.stdin, lambda line: act(line, out))
