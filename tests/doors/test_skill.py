"""The skill for coding agents says what the prompts and the documentation say."""

from pathlib import Path

import pytest
from doors.test_mcp import TOOLS
from e2e.commands import agent

from agent import prompts, resources
from agent.doors import skill
from agent.errors import UsageError
from agent.records import Status


def test_the_command_writes_a_whole_skill_and_writes_it_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = agent("skill", "install", "skills", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    folder = tmp_path / "skills" / "kernelwright"
    assert {path.name for path in folder.iterdir()} == {"SKILL.md", *skill.PAGES}
    findings = (resources.folder("docs") / "reference" / "findings.md").read_text()
    assert (folder / "findings.md").read_text() == findings


def test_it_names_itself_and_holds_the_rules_of_the_prompts() -> None:
    text = skill.text()
    name, description = text.split("---")[1].strip().splitlines()
    head = dict(line.split(": ", 1) for line in (name, description))
    assert head["name"] == skill.NAME
    # A plain scalar of YAML: nothing in it would end it or begin a mapping.
    assert not {": ", " #"} & {head["description"][at : at + 2] for at in range(len(description))}
    assert 0 < len(head["description"]) <= 1024
    assert prompts.skeleton().strip() in text
    assert "load_state_dict" in text
    assert "{{" not in text.replace("{{}}", "")


def test_every_status_has_its_advice() -> None:
    text = skill.text()
    assert [status for status in Status if f"| `{status}` |" not in text] == []


def test_the_tools_that_it_names_exist() -> None:
    text = skill.text()
    assert {name for name in TOOLS if f"`{name}`" in text} >= {"describe", "judge", "mend", "submit"}


def test_another_skill_of_that_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / skill.NAME).mkdir()
    (tmp_path / skill.NAME / "SKILL.md").write_text("mine")
    with pytest.raises(UsageError, match="was not written by this command"):
        skill.install(tmp_path)
    assert (tmp_path / skill.NAME / "SKILL.md").read_text() == "mine"
