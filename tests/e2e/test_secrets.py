"""The key stays in the process that asks: not dumpable, and unknown to whatever judges."""

import os
import subprocess
import sys
from pathlib import Path

from e2e.commands import environment

from agent import config
from agent.sandbox import Box, Child, strongest

PR_GET_DUMPABLE = 3
KEY = "sk-known-to-one-process-only"


def test_the_asking_process_is_not_dumpable(tmp_path: Path) -> None:
    code = (
        "import ctypes, sys\n"
        "from agent import sandbox\n"
        f"dumpable = lambda: ctypes.CDLL(None).prctl({PR_GET_DUMPABLE})\n"
        "before = dumpable()\n"
        "sandbox.hide()\n"
        "print(before, dumpable())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["1", "0"]


def test_a_candidate_finds_the_key_nowhere(tmp_path: Path) -> None:
    """From the sandbox: every environment and memory map it can open, while a process with the key runs."""
    holder = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env=environment(OPENAI_API_KEY=KEY)
    )
    code = """
import json, os, sys
found = []
for entry in os.listdir("/proc"):
    if entry.isdigit():
        try:
            seen = open(f"/proc/{entry}/environ", "rb").read()
            found += [entry] if sys.argv[1].encode() in seen else []
        except OSError:
            pass
own = [name for name in os.environ if "KEY" in name]
os.write(int(sys.argv[-1]), json.dumps({"others": found, "own": own}).encode() + b"\\n")
sys.stdin.read()
"""
    box = Box(tmp_path, python=True)
    try:
        os.environ["OPENAI_API_KEY"] = KEY
        argv = [sys.executable, "-c", code, KEY]
        with Child(argv, env=config.child_environment(), box=box) as child:
            answer = child.ask({}, 20)
    finally:
        del os.environ["OPENAI_API_KEY"]
        holder.kill()
        holder.wait()
    assert answer["own"] == []
    if strongest().name != "process":
        assert answer["others"] == []
