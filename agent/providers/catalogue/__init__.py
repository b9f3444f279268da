"""Provider without an endpoint: shipped kernels for references with a single operator.

Contract: a problem matches by its traced op table, never by a name. A problem that does not match is declined
with the reason. The answer is a complete file: the unchanged device code of a shipped kernel
(`agent.kernels.sources`) and a `ModelNew` written for the problem. The answer is judged like any other.
Prompts are not read, and there is no second answer.
"""

from agent.errors import EndpointError, NothingOffered
from agent.kernels import sources
from agent.providers.catalogue.matching import Declined, Match, OperatorMatch, match_trace
from agent.providers.catalogue.reference import Unreadable, read
from agent.providers.catalogue.writing import Inexpressible, model_new
from agent.records import Completion, Problem, Prompt

__all__ = ["Catalogue", "Declined", "Match", "OperatorMatch", "match", "match_trace"]


def match(problem: Problem, arch: str | None = None) -> Match | Declined:
    """Return the file that answers the problem, or the reason why there is none.

    `arch` is the GPU architecture, such as `90a`. None selects portable code.
    """
    operator = match_trace(problem.trace)
    if isinstance(operator, Declined):
        return operator
    try:
        written = model_new(operator, read(problem))
    except (Unreadable, Inexpressible) as error:
        return Declined(reason=str(error))
    return Match(operator=operator, source=sources.kernel_part(operator.kernel, arch) + written)


class Catalogue:
    """A provider with one shipped kernel, for one GPU architecture if given (`90a`).

    The constructor raises NothingOffered if no kernel matches.
    """

    name = "catalogue"

    def __init__(self, problem: Problem, arch: str | None = None) -> None:
        found = match(problem, arch)
        if isinstance(found, Declined):
            raise NothingOffered(
                f"the catalogue has no kernel for {problem.name}: {found.reason}; to ask a model, set "
                "OPENAI_API_KEY (or --base-url for a local server) and --model"
            )
        self._problem = problem.name
        self._match = found
        self._answered = False

    def complete(self, prompt: Prompt) -> Completion:
        """Return the only answer. Raises EndpointError if a second or better answer is requested."""
        if self._answered or prompt.template != "generate":
            raise EndpointError(
                f"the catalogue has one kernel for {self._problem} and nothing better; ask a model with "
                "--provider openai_compat"
            )
        self._answered = True
        text = (
            f"The reference is one `{self._match.operator.overload}`; the catalogue has a kernel for it.\n\n"
            f"```python\n{self._match.source}```\n"
        )
        return Completion(provider=self.name, model=None, text=text, finish_reason="stop")
