"""Composed files with other schedules: each is judged, the fastest is kept and answers first later."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from verdicts import refused, verified

from agent import config, parse, problems
from agent.providers.composed import Composed
from agent.providers.tuning import MOVES, Tuning, tuned
from agent.records import Evaluated, Message, Prompt

PROMPT = Prompt(template="generate", messages=(Message(role="user", content="write"),))
REFERENCE = """import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + torch.softmax(x, 1)
def get_inputs():
    return [torch.randn(16, 512)]
def get_init_inputs():
    return []
"""


def text(change: Mapping[str, int]) -> str:
    return f"class ModelNew:\n    unroll, threads = {change.get('unroll', 0)}, {change.get('threads', 0)}\n"


def make(changes: Sequence[Mapping[str, int]]) -> list[str]:
    """Of a program that has no loop without rows, and no product: `vectors` and `forms` change nothing."""
    return [text(change) for change in changes]


def played(provider: Tuning, times: Mapping[str, float]) -> list[str]:
    """All its answers, each judged: those without a time are refused."""
    given = []
    for number in range(1, provider.answers + 1):
        source = parse.candidate("mine", provider.complete(PROMPT), None).source
        given.append(source)
        ms = times.get(source)
        attempt = verified(number, ms, source=source) if ms else refused(number, source=source)
        provider.hear(Evaluated(round=number, attempt=attempt))
    return given


def test_what_is_faster_is_gone_on_from_and_answers_first_later(tmp_path: Path) -> None:
    place = tmp_path / "schedules" / "H200.json"
    one, two, three = text({}), text({"unroll": 1}), text({"unroll": 1, "threads": 1})
    times = {one: 4.0, two: 2.0, three: 3.0}
    given = played(Tuning(make, place, goes_on=True), times)
    assert given == [one, two, three, text({"unroll": 1, "threads": -1}), one]
    assert json.loads(place.read_text()) == {"change": {"unroll": 1}, "left": []}
    later = Tuning(make, place, goes_on=False)
    assert later.answers == 1
    assert played(later, times) == [two]


def test_a_run_that_ended_early_is_gone_on_with(tmp_path: Path) -> None:
    place = tmp_path / "H200.json"
    first = Tuning(make, place, goes_on=True)
    source = first.complete(PROMPT).text
    first.hear(Evaluated(round=1, attempt=verified(1, 4.0, source=parse_source(source))))
    assert json.loads(place.read_text())["left"] == [
        move for move in MOVES if not {"vectors", "forms"} & set(move)
    ]
    once = Tuning(make, place, goes_on=False)
    played(once, {text({}): 4.0})
    assert json.loads(place.read_text())["left"], "a run that tries nothing does not say that all was tried"
    assert Tuning(make, place, goes_on=True).answers == first.answers


def test_a_run_that_is_resumed_knows_what_was_measured(tmp_path: Path) -> None:
    place = tmp_path / "H200.json"
    resumed = Tuning(make, place, goes_on=True)
    resumed.hear(Evaluated(round=1, attempt=verified(1, 2.0, source=text({}))))
    given = played(
        resumed, {text(change): 3.0 for change in ({"unroll": 1}, {"threads": 1}, {"threads": -1})}
    )
    assert given[0] == text({"unroll": 1})
    assert json.loads(place.read_text())["change"] == {}


def parse_source(answer: str) -> str:
    return answer.partition("```python\n")[2].removesuffix("```\n")


def test_a_composed_file_is_tuned_where_there_is_time(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(REFERENCE)
    plain = Composed(problems.load(str(path)))
    settings = config.Settings(cache_dir=tmp_path / "cache")
    assert tuned(plain, settings, "NVIDIA H200") is plain
    found = tuned(plain, settings.model_copy(update={"max_time": 60.0}), "NVIDIA H200")
    assert isinstance(found, Tuning)
    assert found.answers > 2
    assert "blocks of 1 << 8 threads, 4 steps of a row" in found.complete(PROMPT).text
    assert "8 steps of a row" in found.complete(PROMPT).text
