"""Assembly of one answer from the chunks of a stream or from a whole body.

Contract: text and reasoning stay separate where the server separates them (`reasoning`, `reasoning_content`,
`reasoning_details`, typed content parts). A `<think>` inside the text stays there as received. Missing or
malformed values are None, never zero or a guess. This module does not search for code.
"""

from collections.abc import Callable
from math import inf

from agent.records import Completion, Usage


def string(value: object) -> str:
    """Return the value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def _parts(value: object, *keys: str) -> str:
    """Return the joined strings under `keys` in a list of typed parts, in order. Lists may nest."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    dicts = [part for part in value if isinstance(part, dict)]
    return "".join(_parts(part[key], *keys) for part in dicts for key in keys if key in part)


def _reasoning(message: dict[str, object]) -> str:
    """Return the reasoning of one message or delta.

    Servers use several field names; the first that is set counts.
    """
    return (
        string(message.get("reasoning"))
        or string(message.get("reasoning_content"))
        or _parts(message.get("reasoning_details"), "text", "summary")
        or (_parts(content, "thinking", "text") if isinstance(content := _thinking(message), list) else "")
    )


def _thinking(message: dict[str, object]) -> object:
    content = message.get("content")
    if not isinstance(content, list):
        return None
    return [part for part in content if isinstance(part, dict) and part.get("type") == "thinking"]


def _content(message: dict[str, object]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return _parts(content, "text") or string(message.get("refusal"))


def count(source: object, key: str) -> int | None:
    """Return the number of tokens under a key, or None if there is no valid number."""
    value = source.get(key) if isinstance(source, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def well_formed(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates. JSON allows them, UTF-8 does not."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Draft:
    """Collects the chunks of an answer. A whole body counts as one chunk."""

    def __init__(self) -> None:
        self.text_characters = 0
        self.reasoning_characters = 0
        self.answered = False
        """True once a message or a part of one has arrived."""
        self.finish_reason: str | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._usage = Usage()
        self._cost_usd: float | None = None
        self._model: str | None = None
        self._fingerprint: str | None = None

    def add(self, chunk: object) -> None:
        """Add one decoded chunk or body. Unknown content is ignored."""
        if not isinstance(chunk, dict):
            return
        self.identify(chunk)
        self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index") in (0, None):
                self._take_choice(choice)

    def _take_choice(self, choice: dict[str, object]) -> None:
        self.finish_reason = string(choice.get("finish_reason")) or self.finish_reason
        message = choice.get("delta") or choice.get("message")
        if not isinstance(message, dict):
            return
        self.say(_content(message), _reasoning(message))

    def say(self, text: str = "", reasoning: str = "") -> None:
        """Append a piece of text and reasoning to the answer."""
        self.answered = True
        self._text.append(text)
        self._reasoning.append(reasoning)
        self.text_characters += len(text)
        self.reasoning_characters += len(reasoning)

    def identify(self, source: dict[str, object]) -> None:
        """Record the model's name and the system fingerprint if `source` holds them."""
        self._model = string(source.get("model")) or self._model
        self._fingerprint = string(source.get("system_fingerprint")) or self._fingerprint

    def used(self, usage: Usage, reported: dict[str, object]) -> None:
        """Record the token counts and the `cost` in dollars that some gateways report."""
        self._usage = usage
        cost = reported.get("cost")
        priced = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < inf
        self._cost_usd = float(cost) if priced and isinstance(cost, int | float) else self._cost_usd

    def _take_usage(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        self.used(
            Usage(
                input_tokens=count(usage, "prompt_tokens"),
                output_tokens=count(usage, "completion_tokens"),
                reasoning_tokens=count(usage.get("completion_tokens_details"), "reasoning_tokens"),
                cached_tokens=count(usage.get("prompt_tokens_details"), "cached_tokens"),
            ),
            usage,
        )

    def completion(
        self, *, provider: str, seconds: float, request_id: str | None, mask: Callable[[str], str]
    ) -> Completion:
        """Return the answer as a record. `mask` removes the API key from all text of the endpoint."""

        def clean(words: str | None) -> str | None:
            return mask(well_formed(words)) if words else None

        return Completion(
            provider=provider,
            model=clean(self._model),
            text=clean("".join(self._text)) or "",
            reasoning=clean("".join(self._reasoning)),
            usage=self._usage,
            cost_usd=self._cost_usd,
            finish_reason=clean(self.finish_reason),
            seconds=round(seconds, 3),
            request_id=clean(request_id),
            system_fingerprint=clean(self._fingerprint),
        )
