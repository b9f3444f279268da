"""The Responses API: the form of a request, and the assembly of its answer.

Contract: a request has only the options that the user set, and asks the endpoint not to keep the answer
(`store` is false). Options that the API lacks (`seed`, `stop`) are refused by `EndpointSettings.check`, never
silently dropped. This module knows no HTTP and sends nothing.

Reference: https://platform.openai.com/docs/api-reference/responses. vLLM, llama.cpp, LM Studio and
`transformers serve` implement this API too.
"""

from agent.providers.answer import Draft, count, string
from agent.providers.endpoint import EndpointSettings
from agent.records import Prompt, Usage

PATH = "/responses"
_DELTAS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
}
_FINISHED = {"completed": "stop", "incomplete": "length", "failed": "error", "cancelled": "error"}
"""Finish reason of Chat Completions for each final status of a response."""


def body(settings: EndpointSettings, prompt: Prompt, *, instructed: bool) -> dict[str, object]:
    """Return the parameters of one request, with None for those that are not set.

    With `instructed`, the system message goes into `instructions`. Otherwise it leads the input, for servers
    that do not accept that field.
    """
    system = "\n\n".join(message.content for message in prompt.messages if message.role == "system")
    rest = [
        message.model_dump() for message in prompt.messages if not (instructed and message.role == "system")
    ]
    effort = settings.reasoning_effort
    return {
        "instructions": system or None if instructed else None,
        "input": rest,
        "temperature": settings.temperature,
        "max_output_tokens": settings.max_output_tokens,
        "reasoning": {"effort": effort} if effort else None,
        "store": False,
    }


def failed(chunk: object) -> object | None:
    """Return the error in an event or a whole response, or None."""
    if not isinstance(chunk, dict):
        return None
    if chunk.get("type") == "error":
        return chunk.get("error") or chunk
    response = _response(chunk)
    return response.get("error") or None if response.get("status") == "failed" else None


def _response(chunk: dict[str, object]) -> dict[str, object]:
    """Return the response object inside an event, or the body itself."""
    inner = chunk.get("response")
    return inner if isinstance(inner, dict) else chunk


class ResponsesDraft(Draft):
    """Collects the events of a response. A whole response counts as the last event."""

    def add(self, chunk: object) -> None:
        """Add one decoded event or body. Unknown content is ignored."""
        if not isinstance(chunk, dict):
            return
        kind = chunk.get("type")
        if isinstance(kind, str) and kind in _DELTAS:
            delta = string(chunk.get("delta"))
            self.say(**{_DELTAS[kind]: delta})
            return
        response = _response(chunk)
        self.identify(response)
        status = response.get("status")
        if kind not in (None, "response.completed", "response.incomplete", "response.failed"):
            return
        if isinstance(status, str) and status in _FINISHED:
            self._end(response, status)

    def _end(self, response: dict[str, object], status: str) -> None:
        self._take_counts(response.get("usage"))
        whole = response.get("output")
        items = [item for item in whole if isinstance(item, dict)] if isinstance(whole, list) else []
        if not (self.text_characters or self.reasoning_characters):
            self.say(text=_text(items), reasoning=_reasoning(items))
        details = response.get("incomplete_details")
        reason = string(details.get("reason")) if isinstance(details, dict) else ""
        other = reason if reason != "max_output_tokens" else ""
        self.finish_reason = other or _FINISHED[status]

    def _take_counts(self, usage: object) -> None:
        if isinstance(usage, dict):
            self.used(
                Usage(
                    input_tokens=count(usage, "input_tokens"),
                    output_tokens=count(usage, "output_tokens"),
                    reasoning_tokens=count(usage.get("output_tokens_details"), "reasoning_tokens"),
                    cached_tokens=count(usage.get("input_tokens_details"), "cached_tokens"),
                ),
                usage,
            )


def _text(items: list[dict[str, object]]) -> str:
    parts = [part for item in items if item.get("type") == "message" for part in _parts(item, "content")]
    return "".join(string(part.get("text")) or string(part.get("refusal")) for part in parts)


def _reasoning(items: list[dict[str, object]]) -> str:
    """Return the reasoning text if the server shows it, else its summary."""
    thoughts = [item for item in items if item.get("type") == "reasoning"]
    shown = [string(part.get("text")) for item in thoughts for part in _parts(item, "content")]
    summaries = [string(part.get("text")) for item in thoughts for part in _parts(item, "summary")]
    return "".join(shown) or "".join(summaries)


def _parts(item: dict[str, object], key: str) -> list[dict[str, object]]:
    found = item.get(key)
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
