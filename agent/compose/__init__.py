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

SMALL = 1 << 16
"""Limit on elements for the smallest copy of the reference."""
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
    copies = _at_other_sizes(problem)
    sources = list(dict.fromkeys([problem.source, *(copy.source for copy in copies)]))
    job = {
        "sources": sources, "sizes": list(copies[-1].changed), "name": problem.name, "arch": arch,
        "own_products": own_products, "changes": list(changes),
    }  # fmt: skip
    result = child.run(job, problem.name, _TIME_LIMIT_S, "agent.compose.composing")
    if "declined" in result:
        raise Declined(result["declined"])
    return [str(source) for source in result["sources"]]


def _at_other_sizes(problem: Problem) -> list[problems.Shrunken]:
    """Return copies of the reference at the emulator's sizes and at smaller sizes.

    The last copy is so small that numbers of channels shrink too. Channel numbers that are equal by chance
    then differ.
    """
    elements = sum(tensor.elements for tensor in problem.trace.outputs)
    limits = (problems.MAX_ELEMENTS, max(elements // 3, 64), SMALL)
    return [problems.shrink(problem, max_elements=limit) for limit in limits]
