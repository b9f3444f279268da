"""Answers of every shape, from the real client against a real server."""

import json
from typing import Any

import pytest
from endpoint import MODEL, Endpoint, answer, raw, refusing, status, stream, whole
from providers.asking import KEY, PROMPT, _bare_environment, asker, settings  # noqa: F401 - an autouse fixture

from agent.errors import EndpointError, UsageError
from agent.providers.openai_compat import OpenAICompat, list_models
from agent.records import Usage

CODE = 'before\n```python\nclass ModelNew:\n    text = "π ≠ 3 🙂"\n```\nafter\n'


def test_streamed_answer_with_usage() -> None:
    with Endpoint([stream(CODE, pieces=7, comments=True)]) as endpoint:
        asked = asker(endpoint)
        completion = asked.ask()
    assert completion.text == CODE
    assert completion.reasoning is None
    assert completion.usage == Usage(input_tokens=11, output_tokens=7, reasoning_tokens=3)
    assert completion.finish_reason == "stop"
    assert (completion.provider, completion.model) == ("openai_compat", MODEL)
    assert (completion.request_id, completion.system_fingerprint) == ("req-1", "fp-1")
    assert completion.seconds is not None
    assert asked.retries == []
    assert len(endpoint.completions) == 1


def test_request_holds_the_prompt_and_nothing_that_was_not_set() -> None:
    with Endpoint([stream("x")]) as endpoint:
        asker(endpoint).ask()
    request = endpoint.completions[0]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "some-model",
        "messages": [message.model_dump() for message in PROMPT.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_request_holds_every_option_that_was_set() -> None:
    options = {"temperature": 0.2, "seed": 7, "reasoning_effort": "high", "stop": ["</file>"]}
    with Endpoint([stream("x")]) as endpoint:
        asker(endpoint, max_output_tokens=99, extra_body={"top_k": 20}, **options).ask()
    sent = endpoint.completions[0].body
    assert sent.items() >= {**options, "max_tokens": 99, "top_k": 20}.items()


def test_tokens_from_the_cache_and_the_price_are_kept() -> None:
    usage = {"prompt_tokens": 11, "prompt_tokens_details": {"cached_tokens": 8}, "cost": 0.5}
    with Endpoint([stream("x", usage=usage)]) as endpoint:
        completion = asker(endpoint).ask()
    assert (completion.usage, completion.cost_usd) == (Usage(input_tokens=11, cached_tokens=8), 0.5)


def test_a_whole_answer_is_asked_for_where_streams_are_off() -> None:
    with Endpoint([answer("x"), stream("y")]) as endpoint:
        asked = asker(endpoint, stream=False)
        # The second server streams all the same.
        assert [asked.ask().text, asked.ask().text] == ["x", "y"]
    assert endpoint.completions[0].body["stream"] is False
    assert "stream_options" not in endpoint.completions[0].body


def test_progress_grows_to_the_whole_answer() -> None:
    with Endpoint([stream("abcdef", reasoning="hm" * 5)]) as endpoint:
        asked = asker(endpoint)
        asked.ask()
    counts = [(step.reasoning_characters, step.text_characters) for step in asked.progress]
    assert counts == sorted(counts)
    assert counts[-1] == (10, 6)
    assert len(set(counts)) > 3


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_apart_from_the_text(key: str) -> None:
    with Endpoint([stream("answer", reasoning="class Draft: pass", reasoning_key=key)]) as endpoint:
        completion = asker(endpoint).ask()
    assert (completion.text, completion.reasoning) == ("answer", "class Draft: pass")


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning": "because"},
        {"reasoning_content": "because"},
        {"reasoning": "because", "reasoning_details": [{"type": "reasoning.text", "text": "because"}]},
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "be"},
                {"summary": "cause"},
                5,
                {"text": 6},
            ]
        },
    ],
)
def test_reasoning_of_a_whole_answer_is_not_repeated(message: dict[str, Any]) -> None:
    with Endpoint([whole("answer", **message)]) as endpoint:
        completion = asker(endpoint).ask()
    assert (completion.text, completion.reasoning) == ("answer", "because")


def test_typed_content_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "because"}]},
        {"type": "text", "text": "answer"},
    ]
    with Endpoint([whole(None, content=parts)]) as endpoint:
        completion = asker(endpoint).ask()
    assert (completion.text, completion.reasoning) == ("answer", "because")


def test_inline_thinking_stays_as_received() -> None:
    text = "<think>class ModelNew: ...</think>\nanswer"
    with Endpoint([stream(text)]) as endpoint:
        completion = asker(endpoint).ask()
    assert (completion.text, completion.reasoning) == (text, None)


def test_missing_usage_is_unknown_not_zero() -> None:
    with Endpoint([stream("x", usage=None), whole("x", usage=None)]) as endpoint:
        asked = asker(endpoint)
        assert [asked.ask().usage, asked.ask().usage] == [Usage(), Usage()]


def test_malformed_usage_is_unknown() -> None:
    usage = {"prompt_tokens": "11", "completion_tokens": -1, "completion_tokens_details": [True]}
    with Endpoint([stream("x", usage=usage)]) as endpoint:
        assert asker(endpoint).ask().usage == Usage()


def test_cut_off_answer_is_returned_with_its_reason() -> None:
    with Endpoint([stream("class ModelN", finish_reason="length")]) as endpoint:
        completion = asker(endpoint).ask()
    assert (completion.text, completion.finish_reason) == ("class ModelN", "length")
    assert len(endpoint.completions) == 1


