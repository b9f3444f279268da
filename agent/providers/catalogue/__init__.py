"""The provider that needs no endpoint: kernels written beforehand, for references of a single operator.

Contract: a problem matches by its traced op table, never by a name; what does not match is declined with the
reason. The answer is a complete file: a shipped kernel's device code (`agent.kernels.sources`), unchanged,
and a `ModelNew` written for the problem. It is judged like any other answer. Prompts are not read; there is
no second answer.
"""

from agent.errors import EndpointError, NothingOffered
from agent.kernels import sources
from agent.providers.catalogue.matching import Declined, Match, OperatorMatch, match_trace
from agent.providers.catalogue.reference import Unreadable, read
from agent.providers.catalogue.writing import Inexpressible, model_new
from agent.records import Completion, Problem, Prompt

__all__ = ["Catalogue", "Declined", "Match", "OperatorMatch", "match", "match_trace"]


def match(problem: Problem, arch: str | None = None) -> Match | Declined:
    """The file that answers the problem, for GPUs of `arch` where given (`90a`), or why there is none."""
    operator = match_trace(problem.trace)
    if isinstance(operator, Declined):
        return operator
    try:
        written = model_new(operator, read(problem))
    except (Unreadable, Inexpressible) as error:
        return Declined(reason=str(error))
    return Match(operator=operator, source=sources.kernel_part(operator.kernel, arch) + written)


class Catalogue:
    """A Provider for one problem, and for GPUs of one architecture where it is given (`90a`).

    Raises NothingOffered when nothing matches: without an endpoint there is nobody to ask.
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
        """The one answer; EndpointError when the prompt asks for a better one."""
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
