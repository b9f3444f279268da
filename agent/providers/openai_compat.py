"""Answers from an OpenAI-compatible endpoint, through Chat Completions or the Responses API.

Contract: one call of `complete` returns one complete answer or raises EndpointError. A partial answer is
never returned, and a received answer is never requested again. Retries, waits and changed options are
announced through `on_retry` before they happen. The key appears only in the Authorization header. No
connection is kept between calls, since judging takes minutes in between. This module does not interpret
answers and does not read the environment. The SDK itself honours OPENAI_ORG_ID, OPENAI_PROJECT_ID,
OPENAI_CUSTOM_HEADERS and the proxy variables.
"""

import json
import re
import time
from collections.abc import Callable, Iterator

import httpx2
import openai
from openai import OpenAI, Stream

from agent.errors import EndpointError, EnvironmentFault
from agent.providers import faults, responses
from agent.providers.answer import Draft
from agent.providers.endpoint import EndpointSettings, StreamProgress
from agent.providers.quirks import Dialect
from agent.providers.responses import ResponsesDraft
from agent.providers.retry import RequestFailed, Waits, retrying
from agent.records import Completion, Prompt, RetryScheduled

__all__ = ["EndpointSettings", "OpenAICompat", "StreamProgress", "list_models"]

_LARGEST_BODY_BYTES = 64 * 2**20
_LISTING_TIMEOUT_S = 20.0


class OpenAICompat:
    """A provider for one model at one endpoint. It remembers the options that the endpoint refuses."""

    name = "openai_compat"

    def __init__(
        self,
        settings: EndpointSettings,
        *,
        on_retry: Callable[[RetryScheduled], None],
        on_progress: Callable[[StreamProgress], None] | None = None,
    ) -> None:
        """Check the settings without a request. Raises UsageError if no request can be made with them."""
        settings.check()
        self._settings = settings
        self._on_retry = on_retry
        self._on_progress = on_progress
        self._dialect = Dialect.first_guess(settings)

    def complete(self, prompt: Prompt) -> Completion:
        """Return the answer to one prompt, as received.

        Raises EndpointError if the endpoint failed for good.
        """
        retries = retrying(Waits(self._settings.retry_for_s, self._settings.longest_wait_s), self._on_retry)
        with _client(self._settings) as client:
            try:
                return retries(self._ask, client, prompt)
            except RequestFailed as error:
                failed = error
        tries = retries.statistics.get("attempt_number", 1)
        raise _final(failed, self._settings, tries=int(tries))

    def _ask(self, client: OpenAI, prompt: Prompt) -> Completion:
        """Make one try. After a refused option, the changed request is sent at once within the same try."""
        tries = 0
        while True:
            tries += 1
            dialect = self._dialect
            body = dialect.body(self._settings, prompt)
            try:
                return self._exchange(client, body)
            except RequestFailed as error:
                # Another thread may have changed the dialect since.
                change = dialect.after(error, body)
                if change is None:
                    raise
                self._dialect, said = change
            self._on_retry(RetryScheduled(reason=f"the endpoint {said}", wait_seconds=0, tries=tries))

    def _exchange(self, client: OpenAI, body: dict[str, object]) -> Completion:
        started = time.monotonic()
        draft = ResponsesDraft() if self._settings.api == "responses" else Draft()
        try:
            request_id = self._receive(client, body, draft, started)
        except faults.FAULTS as error:
            failed = faults.failure(error, self._settings)
            failed.begun = draft.answered or faults.fell_silent(error)
        except RequestFailed as error:
            failed = error
            failed.begun = draft.answered
        else:
            return self._finished(draft, time.monotonic() - started, request_id)
        # The error is raised outside the handler, since an SDK exception as its context would keep the
        # request, and so the key.
        raise failed

    def _receive(self, client: OpenAI, body: dict[str, object], draft: Draft, started: float) -> str | None:
        """Send one request, fill the draft, and return the request id that the server reports."""
        settings = self._settings
        # If the answer is not streamed, the server is silent for the whole generation.
        silence_s = min(settings.idle_s, settings.timeout_s) if body.get("stream") else settings.timeout_s
        timeout = openai.Timeout(silence_s, connect=min(settings.connect_s, settings.timeout_s))
        api = client.responses if settings.api == "responses" else client.chat.completions
        create: Callable[..., object] = api.with_streaming_response.create
        with create(**body, extra_body=settings.extra_body or None, timeout=timeout) as response:  # type: ignore[attr-defined]
            http: httpx2.Response = response.http_response
            _bound(http, started, settings.timeout_s)
            content = http.headers.get("content-type", "")
            # Some servers ignore `stream` and always send a stream, or always a body.
            streamed = "event-stream" in content or (
                body.get("stream") and not re.search("json|html", content)
            )
            if streamed:
                self._take_stream(Stream(cast_to=object, response=http, client=client), draft, started)
            else:
                self._take_whole(http, draft)
            identity: str | None = http.headers.get("x-request-id")
            return identity

    def _take_stream(self, stream: Stream[object], draft: Draft, started: float) -> None:
        try:
            for chunk in stream:
                self._refuse_error(chunk)
                draft.add(chunk)
                if self._on_progress is not None:
                    self._on_progress(
                        StreamProgress(
                            text_characters=draft.text_characters,
                            reasoning_characters=draft.reasoning_characters,
                            seconds=time.monotonic() - started,
                        )
                    )
        except (RequestFailed, *faults.FAULTS):
            # After the finish reason the answer is complete; only the token counts can be lost.
            if draft.finish_reason is None:
                raise
        if not draft.answered:
            raise faults.garbage("a stream without an answer")
        if draft.finish_reason is None:
            raise faults.incomplete("the stream ended in the middle of the answer")

    def _take_whole(self, http: httpx2.Response, draft: Draft) -> None:
        body = _json(http)
        if body.get("error"):
            raise faults.reported(body["error"], self._settings)
        self._refuse_error(body)
        draft.add(body)
        if not draft.answered:
            raise faults.garbage("a reply without an answer")

    def _refuse_error(self, chunk: object) -> None:
        """Raise RequestFailed if the Responses API sent an error instead of an answer."""
        error = responses.failed(chunk) if self._settings.api == "responses" else None
        if error is not None:
            raise faults.reported(error, self._settings)

    def _finished(self, draft: Draft, seconds: float, request_id: str | None) -> Completion:
        if draft.finish_reason == "error":
            raise faults.incomplete("the endpoint broke the answer off with an error")
        # All text is masked, since an endpoint that echoes its headers must not leak the key into a
        # transcript.
        mask = self._settings.mask
        return draft.completion(provider=self.name, seconds=seconds, request_id=request_id, mask=mask)


