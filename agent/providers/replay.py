"""Answers that were stored before, given again.

Contract: an answer is matched by the hash of its request (`Prompt.id`); a prompt that was asked twice gets
its stored answers in their order; a prompt without an answer is an error, never a guess. With in_order the
stored answers are given one after the other whatever the prompt. Completions are returned as they were
received. Does not read the store: the caller passes the pairs.
"""

from collections import defaultdict, deque
from collections.abc import Sequence

from agent.errors import EndpointError
from agent.records import Completion, Prompt


class Replay:
    """A provider over (prompt id, completion) pairs in the order they were received."""

    def __init__(self, completions: Sequence[tuple[str, Completion]], *, in_order: bool, source: str) -> None:
        self._source = source
        self._in_order = in_order
        self._total = len(completions)
        self._queue = deque(completion for _, completion in completions)
        self._answers: defaultdict[str, deque[Completion]] = defaultdict(deque)
        for prompt_id, completion in completions:
            self._answers[prompt_id].append(completion)

    @property
    def name(self) -> str:
        return f"replay:{self._source}"

    def complete(self, prompt: Prompt) -> Completion:
        """The stored answer. Raises EndpointError when there is none (left)."""
        if self._in_order:
            if not self._queue:
                raise EndpointError(
                    f"replay of {self._source}: all {self._total} stored answers are used up;"
                    " ask a live endpoint for more with --provider openai_compat"
                )
            return self._queue.popleft()
        answers = self._answers.get(prompt.id)
        if answers is None:
            raise EndpointError(
                f"replay of {self._source}: no stored answer to this prompt ({prompt.id[:12]}), it differs"
                " from those of that run; --in-order gives the stored answers whatever the prompt"
            )
        if not answers:
            raise EndpointError(
                f"replay of {self._source}: every stored answer to this prompt ({prompt.id[:12]}) is used up;"
                " --in-order gives the stored answers whatever the prompt"
            )
        return answers.popleft()
