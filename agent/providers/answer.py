"""One answer while it arrives: the pieces of a stream or a whole body, put together.

Contract: text and reasoning are kept apart where the server keeps them apart (`reasoning`,
`reasoning_content`, `reasoning_details`, typed content parts); a `<think>` inside the text stays there, as
received. What is missing or malformed is None, never zero or a guess. Searches nothing for code.
"""

from collections.abc import Callable
from math import inf

from agent.records import Completion, Usage


def string(value: object) -> str:
    """The value where it is text, else none."""
    return value if isinstance(value, str) else ""


def _parts(value: object, *keys: str) -> str:
    """The strings under the keys of a list of typed parts, in order; lists nest."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    dicts = [part for part in value if isinstance(part, dict)]
    return "".join(_parts(part[key], *keys) for part in dicts for key in keys if key in part)


def _reasoning(message: dict[str, object]) -> str:
    """The thinking of one message or delta; repeated under several names, the first counts."""
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
    """The number of tokens under a key; None where there is no such number."""
    value = source.get(key) if isinstance(source, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone ones replaced: JSON allows them, UTF-8 does not."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Draft:
    """Collects chunks; a whole body counts as a single one."""

    def __init__(self) -> None:
        self.text_characters = 0
        self.reasoning_characters = 0
        self.answered = False
        """A message or a piece of one has been seen."""
        self.finish_reason: str | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._usage = Usage()
        self._cost_usd: float | None = None
        self._model: str | None = None
        self._fingerprint: str | None = None

    def add(self, chunk: object) -> None:
        """Takes in one decoded chunk or body; ignores what it does not know."""
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
        """Adds a piece of the answer."""
        self.answered = True
        self._text.append(text)
        self._reasoning.append(reasoning)
        self.text_characters += len(text)
        self.reasoning_characters += len(reasoning)

    def identify(self, source: dict[str, object]) -> None:
        """Takes the names of what answers, where they stand in `source`."""
        self._model = string(source.get("model")) or self._model
        self._fingerprint = string(source.get("system_fingerprint")) or self._fingerprint

    def used(self, usage: Usage, reported: dict[str, object]) -> None:
        """Takes the token counts, and the price in dollars that some gateways report as `cost`."""
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
        """The answer as a record; mask takes the key out of each word of the endpoint's."""

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
