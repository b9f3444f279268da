"""Tests that reading commands start without heavy packages."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "openai", "numpy", "jinja2")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["show", "recorded/group_norm"], ["runs"], ["run", "--help"]]
)
def test_reading_commands_import_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    """Guard the limit of 0.5 s, which `benchmarks/start.py` measures, by the imports that would break it."""
    code = (
        "import sys\n"
        "from agent.cli import main\n"
        f"sys.argv = ['agent', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"print('loaded', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded []"
