"""Several models in one run: each prompt goes to the model with the best yield for its cost.

Contract: the choice depends on the run's events (see `yields`) and on the requests that are open. The answer
names the model that was asked. If a model fails for good, the request fails too.
"""

import threading
from collections import Counter
from collections.abc import Mapping

from agent import yields
from agent.protocols import Provider
from agent.records import Completed, Completion, Evaluated, Event, Prompt, Prompted, SecondLook


class Several:
    """A provider over other providers, keyed by model name in order of preference."""

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
        """Record an event of the run: the outcome of a prompt."""
        if isinstance(event, Prompted) and event.move.plan:
            self._plans.add(event.round)
        if isinstance(event, Completed | Evaluated | SecondLook):
            with self._lock:
                # A plan holds no kernel, so its round must not lower the model's yield.
                self._events += [] if event.round in self._plans else [event]
                asked = event.completion.asked if isinstance(event, Completed) else None
                # A resumed run hears answers again that no request of this process waits for.
                if asked is not None and self._open[asked] > 0:
                    self._open[asked] -= 1

    def complete(self, prompt: Prompt) -> Completion:
        """Return the answer of the chosen model. Raises what its provider raises."""
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
        """Return the yield of each model, with open requests counted at their expected cost."""
        known = yields.gathered(self._events)
        for model in self._providers:
            own = known.get(model, yields.Yield())
            asked = own.asked + max(0, self._open[model])
            # An open request is expected to cost the mean of the earlier requests.
            cost = own.cost / own.asked * asked if own.asked else float(asked)
            known[model] = own.model_copy(update={"asked": asked, "cost": cost})
        return known
