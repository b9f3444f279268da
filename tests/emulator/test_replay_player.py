"""The process that repeats kernels, by its commands."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from agent.emulator.compile import toolchain
from agent.emulator.replay import player_commands
from agent.harness.integrity import replay_check
from agent.sandbox import messages


def answer(folder: Path, command: player_commands.Command) -> Any:
    for part in replay_check._PLAYER:
        shutil.copy(part, folder)
    reads, writes = os.pipe()
    line = json.dumps(messages.written(command, player_commands.Command)).encode() + b"\n"
    subprocess.run(
        [sys.executable, "-I", "player.py", str(writes)],
        cwd=folder,
        input=line,
        pass_fds=(writes,),
        check=True,
    )
    os.close(writes)
    with os.fdopen(reads) as answers:
        return json.loads(answers.read())


def test_a_library_that_is_none_of_our_interface_has_a_place_too(tmp_path: Path) -> None:
    """Built with torch's own headers, an extension defines what pybind makes of it, and nothing of ours."""
    tools = toolchain.prepare()
    source = tmp_path / "plain.cpp"
    source.write_text('extern "C" int plain() { return 7; }\n')
    library = tmp_path / "library0.so"
    subprocess.run([str(tools.gxx), "-shared", "-fPIC", str(source), "-o", str(library)], check=True)

    opening = player_commands.Open(str(tools.runtime), [library.name], (0, 0), threads=1)

    assert answer(tmp_path, opening) == {}
