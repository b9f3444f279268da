"""References in a few words, traced in this process."""

from dataclasses import dataclass
from textwrap import dedent

from agent.problems import tracer
from agent.records import Problem

IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def problem(source: str, name: str = "anything") -> Problem:
    """The problem of a reference; torch, nn and F are imported for it."""
    text = IMPORTS + dedent(source)
    return Problem(name=name, source=text, trace=tracer.trace(text))


@dataclass(frozen=True)
class Reference:
    """A reference with one statement in its constructor and one expression in its forward."""

    forward: str
    x: str
    init: str = ""
    """`, n -> self.ln = nn.LayerNorm(n)`: the further arguments of the constructor, and its statement."""
    init_inputs: str = ""
    top: str = ""

    @property
    def problem(self) -> Problem:
        arguments, _, statement = self.init.partition("->")
        return problem(
            f"{self.top}\n"
            "class Model(nn.Module):\n"
            f"    def __init__(self{arguments}):\n"
            "        super().__init__()\n"
            f"        {statement.strip() or 'pass'}\n"
            "    def forward(self, x):\n"
            f"        return {self.forward}\n"
            "def get_inputs():\n"
            f"    return [{self.x}]\n"
            "def get_init_inputs():\n"
            f"    return [{self.init_inputs}]\n"
        )
