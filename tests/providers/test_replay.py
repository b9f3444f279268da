"""Stored and scripted answers."""

import pytest

from agent.errors import EndpointError
from agent.protocols import Provider
from agent.providers.replay import Replay
from agent.providers.scripted import Scripted
from agent.records import Completion, Message, Prompt


def prompt(text: str) -> Prompt:
    return Prompt(template="generate", messages=(Message(role="user", content=text),))


def stored(text: str) -> Completion:
    return Completion(provider="openai_compat", model="some-model", text=text, finish_reason="stop")


ANSWERS = [(prompt("a").id, stored("a1")), (prompt("b").id, stored("b1")), (prompt("a").id, stored("a2"))]


def test_matched_by_prompt_in_any_order() -> None:
    replay = Replay(ANSWERS, in_order=False, source="run-7")
    assert [replay.complete(prompt(text)) for text in "baa"] == [stored("b1"), stored("a1"), stored("a2")]


def test_a_miss_names_the_run_and_the_way_out() -> None:
    replay = Replay(ANSWERS, in_order=False, source="run-7")
    with pytest.raises(EndpointError, match=r"run-7: no stored answer .* --in-order"):
        replay.complete(prompt("c"))


def test_used_up_prompt_is_a_miss() -> None:
    replay = Replay(ANSWERS, in_order=False, source="run-7")
    replay.complete(prompt("b"))
    with pytest.raises(EndpointError, match=r"run-7: every stored answer .* is used up; --in-order"):
        replay.complete(prompt("b"))


def test_in_order_whatever_the_prompt() -> None:
    replay = Replay(ANSWERS, in_order=True, source="run-7")
    assert [replay.complete(prompt("z")).text for _ in ANSWERS] == ["a1", "b1", "a2"]
    with pytest.raises(EndpointError, match="run-7: all 3 stored answers are used up"):
        replay.complete(prompt("z"))


def test_scripted_answers_in_order_then_fails() -> None:
    scripted = Scripted(["one", stored("two")])
    first = scripted.complete(prompt("x"))
    assert (first.provider, first.model, first.text, first.finish_reason) == ("scripted", None, "one", "stop")
    assert scripted.complete(prompt("x")) == stored("two")
    with pytest.raises(EndpointError, match="all 2 answers are used up"):
        scripted.complete(prompt("x"))


def test_both_are_providers() -> None:
    providers: list[Provider] = [Replay([], in_order=True, source="recorded/x"), Scripted([])]
    assert [provider.name for provider in providers] == ["replay:recorded/x", "scripted"]
