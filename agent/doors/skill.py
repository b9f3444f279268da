"""A skill for coding agents: how to use the judge, and how to read its answers.

The skill is a folder with `SKILL.md`, as coding agents expect it. The rules come from our own prompts and the
list of findings from the documentation, so they cannot diverge. The remaining text is `skill.md`.
"""

import shutil
from pathlib import Path

from agent import __version__, prompts, resources
from agent.errors import EnvironmentFault, UsageError

NAME = "kernelwright"
PAGES = {
    "findings.md": "reference/findings.md",
    "verdicts.md": "verdicts.md",
    "limits.md": "limits.md",
}
"""Files beside SKILL.md, with the documentation page that each one copies."""
MARK = "<!-- written by `agent skill install`; it is replaced by the next one -->"


def text() -> str:
    """Return the text of SKILL.md."""
    given = {"MARK": MARK, "VERSION": __version__, "RULES": prompts.rules().strip()}
    made = Path(__file__).with_name("skill.md").read_text(encoding="utf-8")
    for name, value in given.items():
        made = made.replace(f"{{{{{name}}}}}", value)
    return made


def install(parent: Path) -> list[Path]:
    """Write the skill to a folder of its own in `parent` and return its files.

    Raises UsageError if a foreign skill with that name is there, EnvironmentFault if it cannot be written.
    """
    folder = parent / NAME
    skill = folder / "SKILL.md"
    try:
        if skill.exists() and MARK not in skill.read_text(encoding="utf-8", errors="replace"):
            raise UsageError(f"{skill} was not written by this command; move it away")
        folder.mkdir(parents=True, exist_ok=True)
        skill.write_text(text(), encoding="utf-8")
        for name, page in PAGES.items():
            shutil.copyfile(resources.folder("docs") / page, folder / name)
    except OSError as error:
        raise EnvironmentFault(f"{folder} cannot be written: {error.strerror}") from error
    return [skill, *(folder / name for name in PAGES)]
