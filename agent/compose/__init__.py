"""A kernel for a reference that nobody has written: fused CUDA, composed from what the reference calls.

Contract: `compose` gives a complete file with `ModelNew`, or the one reason why there is none. Matrix
products and dense convolutions stay torch's or are a shipped kernel's; what stands between them is fused into
kernels. Nothing composed is trusted: it is judged like any other answer. The reference is traced at several
sizes, so that the file takes its sizes from tensors. torch is imported in a child alone.
"""

from collections.abc import Mapping, Sequence

from agent import problems
from agent.compose.declined import Declined
from agent.problems import child
from agent.records import Problem

__all__ = ["Declined", "compose", "composed_with"]

SMALL = 1 << 16
"""Elements of the smallest copy."""
_TIME_LIMIT_S = 120
"""For references of thousands of calls, whose graph takes a minute."""


def compose(problem: Problem, arch: str | None = None, own_products: bool = False) -> str:
    """The file that answers the problem, with the shipped products for GPUs of `arch` (`90a`) as its parts.

    `own_products`: none stays torch's, whatever the GPU; so it is anyway where there is nothing else.

    Raises Declined, and ProblemError or EnvironmentFault where the child that traces cannot come to an end.
    """
    return composed_with(problem, arch, own_products, [{}])[0]


def composed_with(
    problem: Problem, arch: str | None, own_products: bool, changes: Sequence[Mapping[str, int]]
) -> list[str]:
    """The file with each change of its kernels' schedules (`Schedule.changed`). Raises as `compose` does."""
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
    """Copies of the reference at the sizes of the emulator and at smaller ones still.

    The last is so small that numbers of channels shrink too: those that are equal by chance come apart.
    """
    elements = sum(tensor.elements for tensor in problem.trace.outputs)
    limits = (problems.MAX_ELEMENTS, max(elements // 3, 64), SMALL)
    return [problems.shrink(problem, max_elements=limit) for limit in limits]
