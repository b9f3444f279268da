"""The provider that needs no endpoint: a shipped kernel where one matches, else a composed one.

There is one answer and nothing better; prompts are not read. It may also be the first answer of a run that
goes on with a model.
"""

import threading
from collections.abc import Callable
from math import prod

from agent.compose import Declined, compose
from agent.errors import EndpointError, NothingOffered
from agent.protocols import Provider
from agent.providers import catalogue
from agent.records import Completion, Problem, Prompt, TensorSpec

FEW_ROWS, LONG_ROW = 132, 1 << 16
"""A shipped norm is a block to a row: with fewer rows than a GPU has processors, and such long ones, the
composer's rows of several blocks are faster (LayerNorm over 16 rows of 4 million: 2.4 times)."""


def without_endpoint(problem: Problem, arch: str | None = None, own_products: bool = False) -> Provider:
    """Who answers where no model is asked; `own_products`: no product or convolution may be torch's.

    Raises NothingOffered where nothing matches and nothing can be composed.
    """
    if shipped(problem, arch) is not None:
        return catalogue.Catalogue(problem, arch)
    return Composed(problem, arch, own_products)


def shipped(problem: Problem, arch: str | None = None) -> catalogue.Match | None:
    """The shipped kernel that answers the whole problem; None where a composed one does."""
    found = catalogue.match(problem, arch)
    if not isinstance(found, catalogue.Match):
        return None
    dims = found.operator.settings.get("dims")
    given = problem.trace.inputs[0] if problem.trace.inputs else None
    if isinstance(dims, int) and isinstance(given, TensorSpec):
        shape = given.shape
        if prod(shape[:-dims]) < FEW_ROWS and prod(shape[-dims:]) >= LONG_ROW:
            return None
    return found


class Composed:
    """A Provider for one problem, and for GPUs of one architecture where it is given (`90a`).

    Raises NothingOffered where it cannot be composed.
    """

    name = "compose"

    def __init__(self, problem: Problem, arch: str | None = None, own_products: bool = False) -> None:
        self.about = (problem, arch, own_products)
        try:
            self.source = compose(problem, arch, own_products)
        except Declined as why:
            raise NothingOffered(
                f"no kernel was composed for {problem.name}: {why}; to ask a model, set OPENAI_API_KEY "
                "(or --base-url for a local server) and --model"
            ) from None
        self._problem = problem.name
        self._answered = False

    def complete(self, prompt: Prompt) -> Completion:
        """The one answer; EndpointError when the prompt asks for a better one."""
        if self._answered or prompt.template != "generate":
            raise EndpointError(
                f"there is one composed kernel for {self._problem} and nothing better; ask a model with "
                "--provider openai_compat"
            )
        self._answered = True
        return completion(self.source)


class FromComposed:
    """A Provider whose first answer is the composed file and whose further ones are another's.

    Raises Declined where there is no such file.
    """

    def __init__(
        self, problem: Problem, then: Provider, arch: str | None = None, own_products: bool = False
    ) -> None:
        self.name, self._then = then.name, then
        self._first: Completion | None = completion(compose(problem, arch, own_products))
        self._turn = threading.Lock()

    def complete(self, prompt: Prompt) -> Completion:
        with self._turn:
            first, self._first = self._first, None
        return first or self._then.complete(prompt)


def begun_with_composed(
    problem: Problem, then: Provider, warn: Callable[[str], object], arch: str | None = None,
    own_products: bool = False,
) -> Provider:  # fmt: skip
    """The provider, with the composed file for its first answer where there is one."""
    try:
        return FromComposed(problem, then, arch, own_products)
    except Declined as why:
        warn(f"no kernel was composed for {problem.name}, the first one is asked for: {why}")
        return then


def completion(source: str) -> Completion:
    """The answer that is a composed file."""
    text = f"Composed from what the reference calls.\n\n```python\n{source}```\n"
    return Completion(provider=Composed.name, model=None, text=text, finish_reason="stop")
