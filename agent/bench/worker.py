"""Process of a bench that makes runs one after the other and keeps its servers warm.

Started as `python -m agent.bench.worker`. Each message is one JSON object per line: an `Order` in, then any
number of `News` and one final `Done` out. The process ends when its input ends, even during a run. That run
is then interrupted and can be resumed.
"""

import sys
from pathlib import Path
from typing import TextIO

from agent import config, sandbox
from agent.api import solving
from agent.api.checks import Checks
from agent.api.choices import Choices
from agent.api.listening import Listener
from agent.bench.faults import FaultEnding
from agent.bench.process import main_process, write
from agent.errors import (
    AgentError,
    EndpointError,
    EnvironmentFault,
    Interrupted,
    NothingOffered,
    UsageError,
)
from agent.records import Record


class Order(Record):
    """Order to a process of a bench: begin or resume a run."""

    label: str
    address: str
    runs_dir: Path
    resume: Path | None = None
    flags: dict[str, object] = {}
    checks: Checks = Checks()
    choices: Choices = Choices()


class News(Record):
    """Progress message on an order, with the label of its task."""

    label: str
    text: str


class Done(Record):
    """End of an order; its results are in the run."""

    label: str
    fault: str = ""
    """Reason why the run ended without an outcome of its own; empty if it has one."""
    ending: FaultEnding = "failed"
    fatal: bool = False
    """True if the endpoint failed permanently, which would affect the next run too."""


class _Telling(Listener):
    def __init__(self, label: str, out: TextIO) -> None:
        self._label, self._out, self._last = label, out, ""

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self._tell(text)

    def say(self, text: str) -> None:
        self._tell(text)

    def warn(self, text: str) -> None:
        self._tell(f"warning: {text}")

    def _tell(self, text: str) -> None:
        if text != self._last:
            self._last = text
            write(self._out, News(label=self._label, text=text))


def carried(order: Order, out: TextIO) -> Done:
    """Carry out one order. Raises only Interrupted."""
    told = _Telling(order.label, out)
    try:
        if order.resume is not None:
            solving.resume(
                str(order.resume), flags={"runs_dir": order.runs_dir} | order.flags, checks=order.checks,
                choices=order.choices, progress=told,
            )  # fmt: skip
        else:
            settings = config.load({"runs_dir": order.runs_dir} | order.flags).settings
            solving.begin(order.address, settings, order.checks, order.choices, told)
    except Interrupted:
        raise
    except UsageError as error:
        return Done(label=order.label, fault=str(error), ending="refused")
    except NothingOffered as error:
        return Done(label=order.label, fault=str(error), ending="unsolved")
    except (EnvironmentFault, EndpointError) as error:
        return Done(label=order.label, fault=str(error), fatal=isinstance(error, EndpointError))
    except AgentError as error:
        return Done(label=order.label, fault=str(error))
    except Exception as error:  # noqa: BLE001 - a defect of ours ends one run, and not the bench
        return Done(label=order.label, fault=f"{type(error).__name__}: {error} (a bug in kernelwright)")
    return Done(label=order.label)


def main() -> int:
    sandbox.hide()

    def act(line: str, out: TextIO) -> None:
        write(out, carried(Order.model_validate_json(line), out))

    return main_process(act)


if __name__ == "__main__":
    sys.exit(main())
