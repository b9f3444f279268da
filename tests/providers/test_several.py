"""Several models behind one provider."""

import pytest
from endpoint import Endpoint, status, stream
from providers.asking import PROMPT, _bare_environment, settings  # noqa: F401 - an autouse fixture
from verdicts import refused, verified

from agent.errors import EndpointError
from agent.providers.openai_compat import OpenAICompat
from agent.providers.several import Several
from agent.records import Completed, Completion, Evaluated


def several(endpoint: Endpoint, *models: str) -> Several:
    return Several(
        {
            model: OpenAICompat(settings(endpoint.base_url, model=model, retry_for_s=0), on_retry=print)
            for model in models
        }
    )


def test_questions_go_where_they_yielded_most_and_the_answer_says_so() -> None:
    with Endpoint([stream("x")] * 12) as endpoint:
        provider = several(endpoint, "good", "bad")
        for number in range(1, 13):
            completion = provider.complete(PROMPT)
            provider.hear(Completed(round=number, prompt_id=PROMPT.id, completion=completion))
            attempt = verified(number, 4.0) if completion.asked == "good" else refused(number)
            provider.hear(Evaluated(round=number, attempt=attempt))
    asked = [request.body["model"] for request in endpoint.completions]
    assert asked[:2] == ["good", "bad"]
    assert asked.count("good") > asked.count("bad") > 0
    assert provider.name == "openai_compat"


def test_a_resumed_run_goes_on_with_what_it_knew() -> None:
    with Endpoint([stream("x")] * 3) as endpoint:
        first = several(endpoint, "a", "b")
        completion = first.complete(PROMPT)
        resumed = several(endpoint, "a", "b")
        resumed.hear(Completed(round=1, prompt_id=PROMPT.id, completion=completion))
        assert [resumed.complete(PROMPT).asked, completion.asked] == ["b", "a"]


def test_requests_of_a_resumed_run_count_although_it_heard_earlier_answers() -> None:
    with Endpoint([stream("x")] * 6) as endpoint:
        resumed = several(endpoint, "a", "b")
        for number in (1, 2):
            completion = Completion(provider="x", model=None, text="", asked="a")
            resumed.hear(Completed(round=number, prompt_id=PROMPT.id, completion=completion))
            completion = Completion(provider="x", model=None, text="", asked="b")
            resumed.hear(Completed(round=number + 2, prompt_id=PROMPT.id, completion=completion))
        assert [resumed.complete(PROMPT).asked for _ in range(4)] == ["a", "b", "a", "b"]


def test_an_open_question_counts_as_asked_and_a_failed_one_does_not() -> None:
    with Endpoint([stream("x"), status(401, "no"), stream("y")]) as endpoint:
        provider = several(endpoint, "a", "b")
        assert provider.complete(PROMPT).asked == "a"
        with pytest.raises(EndpointError):
            provider.complete(PROMPT)
        assert provider.complete(PROMPT).asked == "b"
    assert [request.body["model"] for request in endpoint.completions] == ["a", "b", "b"]
