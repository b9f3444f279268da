"""Several models in one run: each question goes to the one that has yielded most for what it cost.

Contract: the choice follows from the events of the run (`yields`), which this provider hears, and from what
it has open at the moment; the answer says who was asked. Where a model fails for good, so does the question.
"""

import threading
from collections import Counter
from collections.abc import Mapping

from agent import yields
from agent.protocols import Provider
from agent.records import Completed, Completion, Evaluated, Event, Prompt, Prompted, SecondLook


class Several:
    """A provider over others, by the names of their models, in the order of preference."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = dict(providers)
        self._events: list[Event] = []
        self._plans: set[int] = set()
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return next(iter(self._providers.values())).name

    def hear(self, event: Event) -> None:
        """Takes in what came of a question."""
        if isinstance(event, Prompted) and event.move.plan:
            self._plans.add(event.round)
        if isinstance(event, Completed | Evaluated | SecondLook):
            with self._lock:
                # Ideas are no kernel: who gave them has yielded nothing less.
                self._events += [] if event.round in self._plans else [event]
                if isinstance(event, Completed) and event.completion.asked is not None:
                    self._open[event.completion.asked] -= 1

    def complete(self, prompt: Prompt) -> Completion:
        """The answer of the model that is chosen. Raises what its provider raises."""
        with self._lock:
            model = yields.choose(tuple(self._providers), self._known())
            self._open[model] += 1
        try:
            answer = self._providers[model].complete(prompt)
        except BaseException:
            with self._lock:
                self._open[model] -= 1
            raise
        return answer.model_copy(update={"asked": model})

    def _known(self) -> dict[str, yields.Yield]:
        """What was yielded, with the open questions as asked and not yet paid."""
        known = yields.gathered(self._events)
        for model in self._providers:
            own = known.get(model, yields.Yield())
            asked = own.asked + max(0, self._open[model])
            # An open question is expected to cost what those before it did.
            cost = own.cost / own.asked * asked if own.asked else float(asked)
            known[model] = own.model_copy(update={"asked": asked, "cost": cost})
        return known
