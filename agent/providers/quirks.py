"""Request options that one model at one endpoint accepts, learned from its refusals.

Contract: the first request has every option that the user set. A refusal (400 or 422) that names an option
drops the option, or renames it if the API has another name for it, once each. A token limit is renamed and
never dropped, since it bounds the user's cost. This module knows no HTTP and sends nothing.

OpenAI's reasoning models refuse the deprecated `max_tokens`, while many other servers do not know
`max_completion_tokens` (https://platform.openai.com/docs/api-reference/chat/create).
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
    """Form of the requests to one endpoint."""

    limit_name: LimitName
    limit_swapped: bool = False
    dropped: frozenset[str] = frozenset()
    folds_system: bool = False
    """Put the system message before the first user message, for chat templates without a system role."""
    instructed: bool = True
    """Send the system message as `instructions` of the Responses API."""

    @classmethod
    def first_guess(cls, settings: EndpointSettings) -> Self:
        host = urlsplit(settings.url).hostname or ""
        own = host == "openai.com" or host.endswith(".openai.com")
        return cls(limit_name="max_completion_tokens" if own else "max_tokens")

    @property
    def streams(self) -> bool:
        return "stream" not in self.dropped

    def body(self, settings: EndpointSettings, prompt: Prompt) -> dict[str, object]:
        """Return the parameters of one request."""
        if settings.api == "responses":
            options = responses.body(settings, prompt, instructed=self.instructed)
            # `stream` is always sent, since `transformers serve` streams by default.
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
            # Without `include_usage` a stream carries no token counts.
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
        """Return the dialect that avoids the refused option, with the change in words.

        Returns None if no change can help.
        """
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
    """Return the sent parameter that the refusal names, or None.

    The server's `param` field decides if present. Otherwise the first sent parameter in the message counts,
    since messages name the refused parameter before its replacement.
    """
    known = (*_DROPPABLE, "max_tokens", "max_completion_tokens", "instructions")
    candidates = [name for name in known if name in sent]
    if failure.parameter:
        return next((n for n in candidates if re.match(rf"{n}\b", failure.parameter)), None)
    mentions = {n: re.search(rf"\b{n}\b", failure.detail) for n in candidates}
    found = {name: match.start() for name, match in mentions.items() if match}
    return min(found, key=lambda name: found[name]) if found else None
