"""Prompts to a provider of a model, and the provider's answers."""

from typing import Literal

from agent.records.base import Record, digest


class Message(Record):
    role: Literal["system", "user", "assistant"]
    content: str


class Prompt(Record):
    """One complete request to a model. The provider adds only the transport."""

    template: Literal["plan", "generate", "repair", "optimise", "combine"]
    messages: tuple[Message, ...]

    @property
    def id(self) -> str:
        """Return the hash of the request, by which `replay` finds the stored answer."""
        return digest(*(part for message in self.messages for part in (message.role, message.content)))


class Usage(Record):
    """Tokens of one answer as the endpoint counted them; None means unknown, not zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    """Input tokens that the endpoint had in its cache."""


class Completion(Record):
    """One answer of a model, as received."""

    provider: str
    model: str | None
    """Model that answered, by the name in the answer."""
    asked: str | None = None
    """Model that was asked, if a run asks several."""
    text: str
    reasoning: str | None = None
    """Model's reasoning, returned separately from the text; recorded, never searched for code."""
    usage: Usage = Usage()
    finish_reason: str | None = None
    """Reason why the answer ended: `stop`, `length` or the endpoint's own word; None if it gave none."""
    cost_usd: float | None = None
    """Cost in US dollars, as the endpoint states it."""
    seconds: float | None = None
    request_id: str | None = None
    system_fingerprint: str | None = None
