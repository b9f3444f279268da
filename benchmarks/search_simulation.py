"""The simulated model of `benchmarks.search`: problems, answers and verdicts by chance.

Contract: what a candidate is stands in its text, so that an answer follows from the prompt, the seed and how
often the model was asked. The shares are those of search_model.toml.
"""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from random import Random

from agent.records import (
    Candidate,
    Completion,
    Correctness,
    Evaluation,
    Finding,
    Measurement,
    Percentiles,
    Problem,
    Prompt,
    Scope,
    Status,
    Trace,
    Usage,
)
from agent.search import ideas

PARAMETERS = Path(__file__).with_name("search_model.toml")
BASE_MS = 1.0
TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
PROBLEM = Problem(name="simulated", source="class Model: ...\n", trace=TRACE)
_LATENT = re.compile(r"# latent (\{.*\})")
_SHOWN = re.compile(r"```python\n(.*?)```", re.DOTALL)
_DESIGNS = (
    "", "mma.sync", "cp.async", "cluster", "atomicAdd", "F.linear", "mma.sync cp.async", "mma.sync cluster",
    "cp.async cluster", "cp.async atomicAdd",
)  # fmt: skip
"""What stands in a kernel's text for `search.lines.design` to tell designs apart."""


@dataclass(frozen=True)
class Nature:
    """How a model answers, and what problems are like."""

    first_verified: float
    break_rate: float
    repair_rate: float
    problem_mean: float
    problem_sd: float
    first_gap: float
    closing: float
    redesign_rate: float
    design_sd: float
    designs: int
    habit: float
    obedience: float
    prompt_first: int
    prompt_later: int
    answer: int
    resolved: float
    combined_keeps: float

    @classmethod
    def read(cls, model: str) -> "Nature":
        given = tomllib.loads(PARAMETERS.read_text(encoding="utf-8"))
        return cls(**given[model], **given["speed"], **given["tokens"], **given["later"])


@dataclass(frozen=True)
class Latent:
    """What a candidate is."""

    design: int
    gap: float
    """Logarithm of what is left to the ceiling of its design."""
    right: bool

    def source(self, number: int) -> str:
        what = json.dumps({"design": self.design, "gap": self.gap, "right": self.right})
        built_from = _DESIGNS[self.design % len(_DESIGNS)]
        return f"class ModelNew:\n    number = {number}  # latent {what}\n    # {built_from}\n"

    @classmethod
    def of(cls, source: str) -> "Latent":
        found = _LATENT.search(source)
        assert found is not None
        return cls(**json.loads(found[1]))


class World:
    """One problem: what its designs can reach at best, as logarithms of a speedup."""

    def __init__(self, nature: Nature, seed: int) -> None:
        self.resolved = nature.resolved
        draw = Random(f"world {seed}")
        level = draw.gauss(nature.problem_mean, nature.problem_sd)
        self.ceilings = [draw.gauss(level, nature.design_sd) for _ in range(nature.designs)]

    def speedup(self, latent: Latent) -> float:
        return exp(self.ceilings[latent.design] - latent.gap)


class Model:
    """A provider: chance decides, by the seed and by how often it was asked."""

    name = "simulated"

    def __init__(self, nature: Nature, seed: int) -> None:
        self._nature, self._seed, self._asked = nature, seed, 0

    def complete(self, prompt: Prompt) -> Completion:
        self._asked += 1
        nature, draw = self._nature, Random(f"answer {self._seed} {self._asked}")
        text = prompt.messages[1].content
        shown = [Latent.of(source) for source in _SHOWN.findall(text) if _LATENT.search(source)]
        made = self._made(prompt, text, shown, draw)
        first = prompt.template == "generate"
        usage = Usage(
            input_tokens=nature.prompt_first if first else nature.prompt_later, output_tokens=nature.answer
        )
        source = made.source(self._asked)
        return Completion(
            provider=self.name, model=None, text=f"```python\n{source}```", usage=usage, finish_reason="stop"
        )

    def _made(self, prompt: Prompt, text: str, shown: Sequence[Latent], draw: Random) -> Latent:
        nature = self._nature
        if prompt.template == "generate" or not shown:
            return self._fresh(text, draw)
        if prompt.template == "repair":
            broken = next((latent for latent in shown if not latent.right), shown[0])
            return replace(broken, right=draw.random() < nature.repair_rate)
        if prompt.template == "combine":
            # What is better of each: the design with less left to gain is refined as far as the other's gap.
            one, other = shown[:2]
            better, worse = sorted((one.gap, other.gap))
            kept = nature.combined_keeps * better + (1 - nature.combined_keeps) * worse
            made = replace(one, gap=kept * (1 - nature.closing))
        elif draw.random() < (nature.obedience if _idea(text) else nature.redesign_rate):
            made = replace(self._fresh(text, draw), gap=draw.expovariate(1 / nature.first_gap))
        else:
            made = replace(shown[0], gap=shown[0].gap * (1 - nature.closing))
        return replace(made, right=draw.random() >= nature.break_rate)

    def _fresh(self, text: str, draw: Random) -> Latent:
        """The habitual design or another one; with an approach to try, that one's, where it is followed."""
        nature = self._nature
        design = 0 if draw.random() < nature.habit else draw.randrange(nature.designs)
        asked = _idea(text)
        if asked and draw.random() < nature.obedience:
            design = asked % nature.designs
        return Latent(design, draw.expovariate(1 / nature.first_gap), draw.random() < nature.first_verified)


def _idea(text: str) -> int:
    """Which approach a prompt asks for; 0 where it leaves the choice."""
    numbered = re.search(re.escape(ideas.AGAIN).replace(r"\{\}", r"(\d+)"), text)
    known = (number for number, idea in enumerate(ideas.IDEAS) if idea and idea in text)
    return int(numbered[1]) if numbered else next(known, 0)


class Judge:
    """An executor that knows what a candidate is."""

    name = "cuda"

    def __init__(self, world: World) -> None:
        self._world = world

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        latent = Latent.of(candidate.source)
        scope = Scope(executor="cuda")
        if not latent.right:
            found = Finding(kind="wrong-values", message="Every element is wrong.")
            return Evaluation(status=Status.INCORRECT, stage="verify", scope=scope, findings=(found,))
        speedup = self._world.speedup(latent)
        own = BASE_MS / speedup
        return Evaluation(
            status=Status.VERIFIED, stage="measure", scope=scope,
            correctness=Correctness(draws=3, max_abs_err=0, max_rel_err=0, error_budget_ratio=0),
            measurement=Measurement(
                gpu="simulated", candidate_ms=Percentiles(p20=own, p50=own, p80=own),
                eager_ms=Percentiles(p20=BASE_MS, p50=BASE_MS, p80=BASE_MS), compile_ms=None,
                baseline="eager",
                roofline_fraction=None, method="simulated",
                speedup_interval=(
                    (1 - self._world.resolved) * speedup, (1 + self._world.resolved) * speedup,
                ),
            ),
        )  # fmt: skip

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return evaluation