class _Bounded(httpx2.SyncByteStream):
    """A response body with a time and size limit. It also counts stream comments, which the SDK hides."""

    def __init__(self, stream: httpx2.SyncByteStream, deadline: float, timeout_s: float) -> None:
        self._stream = stream
        self._deadline = deadline
        self._timeout_s = timeout_s

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._stream:
            size += len(piece)
            if size > _LARGEST_BODY_BYTES:
                raise faults.garbage(f"more than {_LARGEST_BODY_BYTES} bytes")
            if time.monotonic() > self._deadline:
                raise faults.incomplete(f"no whole answer within {self._timeout_s:g} s")
            yield piece

    def close(self) -> None:
        self._stream.close()


def _bound(http: httpx2.Response, started: float, timeout_s: float) -> None:
    if isinstance(http.stream, httpx2.SyncByteStream):
        http.stream = _Bounded(http.stream, started + timeout_s, timeout_s)


def list_models(settings: EndpointSettings) -> tuple[str, ...]:
    """Return the sorted names of the endpoint's models. Makes one request without retries.

    Raises EndpointError if the request fails.
    """
    timeout_s = min(settings.timeout_s, _LISTING_TIMEOUT_S)
    started = time.monotonic()
    with _client(settings) as client:
        try:
            with client.models.with_streaming_response.list(timeout=timeout_s) as response:
                http = response.http_response
                _bound(http, started, timeout_s)
                return _names(_json(http))
        except RequestFailed as error:
            failed = error
        except faults.FAULTS as error:
            failed = faults.failure(error, settings)
    raise _final(failed, settings, tries=1)


def _names(body: dict[str, object]) -> tuple[str, ...]:
    listed = body.get("data")
    if not isinstance(listed, list):
        raise faults.garbage("no list of models")
    return tuple(sorted(str(model["id"]) for model in listed if isinstance(model, dict) and model.get("id")))


def _json(http: httpx2.Response) -> dict[str, object]:
    body = http.read()
    if not body.strip():
        raise faults.garbage("an empty body")
    if "html" in http.headers.get("content-type", ""):
        raise faults.garbage("an HTML page")
    decoded = json.loads(body)
    if not isinstance(decoded, dict):
        raise faults.garbage("JSON that is no answer")
    return decoded


def _client(settings: EndpointSettings) -> OpenAI:
    """Return a client for one call. Raises EnvironmentFault for unusable proxy or certificate settings."""
    try:
        client = OpenAI(
            api_key=settings.key,
            base_url=settings.url,
            max_retries=0,
            # The header is explicit, so that an Authorization in OPENAI_CUSTOM_HEADERS cannot replace the
            # key.
            default_headers={"Authorization": f"Bearer {settings.key}"},
        )
    except (ImportError, OSError, ValueError, openai.OpenAIError) as error:
        raise EnvironmentFault(
            f"no request can be made to {settings.where}: {settings.scrub(str(error))};"
            " check the proxy variables (HTTPS_PROXY, ALL_PROXY) and SSL_CERT_FILE"
        ) from None
    # An empty value counts as unset; the SDK would send an empty header.
    client.organization = client.organization or None
    client.project = client.project or None
    return client


def _final(failed: RequestFailed, settings: EndpointSettings, *, tries: int) -> EndpointError:
    times = f" (asked {tries} times)" if tries > 1 else ""
    return EndpointError(f"{settings.where}: {failed.what}{times}; {failed.mend}")
