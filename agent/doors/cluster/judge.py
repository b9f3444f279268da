"""One judge's process: `python -m agent.doors.cluster.judge`, one candidate at a time.

It reads a `Plan`, then any number of `Order`s. It writes a `Hello`, then an `Answer` to each order.
"""

import sys
from typing import TextIO

from agent import __version__, config, sandbox
from agent.api.judge import present_architecture, require_isolation
from agent.api.listening import Listener
from agent.api.service import About
from agent.bench.process import main_process, write
from agent.doors.cluster.messages import Hello, Order, Plan
from agent.doors.service.ledger import Job
from agent.doors.service.work import Here, answered
from agent.errors import AgentError, EnvironmentFault, Interrupted
from agent.executors import choose, gpu_name, warm
from agent.harness.judge import verifier

FOLDER = "cluster"
"""Name of the folder, inside the cache folder, for references that came with orders."""


class _Quiet(Listener):
    def warn(self, text: str) -> None:
        """Ignore the warning: the verdict's scope says it too."""


def prepared(plan: Plan) -> tuple[Here, Hello]:
    """Prepare to judge. Raises AgentError if the isolation or the GPU is missing, or the GPU is unfit."""
    flags = plan.flags | {"executor": plan.executor, "sandbox": "require"}
    settings = config.load(flags, offline=True).settings
    require_isolation(settings, Listener())
    executor = choose(plan.executor)
    unfit = warm.found(executor, settings.cache_dir).unfit if executor == "cuda" else {}
    if unfit:
        raise EnvironmentFault("; ".join(unfit.values()))
    gpu = gpu_name() if executor == "cuda" else None
    about = About(
        version=__version__, executor=executor, gpu=gpu, isolation=sandbox.strongest().name,
        architecture=present_architecture() if gpu else None,
    )  # fmt: skip
    here = Here(settings, settings.cache_dir / FOLDER, f"{executor} {gpu}", trusts=True)
    return here, Hello(about=about, verifier=verifier.version())


def main() -> int:
    sandbox.hide()
    found: list[Here] = []

    def act(line: str, out: TextIO) -> None:
        if found:
            order = Order.model_validate_json(line)
            write(out, answered(found[0], Job(order.name, order.asked), _Quiet()))
            return
        try:
            here, hello = prepared(Plan.model_validate_json(line))
        except (AgentError, OSError) as error:
            write(out, Hello(unfit=str(error) or type(error).__name__))
            raise Interrupted from None
        found.append(here)
        write(out, hello)

    return main_process(act)


if __name__ == "__main__":
    sys.exit(main())
