"""What a failing endpoint costs: which requests are asked again, and what the last one says."""

import io
import json
import logging
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from endpoint import Behaviour, Endpoint, Exchange, drop, hang, no_quota, raw, status, stream, whole
from providers.asking import KEY, PROMPT, _bare_environment, asker, settings  # noqa: F401 - an autouse fixture

from agent.errors import EndpointError, EnvironmentFault
from agent.providers.openai_compat import OpenAICompat, list_models

SSE = "text/event-stream"
BODY = b'{"choices": [{"message": {"content": "half'


def event(data: str) -> Behaviour:
    return raw(f"data: {data}\n\ndata: [DONE]\n\n".encode(), kind=SSE)


TRANSIENT = {
    "429": status(429, "slow down", retry_after="0"),
    "429 in ms": status(429, "slow down", retry_after_ms=3),
    "408": status(408),
    "409": status(409),
    "500": status(500, "oops"),
    "503 page": raw(b"<html>down</html>", code=503, kind="text/html"),
    "no words": drop(),
    "dropped at the start": stream("abcdef", drop_after=0),
    "dropped in the middle": stream("abcdef", drop_after=3),
    "ended in the middle": stream("abcdef", finish_reason=None),
    "finished with an error": stream("abc", finish_reason="error"),
    "error in the stream": event('{"error": {"message": "overloaded", "code": 502}}'),
    "error in a good body": raw(b'{"error": {"message": "overloaded", "code": 429}}'),
    "no events": raw(b"", kind=SSE),
    "no choices": raw(b'{"choices": []}'),
    "no message": raw(b'{"choices": [{"index": 0, "finish_reason": "stop"}]}'),
    "no choices in the stream": event('{"choices": []}'),
    "wrong types": event('{"choices": [{"delta": 5}, 6], "usage": "much", "model": [1]}'),
    "HTML": raw(b"<!DOCTYPE html><p>hello", kind="text/html"),
    "broken JSON": raw(BODY),
    "broken JSON in the stream": event("{not json"),
    "no UTF-8": raw(b"data: \xff\xfe\x00\n\n", kind=SSE),
    "no JSON object": raw(b"[1, 2]"),
    "numbers in the stream": event("5"),
    "deep nesting": event("[" * 100_000),
    "empty body": raw(b""),
    "false gzip": raw(b"plain", headers={"Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("failing", TRANSIENT.values(), ids=TRANSIENT.keys())
def test_transient_failure_is_asked_again_as_a_whole(failing: Behaviour) -> None:
    with Endpoint([failing, stream("right")]) as endpoint:
        asked = asker(endpoint)
        completion = asked.ask()
    assert completion.text == "right"
    assert [retry.tries for retry in asked.retries] == [1]
    first, second = endpoint.completions
    assert first.body == second.body
    assert endpoint.peers == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("failing", "said", "mend"),
    [
        (status(400, "bad request"), "400: bad request", "options"),
        (status(401, "Incorrect API key"), "401: Incorrect API key", "OPENAI_API_KEY"),
        (status(402, "no balance"), "402: no balance", "billing"),
        (status(403, "not allowed"), "403: not allowed", "OPENAI_API_KEY"),
        (status(404, "no such model"), "404: no such model", "--model"),
        (no_quota(), "429: You exceeded your current quota", "billing"),
        (
            event('{"error": {"message": "gone", "code": "insufficient_quota"}}'),
            "reported an error: gone",
            "billing",
        ),
        (raw(b'{"error": {"message": "long", "code": 400}}'), "reported an error: long", "options"),
        (raw(b'{"error": "model not found"}', code=404), "404: model not found", "--model"),
        (raw(b'{"detail": [{"loc": ["body"]}]}', code=422), '422: [{"loc": ["body"]}]', "options"),
        (raw(b"<html>nginx</html>", code=404, kind="text/html"), "404: an HTML page", "/v1"),
        (raw(b"", code=401), "401 without a reason", "OPENAI_API_KEY"),
        (raw(b"", code=503, headers={"x-should-retry": "false"}), "503", "later"),
    ],
)
def test_hopeless_failure_is_final_at_once(failing: Behaviour, said: str, mend: str) -> None:
    with Endpoint([failing]) as endpoint:
        asked = asker(endpoint)
        message = asked.fail()
    assert said in message
    assert mend in message
    assert asked.retries == []
    assert len(endpoint.completions) == 1


def test_retries_end_and_say_so() -> None:
    with Endpoint([status(500, "still down")] * 500) as endpoint:
        asked = asker(endpoint, retry_for_s=0.3)
        message = asked.fail()
    tries = len(endpoint.completions)
    assert tries > 1
    assert f"500: still down (asked {tries} times)" in message
    assert len(asked.retries) == tries - 1
    assert sum(retry.wait_seconds for retry in asked.retries) <= 0.3


def test_waiting_that_would_outlast_the_limit_is_not_begun() -> None:
    with Endpoint([status(429, "slow down", retry_after="100")]) as endpoint:
        asked = asker(endpoint, retry_for_s=50)
        assert "429: slow down;" in asked.fail()
    assert asked.retries == []


def test_a_broken_stream_has_its_whole_time_for_retries() -> None:
    """The limit counts from the first failure, which came later than the limit is long."""
    with Endpoint([stream("abc", pause_s=0.2, drop_after=3), stream("ok")]) as endpoint:
        assert asker(endpoint, retry_for_s=0.3).ask().text == "ok"


def test_stated_waits_are_kept_and_grow_where_the_server_says_at_once() -> None:
    failing = [status(429, retry_after_ms=70), status(429, retry_after="0"), status(503, retry_after="0")]
    with Endpoint([*failing, stream("ok")]) as endpoint:
        asked = asker(endpoint, longest_wait_s=60)
        asked.ask()
    assert [retry.wait_seconds for retry in asked.retries] == [0.07, 0.1, 0.2]
    assert [retry.tries for retry in asked.retries] == [1, 2, 3]


@pytest.mark.parametrize("stated", ["3600", "-5", "nan", "inf", "soon", "31 Feb 2026"])
def test_unusable_waits_fall_back_to_the_exponential_one(stated: str) -> None:
    with Endpoint([status(429, retry_after=stated), stream("ok")]) as endpoint:
        asked = asker(endpoint)
        asked.ask()
    assert 0 <= asked.retries[0].wait_seconds <= 0.02


def test_wait_until_a_date() -> None:
    past = format_datetime(datetime.now(UTC) - timedelta(minutes=1), usegmt=True)
    future = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    with Endpoint([status(429, retry_after=past), status(429, retry_after=future)]) as endpoint:
        asked = asker(endpoint, retry_for_s=60, longest_wait_s=0)
        asked.fail()
    assert [retry.wait_seconds for retry in asked.retries] == [0]


@pytest.mark.parametrize(
    "silent", [hang(), stream("abcdef", hang_after=2)], ids=["no first byte", "in the middle"]
)
def test_silence_is_a_failure(silent: Behaviour) -> None:
    with Endpoint([silent, stream("ok")]) as endpoint:
        asked = asker(endpoint, idle_s=1.0)
        assert asked.ask().text == "ok"
    assert [retry.reason for retry in asked.retries] == ["the endpoint fell silent"]


def test_slow_drip_is_stopped_by_the_overall_limit() -> None:
    drip = stream("abc" * 1000, pieces=3000, pause_s=0.05)
    with Endpoint([drip, stream("ok")]) as endpoint:
        asked = asker(endpoint, timeout_s=10.0)
        assert asked.ask().text == "ok"
    assert [retry.reason for retry in asked.retries] == ["no whole answer within 10 s"]


def test_comments_do_not_keep_a_stream_alive_for_ever() -> None:
    def comments(exchange: Exchange) -> None:
        exchange.head(200, {"Content-Type": SSE, "Transfer-Encoding": "chunked"})
        while not exchange.closing.wait(0.05):
            exchange.chunk(b": PROCESSING\n\n")

    with Endpoint([comments]) as endpoint:
        assert "no whole answer within 1 s" in asker(endpoint, timeout_s=1.0, retry_for_s=0).fail()


def test_body_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.providers.openai_compat._LARGEST_BODY_BYTES", 1000)
    with Endpoint([stream("x" * 2000)]) as endpoint:
        assert "more than 1000 bytes" in asker(endpoint, retry_for_s=0).fail()


def test_nobody_listens() -> None:
    with Endpoint() as endpoint:
        pass
    asked = asker(endpoint, retry_for_s=0.1)
    message = asked.fail()
    assert "Connection refused" in message
    assert "is the server running" in message
    assert asked.retries
    with pytest.raises(EndpointError, match="Connection refused"):
        list_models(settings(endpoint.base_url))


def test_answered_request_is_never_sent_again() -> None:
    script: list[Behaviour] = [status(500), stream("one"), drop(), whole("two"), stream("three")]
    with Endpoint(script) as endpoint:
        asked = asker(endpoint)
        assert [asked.ask().text for _ in range(3)] == ["one", "two", "three"]
    assert len(endpoint.completions) == len(script)


def test_unusable_proxy_is_a_fault_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://127.0.0.1:1")
    provider = OpenAICompat(settings("http://127.0.0.1:9/v1"), on_retry=print)
    with pytest.raises(EnvironmentFault, match="proxy"):
        provider.complete(PROMPT)


ECHO = f"Incorrect API key provided: {KEY}. Also sk-other-abcdefgh and Authorization: Bearer {KEY}"


@pytest.mark.parametrize(
    "leaking",
    [
        status(401, ECHO),
        status(500, ECHO, retry_after="0"),
        status(400, ECHO + " temperature"),
        status(400, "x" * 290 + KEY),
        raw(ECHO.encode(), code=403, kind="text/plain"),
        event(json.dumps({"error": {"message": ECHO}})),
        raw(ECHO.encode(), kind="application/json"),
        drop(),
    ],
)
def test_the_key_is_shown_nowhere(
    leaking: Behaviour, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = io.StringIO()
    with caplog.at_level(logging.DEBUG), Endpoint([leaking] * 3) as endpoint:
        asked = asker(endpoint, retry_for_s=0.06, temperature=0.5)
        with pytest.raises(EndpointError) as caught:
            asked.ask()
    error = caught.value
    assert (error.__cause__, error.__context__) == (None, None)
    story = traceback.TracebackException.from_exception(error, capture_locals=True)
    shown.write("".join(story.format()) + repr(error))
    shown.write("".join(retry.model_dump_json() for retry in asked.retries))
    shown.write(repr(asked.provider) + repr(settings(endpoint.base_url)) + caplog.text)
    shown.write("".join(capsys.readouterr()))
    text = shown.getvalue()
    assert "Bearer" in endpoint.completions[0].headers["authorization"]
    assert "HTTP Request: POST" in text
    assert KEY[:12] not in text
    assert "sk-other" not in text


def test_echoed_key_does_not_reach_the_transcript() -> None:
    echo = f"You sent Bearer {KEY}."
    with Endpoint([stream(echo, reasoning=echo, request_id=KEY, finish_reason=KEY)]) as endpoint:
        completion = asker(endpoint).ask()
    assert completion.text == completion.reasoning == "You sent Bearer [key]."
    assert KEY not in completion.model_dump_json()
