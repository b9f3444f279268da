"""Behaviours of the test endpoint for the Responses API; see `endpoint`."""

import json
from dataclasses import dataclass, field
from typing import Any

from endpoint import MODEL, Behaviour, Exchange, raw

USAGE = {
    "input_tokens": 11,
    "output_tokens": 7,
    "input_tokens_details": {"cached_tokens": 5},
    "output_tokens_details": {"reasoning_tokens": 3},
}


def response(text: str, *, reasoning: str = "", **fields: Any) -> dict[str, Any]:
    """Return a complete response object."""
    output: list[dict[str, Any]] = []
    if reasoning:
        output.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": reasoning}]})
    content = [{"type": "output_text", "text": text, "annotations": []}]
    output.append({"type": "message", "role": "assistant", "content": content})
    body = {"object": "response", "id": "resp-1", "model": MODEL, "status": "completed", "error": None}
    return body | {"output": output, "usage": USAGE} | fields


def whole(text: str, **fields: Any) -> Behaviour:
    """Answer with one JSON body, even if a stream was requested."""
    return raw(json.dumps(response(text, **fields)).encode())


@dataclass(frozen=True)
class events:
    """Behaviour that streams named server-sent events, as the API does, without [DONE]."""

    text: str
    reasoning: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the final response object."""
    end: str = "response.completed"
    drop_after: int | None = None
    """Number of events after which the connection is closed."""

    def __call__(self, exchange: Exchange) -> None:
        exchange.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for number, event in enumerate(self._events()):
            if number == self.drop_after:
                return exchange.drop()
            exchange.chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return exchange.chunk(b"")

    def _events(self) -> list[dict[str, Any]]:
        begun = response("", output=[], status="in_progress", usage=None)
        thoughts = [{"type": "response.reasoning_summary_text.delta", "delta": self.reasoning}]
        halves = self.text[: len(self.text) // 2], self.text[len(self.text) // 2 :]
        whole = response(self.text, reasoning=self.reasoning, **self.fields)
        return [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "item": {"type": "message", "content": []}},
            *(thoughts if self.reasoning else []),
            *({"type": "response.output_text.delta", "delta": half} for half in halves),
            {"type": "response.output_text.done", "text": self.text},
            {"type": self.end, "response": whole},
        ]
