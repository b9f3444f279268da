"""Provider without an endpoint: it answers with a shipped kernel if one matches, else with a composed one.

The provider has a single answer and does not read prompts. A composed file may also be the first answer of a
run that continues with a model.
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
"""Number of rows below which, and row length from which, a composed norm replaces the shipped one.

A shipped norm uses one block per row. With fewer rows than the GPU has SMs, several blocks per row are
faster (LayerNorm over 16 rows of 4 million elements: 2.4 times).
"""


def without_endpoint(problem: Problem, arch: str | None = None, own_products: bool = False) -> Provider:
    """Return the provider for runs without a model.

    With `own_products`, matrix products and convolutions may not use torch. Raises NothingOffered if no
    shipped kernel matches and none can be composed.
    """
    if shipped(problem, arch) is not None:
        return catalogue.Catalogue(problem, arch)
    return Composed(problem, arch, own_products)


def shipped(problem: Problem, arch: str | None = None) -> catalogue.Match | None:
    """Return the shipped kernel for the whole problem, or None if a composed one is to be used."""
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
    """A provider with one composed kernel, for one GPU architecture if given (`90a`).

    The constructor raises NothingOffered if no kernel can be composed.
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
        """Return the only answer. Raises EndpointError if a second or better answer is requested."""
        if self._answered or prompt.template != "generate":
            raise EndpointError(
                f"there is one composed kernel for {self._problem} and nothing better; ask a model with "
                "--provider openai_compat"
            )
        self._answered = True
        return completion(self.source)


class FromComposed:
    """A provider that answers first with the composed file and then through another provider.

    The constructor raises Declined if no file can be composed.
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
    """Return `then` with the composed file as its first answer, or `then` itself if none can be composed."""
    try:
        return FromComposed(problem, then, arch, own_products)
    except Declined as why:
        warn(f"no kernel was composed for {problem.name}, the first one is asked for: {why}")
        return then


def completion(source: str) -> Completion:
    """Return the composed file as an answer."""
    text = f"Composed from what the reference calls.\n\n```python\n{source}```\n"
    return Completion(provider=Composed.name, model=None, text=text, finish_reason="stop")
