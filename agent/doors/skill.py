"""A skill for coding agents: what to do with the judge, and how to read what it says.

A folder with `SKILL.md`, as coding agents take it. The rules are those of our own prompts, the list of
findings is that of the documentation, so that neither can say anything else; the rest is `skill.md`.
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
"""What lies beside SKILL.md, and the page of the documentation that it is."""
MARK = "<!-- written by `agent skill install`; it is replaced by the next one -->"


def text() -> str:
    """SKILL.md."""
    given = {"MARK": MARK, "VERSION": __version__, "RULES": prompts.rules().strip()}
    made = Path(__file__).with_name("skill.md").read_text(encoding="utf-8")
    for name, value in given.items():
        made = made.replace(f"{{{{{name}}}}}", value)
    return made


def install(parent: Path) -> list[Path]:
    """Writes the skill to a folder of its own in `parent`; the files that it consists of.

    Raises UsageError where another skill of that name lies there, EnvironmentFault for a bad disk.
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
