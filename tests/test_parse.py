"""Tests of parsing: the corpus in tests/replies, and edge cases that no file can show."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from agent import parse
from agent.errors import ReplyError
from agent.records import Candidate, Completion, Usage

REPLIES = Path(__file__).parent / "replies"
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((REPLIES / "expected.toml").read_text(encoding="utf-8"))
MODULE = "class ModelNew:\n    pass\n"


def answer(text: str, **fields: Any) -> Candidate:
    return parse.candidate(
        "level1/softmax", Completion(provider="scripted", model=None, text=text, **fields), None
    )


def check(reply: str, expected: dict[str, Any]) -> None:
    fields = {
        "finish_reason": expected.get("finish_reason", "stop"),
        "usage": Usage(output_tokens=expected.get("output_tokens")),
    }
    if "error" in expected:
        with pytest.raises(ReplyError) as caught:
            answer(reply, **fields)
        assert caught.value.kind == expected["error"]
        assert expected["says"] in str(caught.value)
        return
    candidate = answer(reply, **fields)
    marks = [line for line in candidate.source.splitlines() if line.startswith("# ")]
    assert marks == [f"# {expected['taken']}"]
    assert candidate.source.startswith("import torch\n")
    assert candidate.source.rstrip().endswith("return softmax_ext.softmax_cuda(x)")
    assert candidate.note == expected["note"]


def test_every_reply_has_its_expectation() -> None:
    assert {path.stem for path in REPLIES.glob("*.txt")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_right_block_is_taken(name: str) -> None:
    check((REPLIES / f"{name}.txt").read_text(encoding="utf-8"), EXPECTED[name])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_other_line_ends_change_nothing(name: str) -> None:
    text = (REPLIES / f"{name}.txt").read_text(encoding="utf-8")
    check("\ufeff" + text.replace("\n", "\r\n"), EXPECTED[name])


def test_the_candidate_carries_its_problem_origin_and_parent() -> None:
    completion = Completion(provider="p", model="m", text=f"```python\n{MODULE}```")
    candidate = parse.candidate("level1/softmax", completion, parent="0123456789abcdef")
    assert candidate == Candidate(
        problem="level1/softmax",
        source=MODULE,
        origin="model",
        parent="0123456789abcdef",
        note="block 1 of 1: the only one that defines ModelNew",
    )


def test_reasoning_beside_the_text_is_never_searched() -> None:
    with pytest.raises(ReplyError) as caught:
        answer("I would rather not.", reasoning=f"```python\n{MODULE}```")
    assert caught.value.kind == "no-code"


def test_an_unknown_length_is_not_given_as_a_number() -> None:
    with pytest.raises(ReplyError, match="cut off at the limit of its length,"):
        answer(f"```python\n{MODULE}```", finish_reason="length")


@pytest.mark.parametrize("reason", [None, "stop", "tool_calls"])
def test_other_reasons_to_finish_are_no_fault(reason: str | None) -> None:
    assert answer(f"```python\n{MODULE}```", finish_reason=reason).source == MODULE


def test_text_of_the_code_is_kept_to_the_letter() -> None:
    code = 'class ModelNew:\n    """Two  spaces, a tab\t, a form feed \x0c,   \n    blanks   \n    """\n'
    assert answer(f"```python\n{code}```").source == code


def test_thinking_on_one_line_and_twice() -> None:
    thinking = f"<think>short</think> An aside.\n<THINK>\n```python\n{MODULE}```\n</THINK>"
    assert answer(f"{thinking}```python\nclass ModelNew: ...\n```").source == "class ModelNew: ...\n"


def test_a_tag_inside_the_code_is_code() -> None:
    code = 'TEXT = """\n<think>\n"""\n\n\nclass ModelNew:\n    pass\n'
    assert answer(f"```python\n{code}```\nDone.").source == code


def test_a_longer_fence_holds_a_shorter_one() -> None:
    code = f'"""\n```\nnested\n```\n"""\n{MODULE}'
    assert answer(f"`````python\n{code}`````").source == code


def test_a_fence_around_a_fence_is_opened() -> None:
    assert answer(f"````\n```python\n{MODULE}```\n````").source == MODULE


def test_a_string_that_is_never_closed_does_not_swallow_the_next_block() -> None:
    text = f'```python\nsource = """\n__global__\n```\nBetter:\n```python\n{MODULE}```\n'
    assert answer(text).source == MODULE


def test_a_broken_last_draft_with_an_open_string_is_the_finding() -> None:
    text = f'```python\n{MODULE}```\nBetter:\n```python\nclass ModelNew:\n    """open\n```\nThat is it.\n'
    with pytest.raises(ReplyError, match="unterminated triple-quoted string") as caught:
        answer(text)
    assert caught.value.kind == "syntax-error"


def test_a_null_byte_is_a_syntax_error_and_no_crash() -> None:
    with pytest.raises(ReplyError) as caught:
        answer(f"```python\n{MODULE}x = '\0'\n```")
    assert caught.value.kind == "syntax-error"


def test_an_assignment_defines_the_module_too() -> None:
    code = "class Fused:\n    pass\n\n\nModelNew = Fused\n"
    assert answer(f"```python\n{MODULE}```\n```python\n{code}```").source == code


def test_a_class_inside_a_function_or_a_string_defines_nothing() -> None:
    inner = 'def build():\n    class ModelNew:\n        pass\n\n\nTEXT = """\nclass ModelNew:\n"""\n'
    assert answer(f"```python\n{MODULE}```\n```python\n{inner}```").source == MODULE


def test_an_invalid_escape_in_a_string_warns_nobody() -> None:
    code = f'PATTERN = "\\d"\n{MODULE}'
    assert answer(f"```python\n{code}```").source == code


def test_hostile_text_ends_in_time() -> None:
    text = "```python\n" + '"""\n```\n' * 400 + "class ModelNew(\n"
    with pytest.raises(ReplyError):
        answer(text)
    with pytest.raises(ReplyError):
        answer("```python\nclass ModelNew:\n    x = " + "(" * 50_000 + "\n```")
