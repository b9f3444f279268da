"""Replay of stored answers.

Contract: an answer is matched by the hash of its request (`Prompt.id`). A prompt that was asked twice gets
its stored answers in order. A prompt without a stored answer is an error. With `in_order`, the stored answers
are returned in order and the prompts are ignored. Completions are returned as they were received. The caller
reads the stored run and passes the pairs of prompt id and completion.
"""

from collections import defaultdict, deque
from collections.abc import Sequence

from agent.errors import EndpointError
from agent.records import Completion, Prompt


class Replay:
    """A provider over pairs of prompt id and completion, in the order of receipt."""

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
        """Return the next stored answer to the prompt. Raises EndpointError if none is left."""
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
