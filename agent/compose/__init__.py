"""Compose fused CUDA kernels for a reference from the operators that it calls.

Contract: `compose` returns a complete file with `ModelNew`, or raises Declined with the one reason. Matrix
products and dense convolutions stay torch's or call a shipped kernel. The operators between them are fused
into kernels. A composed file is not trusted: it is judged like any other answer. The reference is traced at
several sizes, so that the file takes its sizes from tensors. Only the child process imports torch.
"""

from collections.abc import Mapping, Sequence

from agent import problems
from agent.compose.declined import Declined
from agent.problems import child
from agent.records import Problem

__all__ = ["Declined", "compose", "composed_with"]

_TIME_LIMIT_S = 120
"""Seconds for the composing child. Tracing a reference of thousands of calls takes a minute."""


def compose(problem: Problem, arch: str | None = None, own_products: bool = False) -> str:
    """Return the file that answers the problem.

    `arch` (`90a`): GPU architecture whose shipped products the file may call. `own_products`: leave no
    product to torch, on any GPU. A reference that consists of products alone is composed that way in any
    case.

    Raises Declined. Raises ProblemError or EnvironmentFault if the tracing child fails.
    """
    return composed_with(problem, arch, own_products, [{}])[0]


def composed_with(
    problem: Problem, arch: str | None, own_products: bool, changes: Sequence[Mapping[str, int]]
) -> list[str]:
    """Return one file for each change of the kernels' schedules (`Schedule.changed`).

    Raises as `compose` does.
    """
    copy = problems.shrink(problem, max_elements=problems.MAX_ELEMENTS)
    job = {
        "sources": list(dict.fromkeys([problem.source, copy.source])), "name": problem.name, "arch": arch,
        "own_products": own_products, "changes": list(changes),
    }  # fmt: skip
    result = child.run(job, problem.name, _TIME_LIMIT_S, "agent.compose.composing")
    if "declined" in result:
        raise Declined(result["declined"])
    return [str(source) for source in result["sources"]]
