"""Answers through the Responses API, from the real client against a real server."""

import json
from typing import Any

import pytest
from endpoint import MODEL, Endpoint, raw, refusing
from providers.asking import PROMPT, _bare_environment, asker  # noqa: F401 - an autouse fixture
from responses_endpoint import events, response, whole

from agent.errors import UsageError
from agent.records import Usage

CODE = 'before\n```python\nclass ModelNew:\n    text = "π ≠ 3 🙂"\n```\nafter\n'
ALL = Usage(input_tokens=11, output_tokens=7, reasoning_tokens=3, cached_tokens=5)


@pytest.mark.parametrize(
    "behaviour", [events(CODE, "hm"), whole(CODE, reasoning="hm")], ids=["stream", "body"]
)
def test_answer_with_reasoning_and_usage(behaviour: Any) -> None:
    with Endpoint([behaviour]) as endpoint:
        asked = asker(endpoint, api="responses")
        completion = asked.ask()
    assert (completion.text, completion.reasoning, completion.usage) == (CODE, "hm", ALL)
    assert (completion.model, completion.finish_reason) == (MODEL, "stop")
    assert asked.retries == []


def test_request_holds_the_prompt_and_what_was_set() -> None:
    options = {"temperature": 0.2, "reasoning_effort": "high", "extra_body": {"top_k": 5}}
    with Endpoint([events("x")]) as endpoint:
        asker(endpoint, api="responses", max_output_tokens=99, **options).ask()
    (request,) = endpoint.completions
    assert request.path == "/v1/responses"
    system, user = PROMPT.messages
    assert request.body == {
        "model": "some-model", "instructions": system.content, "input": [user.model_dump()],
        "temperature": 0.2, "reasoning": {"effort": "high"}, "max_output_tokens": 99, "store": False,
        "stream": True, "top_k": 5,
    }  # fmt: skip


@pytest.mark.parametrize("streamed", [True, False])
def test_answer_that_was_cut_off_says_so(streamed: bool) -> None:
    fields = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    behaviour = events(CODE, "", fields, "response.incomplete") if streamed else whole(CODE, **fields)
    with Endpoint([behaviour]) as endpoint:
        completion = asker(endpoint, api="responses").ask()
    assert (completion.text, completion.finish_reason) == (CODE, "length")


def test_filtered_answer_keeps_the_reason() -> None:
    fields = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    with Endpoint([events("x", "", fields, "response.incomplete")]) as endpoint:
        assert asker(endpoint, api="responses").ask().finish_reason == "content_filter"


@pytest.mark.parametrize(
    "failing",
    [
        whole("", status="failed", output=[], error={"code": "server_error", "message": "out of memory"}),
        events("", "", {"status": "failed", "error": {"message": "out of memory"}}, "response.failed"),
        raw(
            b'event: error\ndata: {"type": "error", "code": "x", "message": "out of memory"}\n\n',
            kind="text/event-stream",
        ),
    ],
    ids=["body", "stream", "error event"],
)
def test_response_that_failed_is_asked_for_again(failing: Any) -> None:
    with Endpoint([failing, events("better")]) as endpoint:
        asked = asker(endpoint, api="responses")
        assert asked.ask().text == "better"
    assert [retry.reason for retry in asked.retries] == ["the endpoint reported an error: out of memory"]


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_stream_that_breaks_is_asked_for_again(cut: int) -> None:
    with Endpoint([events(CODE, drop_after=cut), events(CODE)]) as endpoint:
        asked = asker(endpoint, api="responses")
        assert asked.ask().text == CODE
    assert len(asked.retries) == 1


@pytest.mark.parametrize("body", [b"{}", b'{"status": "completed"}', b'{"output": 5, "usage": [1]}'])
def test_reply_without_an_answer_or_half_known_fields(body: bytes) -> None:
    with Endpoint([raw(body)] * 50) as endpoint:
        asked = asker(endpoint, api="responses", retry_for_s=0)
        if b"completed" in body:
            assert (asked.ask().text, asked.ask().usage) == ("", Usage())
        else:
            assert "a reply without an answer" in asked.fail()


@pytest.mark.parametrize("refused", ["store", "reasoning", "temperature", "stream"])
def test_refused_parameter_is_left_out_and_remembered(refused: str) -> None:
    def then(exchange: Any) -> None:
        (events("ok") if exchange.request.body.get("stream") else whole("ok"))(exchange)

    with Endpoint([refusing(refused, then=then)] * 3) as endpoint:
        asked = asker(endpoint, api="responses", temperature=0.5, reasoning_effort="low")
        assert [asked.ask().text, asked.ask().text] == ["ok", "ok"]
    first, second, third = (request.body for request in endpoint.completions)
    assert second == third == {key: value for key, value in first.items() if key != refused}


def test_server_without_instructions_gets_the_system_message_in_the_input() -> None:
    with Endpoint([refusing("instructions", then=events("ok"))] * 2) as endpoint:
        assert asker(endpoint, api="responses").ask().text == "ok"
    assert endpoint.completions[1].body["input"] == [message.model_dump() for message in PROMPT.messages]
    assert "instructions" not in endpoint.completions[1].body


def test_refused_limit_is_never_dropped() -> None:
    with Endpoint([refusing("max_output_tokens", then=events("ok"))]) as endpoint:
        asked = asker(endpoint, api="responses", max_output_tokens=5)
        assert "max_output_tokens" in asked.fail()


@pytest.mark.parametrize("option", [{"seed": 1}, {"stop": ("</code>",)}])
def test_options_that_the_api_lacks_are_refused(option: dict[str, Any]) -> None:
    with Endpoint() as endpoint, pytest.raises(UsageError, match="--api chat"):
        asker(endpoint, api="responses", **option)
    assert endpoint.received == []


def test_price_that_a_gateway_reports_is_kept() -> None:
    priced = response("x", usage={"input_tokens": 1, "output_tokens": 2, "cost": 0.0125})
    absurd = response("x", usage={"output_tokens": 2, "cost": "free"})
    with Endpoint([raw(json.dumps(priced).encode()), raw(json.dumps(absurd).encode())]) as endpoint:
        asked = asker(endpoint, api="responses")
        assert [asked.ask().cost_usd, asked.ask().cost_usd] == [0.0125, None]
