"""Lines of a tree, as policies with several lines see them."""

import re

from agent.records import Attempt, Status
from agent.search.tree import Node, Tree

_FEATURES = {
    "tensor cores": re.compile(r"\bw?mma\b|wmma::|mma\.sync|wgmma"),
    "asynchronous copies": re.compile(r"cp\.async|memcpy_async|__pipeline"),
    "clusters": re.compile(r"cluster"),
    "atomics": re.compile(r"\batomic[A-Z]\w+"),
    "torch's products": re.compile(
        r"F\.(linear|conv\w+)|torch\.(matmul|mm|bmm|addmm|conv\w+)|at::(mm|matmul|conv)"
    ),
}
_KERNEL = re.compile(r"__global__")
_MANY = 3

Design = tuple[str, ...]


def design(attempt: Attempt) -> Design:
    """Classify the design of a kernel coarsely: its bound, its building blocks, its number of kernels.

    The search treats two attempts of one design as variants. Reads the source and the judge's notes.
    """
    source, findings = attempt.candidate.source, attempt.evaluation.findings
    bound = next((finding.kind for finding in findings if finding.severity == "note"), "")
    features = (name for name, pattern in _FEATURES.items() if pattern.search(source))
    return bound, *features, str(min(_MANY, len(_KERNEL.findall(source))))


def tips(tree: Tree) -> tuple[Node, ...]:
    """Return the latest round of each line, in the order in which they began."""
    gone_on = {node.move.after for node in tree.nodes.values()}
    return tuple(node for number, node in tree.nodes.items() if number not in gone_on and not node.move.plan)


def failures(tree: Tree, tip: Node) -> int:
    """Count the answers at the end of a line that are not verified."""
    count = 0
    for node in reversed(tree.line(tip.round)):
        if verified(tree, node) is not None:
            break
        count += not node.open
    return count


def idle(tree: Tree, tip: Node) -> int:
    """Count the answers of a line since its best one."""
    best = tree.best_on(tip.round)
    since = 0
    for node in reversed(tree.line(tip.round)):
        if best is not None and best.number in node.attempts:
            break
        since += not node.open
    return since


def verified(tree: Tree, node: Node) -> Attempt | None:
    """Return the last attempt of a round if it is verified."""
    last = tree.attempts[node.attempts[-1]] if node.attempts else None
    return last if last is not None and last.evaluation.status is Status.VERIFIED else None


def time_ms(attempt: Attempt) -> float:
    """Return the median time in ms, or infinity if not timed, as a sort key."""
    measured = attempt.evaluation.measurement
    return measured.candidate_ms.p50 if measured else float("inf")
