"""HTTP server on the loopback interface that answers Chat Completions requests from a script.

Contract: the N-th completion request gets the N-th behaviour of the script; later ones get a 400. Every
request is kept in `received`. `/v1/models` lists the models. Requests and keys are not validated.

    with Endpoint([status(429, retry_after_ms=1), stream("hello")]) as endpoint:
        ... ask endpoint.base_url ...
        assert len(endpoint.completions) == 2
"""

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

MODEL = "local-model-2026"
COMPLETIONS = ("/chat/completions", "/responses")
USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "completion_tokens_details": {"reasoning_tokens": 3},
}


@dataclass(frozen=True)
class Received:
    """One received request."""

    method: str
    path: str
    headers: dict[str, str]
    """Headers by lower-case name."""
    body: dict[str, Any]


class Exchange:
    """One request with the methods to answer it."""

    def __init__(self, handler: BaseHTTPRequestHandler, request: Received, closing: threading.Event) -> None:
        self.request = request
        self.closing = closing
        """Event that is set when the server shuts down; waiting behaviours must stop then."""
        self._handler = handler

    def head(self, code: int, headers: dict[str, str]) -> None:
        self._handler.send_response(code)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()

    def send(self, data: bytes) -> None:
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def chunk(self, data: bytes) -> None:
        """Send one chunk of a chunked body. An empty chunk ends the body."""
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def reply(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.head(code, headers | {"Content-Length": str(len(body))})
        self.send(body)

    def drop(self) -> None:
        """Close the connection, even in the middle of a body."""
        with suppress(OSError):  # The client may already have disconnected.
            self._handler.connection.shutdown(socket.SHUT_RDWR)
        self._handler.close_connection = True


Behaviour = Callable[[Exchange], None]


@dataclass(frozen=True)
class stream:
    """Behaviour that streams server-sent events: the text in pieces, finish reason, usage and [DONE]."""

    text: str
    reasoning: str = ""
    reasoning_key: str = "reasoning_content"
    pieces: int = 3
    usage: dict[str, Any] | None = field(default_factory=lambda: USAGE)
    finish_reason: str | None = "stop"
    drop_after: int | None = None
    """Number of events after which the connection is closed."""
    hang_after: int | None = None
    """Number of events after which nothing more is sent."""
    pause_s: float = 0.0
    """Seconds before each event."""
    comments: bool = False
    last: bytes = b"data: [DONE]\n\n"
    request_id: str = "req-1"

    def __call__(self, exchange: Exchange) -> None:
        headers = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
        exchange.head(200, headers | {"x-request-id": self.request_id})
        for number, event in enumerate(self._events(exchange.request)):
            if number == self.drop_after:
                return exchange.drop()
            if number == self.hang_after:
                exchange.closing.wait()
                return exchange.drop()
            if exchange.closing.wait(self.pause_s):
                return exchange.drop()
            if self.comments:
                exchange.chunk(b": PROCESSING\n\n")
            exchange.chunk(b"data: %s\n\n" % json.dumps(event).encode())
        exchange.chunk(self.last)
        return exchange.chunk(b"")

    def _events(self, request: Received) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{self.reasoning_key: piece} for piece in _split(self.reasoning, self.pieces)]
        deltas += [{"content": piece} for piece in _split(self.text, self.pieces)]
        events = [_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
        if self.finish_reason is not None:
            events.append(_chunk([{"index": 0, "delta": {}, "finish_reason": self.finish_reason}]))
        options = request.body.get("stream_options") or {}
        if self.usage is not None and options.get("include_usage"):
            events.append(_chunk([]) | {"usage": self.usage})
        return events


def _split(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // pieces))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "c-1",
        "object": "chat.completion.chunk",
        "model": MODEL,
        "system_fingerprint": "fp-1",
        "choices": choices,
    }


def whole(text: str | None, *, usage: dict[str, Any] | None = USAGE, **message: Any) -> Behaviour:
    """Answer with one JSON body, even if a stream was requested. `message` adds fields to the message."""
    finish = message.pop("finish_reason", "stop")
    said = {"role": "assistant", "content": text} | message
    body = _chunk([{"index": 0, "message": said, "finish_reason": finish}])
    return raw(json.dumps(body | ({} if usage is None else {"usage": usage})).encode())


def answer(text: str, **how: Any) -> Behaviour:
    """Answer with a stream if requested, otherwise with one JSON body."""
    streamed, at_once = stream(text, **how), whole(text)
    return lambda exchange: (streamed if exchange.request.body.get("stream") else at_once)(exchange)


def raw(
    body: bytes, *, code: int = 200, kind: str = "application/json", headers: dict[str, str] | None = None
) -> Behaviour:
    """Answer with exactly these bytes."""
    return lambda exchange: exchange.reply(code, body, {"Content-Type": kind} | (headers or {}))


def status(
    code: int,
    message: str = "scripted failure",
    *,
    error: dict[str, Any] | None = None,
    retry_after: str | None = None,
    retry_after_ms: float | None = None,
) -> Behaviour:
    """Answer with an error in OpenAI's format. `error` adds fields such as type, code and param."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    headers |= {} if retry_after_ms is None else {"retry-after-ms": str(retry_after_ms)}
    body = {"error": {"message": message, "type": "scripted", "param": None, "code": None} | (error or {})}
    return raw(json.dumps(body).encode(), code=code, headers=headers)


def no_quota() -> Behaviour:
    """Answer with the 429 for an exhausted quota, which waiting cannot fix."""
    return status(429, "You exceeded your current quota", error={"code": "insufficient_quota"})


def refusing(*names: str, then: Behaviour, param: bool = True, code: int = 400) -> Behaviour:
    """Refuse a request with one of the parameters, in OpenAI's words; otherwise behave as `then`."""

    def behave(exchange: Exchange) -> None:
        name = next((name for name in names if name in exchange.request.body), None)
        if name is None:
            return then(exchange)
        message = f"Unsupported parameter: '{name}' is not supported with this model."
        return status(code, message, error={"param": name} if param else None)(exchange)

    return behave


def drop() -> Behaviour:
    """Close the connection without an answer."""
    return lambda exchange: exchange.drop()


def hang() -> Behaviour:
    """Send nothing until the server shuts down."""

    def behave(exchange: Exchange) -> None:
        exchange.closing.wait()
        exchange.drop()

    return behave


class Endpoint:
    """Server that listens while its `with` block runs."""

    def __init__(self, script: Iterable[Behaviour] = (), *, models: Sequence[str] = (MODEL,)) -> None:
        self.received: list[Received] = []
        self.faults: list[BaseException] = []
        """Exceptions inside the server. The first one is raised at the end of the `with` block."""
        self.peers: set[str] = set()
        """Addresses of clients that connected."""
        self.listing: Behaviour = raw(json.dumps({"data": [{"id": name} for name in models]}).encode())
        self.arrived = threading.Event()
        """Event that is set by the first completion request."""
        self._script = iter(script)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._server.faults = self.faults
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def completions(self) -> list[Received]:
        """Return the completion requests in order of arrival."""
        return [request for request in self.received if request.path.endswith(COMPLETIONS)]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self.faults and kind is None:
            raise self.faults[0]

    def _answer(self, exchange: Exchange) -> None:
        with self._lock:
            self.received.append(exchange.request)
            completion = exchange.request.path.endswith(COMPLETIONS)
            behave = self.listing
            if completion:
                behave = next(self._script, status(400, "the script of the test endpoint is over"))
        if completion:
            self.arrived.set()
        elif not exchange.request.path.endswith("/models"):
            behave = status(404, f"nothing at {exchange.request.path}")
        behave(exchange)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._serve()

            def do_POST(self) -> None:
                self._serve()

            def _serve(self) -> None:
                endpoint.peers.add(self.client_address[0])
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else {}
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Received(self.command, self.path, headers, body)
                endpoint._answer(Exchange(self, request, endpoint._closing))

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing, to keep pytest's output readable."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    faults: list[BaseException]

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep exceptions for the test, except for disconnecting clients."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError):
            self.faults.append(error)
