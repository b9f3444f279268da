"""The Responses API: what a request looks like, and its answer while it arrives.

Contract: a request has the options that the user set and no others; the answer is not kept by the endpoint
(`store` is false). What the API has no word for (`seed`, `stop`) is refused when the settings are made, never
left out in silence. Knows no HTTP and sends nothing.

https://platform.openai.com/docs/api-reference/responses, as also spoken by vLLM, llama.cpp, LM Studio and
`transformers serve`.
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
"""How the end of a response is named, in the words of Chat Completions."""


def body(settings: EndpointSettings, prompt: Prompt, *, instructed: bool) -> dict[str, object]:
    """The parameters of one request; those that are not set are None. `instructed`: the system message goes
    into `instructions`, else it leads the input, for servers that do not take that field."""
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
    """The error that an event or a whole response tells of; None where it tells of none."""
    if not isinstance(chunk, dict):
        return None
    if chunk.get("type") == "error":
        return chunk.get("error") or chunk
    response = _response(chunk)
    return response.get("error") or None if response.get("status") == "failed" else None


def _response(chunk: dict[str, object]) -> dict[str, object]:
    """The response object that an event carries, or that the body is."""
    inner = chunk.get("response")
    return inner if isinstance(inner, dict) else chunk


class ResponsesDraft(Draft):
    """Collects events; a whole response counts as its last one."""

    def add(self, chunk: object) -> None:
        """Takes in one decoded event or body; ignores what it does not know."""
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
    """The thinking itself where the server shows it, else its summary."""
    thoughts = [item for item in items if item.get("type") == "reasoning"]
    shown = [string(part.get("text")) for item in thoughts for part in _parts(item, "content")]
    summaries = [string(part.get("text")) for item in thoughts for part in _parts(item, "summary")]
    return "".join(shown) or "".join(summaries)


def _parts(item: dict[str, object], key: str) -> list[dict[str, object]]:
    found = item.get(key)
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