def test_answer_without_text_is_an_answer() -> None:
    with Endpoint([stream("", reasoning="only thought", finish_reason="length")]) as endpoint:
        completion = asker(endpoint).ask()
    assert (completion.text, completion.reasoning) == ("", "only thought")


def test_model_that_declines_is_quoted() -> None:
    with Endpoint([whole(None, refusal="I cannot help with that.")]) as endpoint:
        assert asker(endpoint).ask().text == "I cannot help with that."


def test_lone_surrogates_do_not_reach_the_transcript() -> None:
    halves = (
        b'{"choices": [{"message": {"content": "a \\ud83d\\ude42 b \\ud83d c"}, "finish_reason": "stop"}]}'
    )
    with Endpoint([raw(halves)]) as endpoint:
        assert asker(endpoint).ask().text == "a 🙂 b \ufffd c"


def test_server_that_ignores_stream_is_not_asked_again() -> None:
    with Endpoint([whole(CODE)]) as endpoint:
        completion = asker(endpoint).ask()
    assert (completion.text, completion.usage.output_tokens) == (CODE, 7)
    assert len(endpoint.completions) == 1


def test_break_after_the_finish_reason_costs_only_the_usage() -> None:
    with Endpoint([stream("abc", drop_after=5)]) as endpoint:
        asked = asker(endpoint)
        completion = asked.ask()
    assert (completion.text, completion.usage) == ("abc", Usage())
    assert asked.retries == []


@pytest.mark.parametrize("param", [True, False], ids=["param field", "words only"])
@pytest.mark.parametrize("code", [400, 422])
@pytest.mark.parametrize(
    ("refused", "instead"),
    [
        ("max_tokens", {"max_completion_tokens": 64}),
        ("temperature", {}),
        ("seed", {}),
        ("stop", {}),
        ("reasoning_effort", {}),
        ("stream_options", {"stream": True}),
        ("stream", {}),
    ],
)
def test_refused_parameter_is_swapped_or_dropped_and_remembered(
    refused: str, instead: dict[str, Any], code: int, param: bool
) -> None:
    options = {"temperature": 0.2, "seed": 7, "reasoning_effort": "low", "stop": ("x",)}
    options |= {"max_output_tokens": 64}
    endpoint = Endpoint([refusing(refused, then=answer("ok"), code=code, param=param)] * 3)
    with endpoint:
        asked = asker(endpoint, **options)
        assert [asked.ask().text, asked.ask().text] == ["ok", "ok"]
    first, second, third = (request.body for request in endpoint.completions)
    assert second == third
    lost = {refused} | ({"stream_options"} if refused == "stream" else set())
    assert second == {k: v for k, v in first.items() if k not in lost} | instead
    assert len(asked.retries) == 1
    assert f"`{refused}`" in asked.retries[0].reason


def test_limit_is_swapped_back_where_the_new_name_is_unknown() -> None:
    wanted = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    script = [status(400, wanted), status(400, "Unknown parameter: max_completion_tokens")]
    with Endpoint(script) as endpoint:
        message = asker(endpoint, max_output_tokens=64).fail()
    # Never dropped: the limit is the user's bound on cost.
    assert "Unknown parameter: max_completion_tokens" in message
    assert "max_completion_tokens" in endpoint.completions[1].body
    assert len(endpoint.completions) == 2


def test_several_refusals_one_after_the_other() -> None:
    refuses = refusing("temperature", "max_tokens", "stream_options", then=answer("ok"))
    with Endpoint([refuses] * 4) as endpoint:
        asked = asker(endpoint, temperature=1.0, max_output_tokens=5)
        assert asked.ask().text == "ok"
    assert [retry.tries for retry in asked.retries] == [1, 2, 3]


@pytest.mark.parametrize("words", ["System role not supported", "messages[0].role does not support 'system'"])
def test_refused_system_role_leads_the_user_message(words: str) -> None:
    with Endpoint([status(400, words), answer("ok")]) as endpoint:
        assert asker(endpoint).ask().text == "ok"
    message = {"role": "user", "content": "You write CUDA.\n\nA kernel, please."}
    assert endpoint.completions[1].body["messages"] == [message]


def test_refusal_without_a_known_name_is_final() -> None:
    with Endpoint([status(400, "maximum context length is 4096 tokens")]) as endpoint:
        asked = asker(endpoint, temperature=1.0)
        assert "400: maximum context length is 4096 tokens" in asked.fail()
    assert asked.retries == []


def test_models_are_listed() -> None:
    with Endpoint(models=["b", "a"]) as endpoint:
        assert list_models(settings(endpoint.base_url, model="")) == ("a", "b")
        assert endpoint.received[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "listing", [raw(b"<html>", kind="text/html"), raw(b"[]"), raw(b"{}"), raw(b"{"), status(401, "bad key")]
)
def test_list_that_is_none_is_one_line(listing: Any) -> None:
    with Endpoint() as endpoint:
        endpoint.listing = listing
        with pytest.raises(
            EndpointError, match=r"http://127\.0\.0\.1:\d+/v1: (the endpoint sent|401: bad key)"
        ):
            list_models(settings(endpoint.base_url))
    assert len(endpoint.received) == 1


def test_a_model_must_be_named() -> None:
    with pytest.raises(UsageError, match="--model"):
        OpenAICompat(settings("http://127.0.0.1:9/v1", model=""), on_retry=print)


def test_empty_organisation_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://192.0.2.1/v1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer another")
    with Endpoint([stream("ok")]) as endpoint:
        asker(endpoint).ask()
    headers = endpoint.completions[0].headers
    assert "openai-organization" not in headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "another" not in json.dumps(headers)
