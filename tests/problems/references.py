"""References made for tests of their sizes, and a tracer in this process: torch is there already."""

from textwrap import dedent, indent

from agent.problems import tracer
from agent.problems.scaling import Scaling
from agent.records import Problem, Trace


def reference(
    sizes: str, inputs: str, forward: str, init: str = "", given: str = "", arguments: str = ""
) -> str:
    """The source of a reference from its parts, of which `init` and `forward` are bodies."""
    return (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
        + dedent(sizes)
        + f"\n\nclass Model(nn.Module):\n    def __init__(self, {arguments}):\n        super().__init__()\n"
        + indent(dedent(init), " " * 8)
        + "\n    def forward(self, *given):\n        x = given[0]\n"
        + indent(dedent(forward), " " * 8)
        + f"\n\ndef get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return [{given}]\n"
    )


def attempted(source: str) -> Trace | None:
    try:
        return tracer.trace(source)
    except tracer.ReferenceFault:
        return None


def problem(source: str, name: str = "made") -> Problem:
    return Problem(name=name, source=source, trace=tracer.trace(source))


def scaling(source: str) -> Scaling:
    return Scaling(source, tracer.trace(source), attempted)
