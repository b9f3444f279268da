"""best.py: valid Python whatever the candidate begins with, and never *verified* without its scope."""

import ast
from pathlib import Path
from typing import Any

import pytest
from transcripts import EMULATOR, PROBLEM, SETTINGS, attempt, candidate, evaluation, measured

from agent.records import Attempt, Evaluation, Status
from agent.store import create, write_best
from agent.store.best import with_docstring


def written(tmp_path: Path, source: str, verdict: Evaluation) -> str:
    run = create(tmp_path, SETTINGS)
    best = Attempt(number=3, candidate=candidate(source), evaluation=verdict)
    write_best(run, best, PROBLEM)
    return (run.path / "best.py").read_bytes().decode()


def test_it_names_a_kernel_that_never_ran(tmp_path: Path) -> None:
    verdict = evaluation(Status.VERIFIED)
    scope = verdict.scope.model_copy(update={"unexercised": ("scan<8>",)})
    text = written(tmp_path, "class ModelNew: ...\n", verdict.model_copy(update={"scope": scope}))
    doc = ast.get_docstring(ast.parse(text)) or ""
    assert "except kernel scan<8>, which only the real sizes launch" in doc


def test_it_says_problem_run_attempt_and_scope(tmp_path: Path) -> None:
    text = written(tmp_path, "class ModelNew: ...\n", evaluation(Status.VERIFIED))
    doc = ast.get_docstring(ast.parse(text)) or ""
    run = next(tmp_path.iterdir()).name
    for said in (
        "level1/softmax",
        f"{run}, attempt 3",
        str(EMULATOR),
        "timing: no GPU",
        "nothing is said about",
    ):
        assert said in doc
    assert text.endswith("class ModelNew: ...\n")


def test_it_takes_the_reference_names_of_parameters(tmp_path: Path) -> None:
    source = (
        "from torch import nn\n\n\nclass ModelNew(nn.Linear):\n    def __init__(self):\n"
        "        super().__init__(2, 1)\n"
    )
    verdict = evaluation(Status.VERIFIED)
    named = verdict.scope.model_copy(update={"parameters": {"a": "weight", "b": "bias"}})
    text = written(tmp_path, source, verdict.model_copy(update={"scope": named}))
    space: dict[str, Any] = {"__name__": "best"}
    exec(text, space)
    assert sorted(space["ModelNew"]().state_dict()) == ["a", "b"]
    assert "parameters by other names (a=weight, b=bias)" in (ast.get_docstring(ast.parse(text)) or "")


def test_it_says_the_measurement(tmp_path: Path) -> None:
    text = written(tmp_path, "class ModelNew: ...\n", measured(2.5))
    assert "1 ms median (p20 0.9, p80 1.1) on NVIDIA H200, 2.50x against eager (cold L2)" in text
    assert "GPU, full shapes, isolation bubblewrap" in text


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\n",
        "",
        "# only a comment\n",
        '"""Own docstring."""\nfrom __future__ import annotations\nx = 1\n',
        '"""Own docstring."""; from __future__ import annotations; x = 1\n',
        "from __future__ import annotations\nx = 1\n",
        '#!/bin/x\n# -*- coding: latin-1 -*-\n"""Größe."""\nfrom __future__ import division\nx = "ü"',
        '# a comment\n\n("paren" "thesised")\nfrom __future__ import annotations\nx = 1\n',
        "r'''raw \\d \"quoted\" '''\nx = 1\n",
        '\ufeff"""With a mark."""\nx = 1\n',
        '"""Windows."""\r\nfrom __future__ import annotations\r\nx = 1\r\n',
        '# old\r"""Mac."""\rfrom __future__ import annotations\rx = 1\r',
        'b"bytes are no docstring"\nx = 1\n',
        'f"neither is {1}"\nx = 1\n',
        '"""multi\nline ü"""  # comment behind\nx = 1\n',
    ],
)
def test_whatever_the_candidate_begins_with(source: str) -> None:
    text = with_docstring(source, 'Said: C:\\new "quoted" """triple""" \\N \0 end\\')
    compile(text, "best.py", "exec")
    doc = ast.get_docstring(ast.parse(text), clean=False) or ""
    assert doc.startswith('Said: C:\\new "quoted" """triple""" \\N \0 end\\')
    original = ast.parse(source.lstrip("\ufeff"))
    own = ast.get_docstring(original, clean=False)
    assert own is None or own.strip() in doc
    body = ast.parse(text).body[1:]
    assert [ast.dump(node) for node in body] == [ast.dump(node) for node in original.body[own is not None :]]


def test_only_a_verified_attempt_is_best(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="incorrect, not verified"):
        write_best(create(tmp_path, SETTINGS), attempt(1), PROBLEM)


def test_a_better_one_replaces_it_whole(tmp_path: Path) -> None:
    run = create(tmp_path, SETTINGS)
    for number in (1, 2):
        write_best(run, attempt(number, evaluation(Status.VERIFIED)), PROBLEM)
    assert "attempt 2" in (run.path / "best.py").read_text()
    assert [path.name for path in run.path.glob(".new-*")] == []
