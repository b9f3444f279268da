"""The runner of foreign ground: a sample of it, on problems of our own and on the first of the answers.

All of it is run by `python -m tests.foreign`; the page in docs says what came out.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from foreign import __main__ as command
from foreign import answers, documents, page, problems
from integrity import corpus

from agent import resources
from agent.errors import ProblemError
from agent.problems import path as problem_path

pytestmark = pytest.mark.timeout(900)
SAMPLE = ("level1/softmax", "level1/gelu", "level1/rms_norm")
ANSWERS = ("add_layernorm_two_outputs", "cumsum_rows_blockscan", "gelu_many_blocks", "instancenorm_welford")
HANGS = """
import time
while True: time.sleep(1)
class Model: ...
def get_inputs(): ...
def get_init_inputs(): ...
"""


def checkout(folder: Path, *references: str) -> Path:
    """A folder of the layout of KernelBench with these texts as its level 1."""
    level = folder / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for number, text in enumerate(references, start=1):
        (level / f"{number}_reference.py").write_text(text)
    return folder


def shipped(name: str) -> str:
    return (resources.folder("references") / f"{name}.py").read_text()


def results(path: Path) -> dict[str, dict[str, Any]]:
    return documents.read(path)


def test_problems_are_examined_and_a_run_goes_on_where_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = checkout(tmp_path / "checkout", *map(shipped, SAMPLE))
    out = tmp_path / "problems.json"
    run = ["problems", "--root", str(root), "--levels", "1", "--out", str(out)]
    assert command.main([*run, "--only", "1/1", "1/2"]) == 0
    assert list(results(out)) == ["level1/1", "level1/2"]
    assert command.main([*run, "--resume"]) == 0
    found = results(out)
    assert [entry["outcome"] for entry in found.values()] == ["admitted"] * 3
    for entry in found.values():
        assert entry["affordable"]
        assert entry["operators"] > 0
        assert entry["killed"] > 0
        assert set(entry["steps"]) == {"trace", "prompt", "admission"}
    # The third alone was left for the second run.
    assert capsys.readouterr().out.count(" admitted ") == 3
    assert "def " not in out.read_text()


def test_what_cannot_be_judged_has_its_reason(tmp_path: Path) -> None:
    broken = shipped("level1/softmax").replace("def forward(self", "def forwards(self")
    root = checkout(tmp_path / "checkout", broken, HANGS, "not Python (")
    entries = problems.examined_all([f"kernelbench:1/{number}" for number in (1, 3)], root, jobs=2)
    found = {entry["id"]: entry for entry in entries}
    assert {entry["outcome"] for entry in found.values()} == {"not traced"}
    assert "syntax error" in found["level1/3"]["reason"]
    assert all(str(tmp_path) not in entry["reason"] for entry in found.values())
    (hung,) = problems.examined_all(["kernelbench:1/2"], root, jobs=1, limit_s=0.5)
    assert hung["outcome"] == "fault"
    assert hung["reason"] == "it took longer than 0.5 s"


def test_a_folder_without_problems_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="holds no problems of level 2"):
        list(problems.addresses(checkout(tmp_path, "x = 1"), (1, 2)))
    assert command.main(["problems", "--root", str(tmp_path), "--levels", "2"]) == 2


def test_answers_are_judged_by_the_executor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs = {program.name: program for program in corpus.programs() if program.kind != "attacks"}
    for name in ("autograd_function", "wrong_shape"):
        folder = tmp_path / "answers" / name
        folder.mkdir(parents=True)
        shutil.copy(problem_path(programs[name].address), folder / "problem.py")
        (folder / "answer.py").write_text(programs[name].source)
    out = tmp_path / "answers.json"
    run = ["answers", "--answers", str(tmp_path / "answers"), "--out", str(out)]
    assert command.main([*run, "--only", "autograd_function"]) == 1, "the other one is not judged yet"
    assert command.main([*run, "--resume"]) == 1
    told = capsys.readouterr().out
    assert told.count("autograd_function") == 1
    assert "1 of 2 verified" in told
    found = results(out)
    assert found["autograd_function"]["status"] == "verified"
    assert found["autograd_function"]["finding"].startswith("default-stream: "), "a warning stays one"
    assert found["wrong_shape"]["status"] == "incorrect"
    assert found["wrong_shape"]["finding"].startswith("wrong-shape: ")
    assert command.main([*run, "--only", "nobody"]) == 2


@pytest.mark.parametrize("name", ANSWERS)
def test_a_sample_of_the_answers_is_verified(name: str) -> None:
    entry = answers.judged(answers.ANSWERS / name, "emulator")
    assert entry["status"] == "verified", entry["finding"]


def test_the_page_is_rendered_from_the_documents() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render()


def test_the_recorded_answers_are_those_that_there_are() -> None:
    present = {answer.name: answers.digest(answer) for answer in answers.known()}
    for where in ("emulator", "cuda"):
        path = answers.record(where)
        recorded = {name: entry["digest"] for name, entry in results(path).items()}
        assert not path.is_file() or recorded == present


def test_text_from_elsewhere_stays_in_its_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    common = {"sizes": {}, "affordable": True, "steps": {"trace": 0.5}, "shapes": "full", "seconds": 1.0}
    refused = {"outcome": "refused", "reason": "a | b\n<img>", "shapes": "shrunken", "sizes": {"n": [64, 8]}}
    entries: list[documents.Entry] = [
        common | {"id": "level1/10", "outcome": "admitted", "operators": 2},
        common | {"id": "level1/9", "operators": 1} | refused,
    ]
    monkeypatch.setattr(page, "RECORDS", tmp_path)
    monkeypatch.setattr(answers, "RECORDS", tmp_path)
    documents.write(tmp_path / "problems.json", entries)
    shown = page.render()
    assert "| level1/9 | refused | a \\| b &lt;img&gt; |" in shown
    assert "| all | 2 | 2 | 1 | 1 | 1 | 1 |" in shown
    assert "| level1/9 | 1 | refused | n 64-&gt;8 | 1.0 |" in shown
    assert shown.index("| level1/9 | 1 ") < shown.index("| level1/10 | 2 ")
    assert json.loads((tmp_path / "problems.json").read_text())["results"][0]["id"] == "level1/9"
