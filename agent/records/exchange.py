"""Prompts to a provider, and its answers."""

from typing import Literal

from agent.records.base import Record, digest


class Message(Record):
    role: Literal["system", "user", "assistant"]
    content: str


class Prompt(Record):
    """One complete request. A provider adds transport and nothing else."""

    template: Literal["plan", "generate", "repair", "optimise", "combine"]
    messages: tuple[Message, ...]

    @property
    def id(self) -> str:
        """Return the hash of the request, by which `replay` finds the stored answer."""
        return digest(*(part for message in self.messages for part in (message.role, message.content)))


class Usage(Record):
    """Tokens as the endpoint counted them; None is unknown, never zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    """Input tokens that the endpoint had in its cache."""


class Completion(Record):
    """One answer, as received."""

    provider: str
    model: str | None
    """The model that answered, by its own account."""
    asked: str | None = None
    """The model that was asked, where a run asks several."""
    text: str
    reasoning: str | None = None
    """Thinking that came beside the text; recorded, never searched for code."""
    usage: Usage = Usage()
    finish_reason: str | None = None
    """`stop`, `length` or the endpoint's own word; None where the endpoint said nothing."""
    cost_usd: float | None = None
    """Cost in US dollars, as the endpoint states it."""
    seconds: float | None = None
    request_id: str | None = None
    system_fingerprint: str | None = None
