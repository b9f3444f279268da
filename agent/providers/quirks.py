"""What one model at one endpoint understands, learned from its refusals.

Contract: a request starts with every option that the user set; a refusal (400 or 422) that names one of
them drops it, or swaps it where the same thing has another name, once each. A token limit is swapped and
never dropped: it is the user's bound on cost. Knows no HTTP and sends nothing.

Names: `max_tokens` is deprecated and refused by OpenAI's reasoning models, `max_completion_tokens` is
unknown to many other servers (https://platform.openai.com/docs/api-reference/chat/create).
"""

import re
from typing import Literal, Self
from urllib.parse import urlsplit

from agent.providers import responses
from agent.providers.endpoint import EndpointSettings
from agent.providers.retry import RequestFailed
from agent.records import Prompt
from agent.records.base import Record

LimitName = Literal["max_tokens", "max_completion_tokens"]
_DROPPABLE = (
    "stream_options", "stream", "temperature", "seed", "reasoning_effort", "stop", "store", "reasoning",
)  # fmt: skip
_SYSTEM_ROLE = re.compile(r"\bsystem\b.{0,40}\brole\b|\brole\b.{0,60}\bsystem\b", re.IGNORECASE | re.DOTALL)


class Dialect(Record):
    """How requests are put to one endpoint."""

    limit_name: LimitName
    limit_swapped: bool = False
    dropped: frozenset[str] = frozenset()
    folds_system: bool = False
    """The system message leads the first user message (templates without a system role)."""
    instructed: bool = True
    """The Responses API: the system message stands in `instructions`."""

    @classmethod
    def first_guess(cls, settings: EndpointSettings) -> Self:
        host = urlsplit(settings.url).hostname or ""
        own = host == "openai.com" or host.endswith(".openai.com")
        return cls(limit_name="max_completion_tokens" if own else "max_tokens")

    @property
    def streams(self) -> bool:
        return "stream" not in self.dropped

    def body(self, settings: EndpointSettings, prompt: Prompt) -> dict[str, object]:
        """The parameters of one request."""
        if settings.api == "responses":
            options = responses.body(settings, prompt, instructed=self.instructed)
            # Said outright: `transformers serve` streams where nothing is said.
            options |= {"stream": settings.stream}
        else:
            options = self._chat(settings, prompt)
        sent = {key: value for key, value in options.items() if value is not None and key not in self.dropped}
        return {"model": settings.model} | sent

    def _chat(self, settings: EndpointSettings, prompt: Prompt) -> dict[str, object]:
        options: dict[str, object] = {
            "messages": self._messages(prompt),
            "temperature": settings.temperature,
            "seed": settings.seed,
            "reasoning_effort": settings.reasoning_effort,
            "stop": list(settings.stop) or None,
            self.limit_name: settings.max_output_tokens,
        }
        if not settings.stream:
            options |= {"stream": False}
        elif self.streams:
            # Without it a stream carries no token counts.
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        return options

    def _messages(self, prompt: Prompt) -> list[dict[str, str]]:
        messages = [message.model_dump() for message in prompt.messages]
        if not self.folds_system:
            return messages
        system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
        rest = [m for m in messages if m["role"] != "system"]
        if not rest or rest[0]["role"] != "user":
            rest.insert(0, {"role": "user", "content": ""})
        rest[0] = {"role": "user", "content": f"{system}\n\n{rest[0]['content']}".strip()}
        return rest

    def after(self, failure: RequestFailed, sent: dict[str, object]) -> tuple[Self, str] | None:
        """The dialect that avoids what was refused and what changed, in words; None if nothing can change."""
        if failure.status not in (400, 422):
            return None
        name = _named(failure, sent)
        if name == "instructions":
            plain = self.model_copy(update={"instructed": False})
            return plain, "refuses `instructions`: asked again with the system message in the input"
        if name == self.limit_name:
            if self.limit_swapped:
                return None
            other: LimitName = "max_tokens" if name == "max_completion_tokens" else "max_completion_tokens"
            swapped = self.model_copy(update={"limit_name": other, "limit_swapped": True})
            return swapped, f"refuses `{name}`: asked again with `{other}`"
        if name is not None:
            fewer = self.model_copy(update={"dropped": self.dropped | {name}})
            return fewer, f"refuses `{name}`: asked again without it"
        if not self.folds_system and _SYSTEM_ROLE.search(failure.detail):
            folded = self.model_copy(update={"folds_system": True})
            return folded, "refuses the system role: asked again with it in the user message"
        return None


def _named(failure: RequestFailed, sent: dict[str, object]) -> str | None:
    """The one of our parameters that the refusal is about.

    The server's own field decides; else the first of those sent that its words name, since a message
    tends to name the refused parameter before the one to use instead.
    """
    known = (*_DROPPABLE, "max_tokens", "max_completion_tokens", "instructions")
    candidates = [name for name in known if name in sent]
    if failure.parameter:
        return next((n for n in candidates if re.match(rf"{n}\b", failure.parameter)), None)
    mentions = {n: re.search(rf"\b{n}\b", failure.detail) for n in candidates}
    found = {name: match.start() for name, match in mentions.items() if match}
    return min(found, key=lambda name: found[name]) if found else None
