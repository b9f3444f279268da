"""The lines of a tree, as policies that carry several see them."""

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
    """How a kernel goes about it, coarsely: what bounds it, what it is built from, in how many kernels.

    Two attempts of the same design differ in details, for a search. Read from the text and the judge's notes.
    """
    source, findings = attempt.candidate.source, attempt.evaluation.findings
    bound = next((finding.kind for finding in findings if finding.severity == "note"), "")
    features = (name for name, pattern in _FEATURES.items() if pattern.search(source))
    return bound, *features, str(min(_MANY, len(_KERNEL.findall(source))))


def tips(tree: Tree) -> tuple[Node, ...]:
    """The latest round of each line, in the order in which they began."""
    gone_on = {node.move.after for node in tree.nodes.values()}
    return tuple(node for number, node in tree.nodes.items() if number not in gone_on and not node.move.plan)


def failures(tree: Tree, tip: Node) -> int:
    """How many answers at the end of a line are not verified."""
    count = 0
    for node in reversed(tree.line(tip.round)):
        if verified(tree, node) is not None:
            break
        count += not node.open
    return count


def idle(tree: Tree, tip: Node) -> int:
    """How many answers a line has had since its best one."""
    best = tree.best_on(tip.round)
    since = 0
    for node in reversed(tree.line(tip.round)):
        if best is not None and best.number in node.attempts:
            break
        since += not node.open
    return since


def verified(tree: Tree, node: Node) -> Attempt | None:
    """What a round itself has brought."""
    last = tree.attempts[node.attempts[-1]] if node.attempts else None
    return last if last is not None and last.evaluation.status is Status.VERIFIED else None


def time_ms(attempt: Attempt) -> float:
    """For an order from fast to slow; what nobody timed comes last."""
    measured = attempt.evaluation.measurement
    return measured.candidate_ms.p50 if measured else float("inf")
