"""Answers of a program, and every way in which a program fails to give one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from interrupting import PATIENCE_S, interruptible
from providers.asking import PROMPT

from agent.errors import EndpointError, UsageError
from agent.providers import command
from agent.providers.command import Command
from agent.providers.retry import Waits
from agent.records import RetryScheduled

LONG_S = 60.0
"""More than any of these programs needs."""


def asked(script: str, tmp_path: Path, *, timeout_s: float = LONG_S, retry_for_s: float = 0.0) -> "Asked":
    program = tmp_path / "program.py"
    program.write_text(script)
    return Asked(f"{sys.executable} {program}", timeout_s, retry_for_s)


class Asked:
    """A provider over one program, with the retries that it announced."""

    def __init__(self, line: str, timeout_s: float, retry_for_s: float) -> None:
        self.retries: list[RetryScheduled] = []
        waits = Waits(retry_for_s=retry_for_s, longest_s=0.01)
        self.provider = Command(line, timeout_s=timeout_s, waits=waits, on_retry=self.retries.append)

    def fail(self) -> str:
        with pytest.raises(EndpointError) as caught:
            self.provider.complete(PROMPT)
        message = str(caught.value)
        assert "\n" not in message
        return message


def gone(pid: int) -> bool:
    """Whether a process has ended; one that has and waits to be reaped counts as well."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def wait_gone(pid: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while not gone(pid):
        assert time.monotonic() < until, f"process {pid} is still there"
        time.sleep(0.01)


def test_prompt_on_stdin_and_answer_on_stdout(tmp_path: Path) -> None:
    script = "import sys; sys.stdout.write('<' + sys.stdin.read() + 'π 🙂>'); print('hm', file=sys.stderr)"
    completion = asked(script, tmp_path).provider.complete(PROMPT)
    assert completion.text == "<You write CUDA.\n\nA kernel, please.\nπ 🙂>"
    assert (completion.provider, completion.model, completion.finish_reason) == ("command", None, "stop")
    assert completion.seconds is not None
    assert completion.usage.output_tokens is None


def test_words_are_split_as_a_shell_would_and_no_shell_runs(tmp_path: Path) -> None:
    (tmp_path / "print it.py").write_text("import sys; print(sys.argv[1:])")
    line = f"{sys.executable} '{tmp_path}/print it.py' 'two words' $HOME ; *"
    assert Asked(line, LONG_S, 0).provider.complete(PROMPT).text == "['two words', '$HOME', ';', '*']\n"


def test_answer_larger_than_any_pipe_and_input_that_is_not_read(tmp_path: Path) -> None:
    script = "import sys; sys.stdin.close(); sys.stdout.write('x' * 5_000_000)"
    assert len(asked(script, tmp_path).provider.complete(PROMPT).text) == 5_000_000


def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path) -> None:
    script = "import sys; sys.stdout.buffer.write(b'kernel \\xff\\xfe end')"
    assert asked(script, tmp_path).provider.complete(PROMPT).text == "kernel \ufffd\ufffd end"


@pytest.mark.parametrize("line", ["", "   ", "no-such-program-here -x", "sh -c 'unclosed"])
def test_a_line_that_is_no_command_is_a_usage_error(line: str) -> None:
    with pytest.raises(UsageError, match="--provider command: "):
        Asked(line, LONG_S, 0)


def test_exit_code_and_last_words_are_told(tmp_path: Path) -> None:
    script = (
        "import sys; print('half an answer'); print('not signed in\\x1b[31m', file=sys.stderr); sys.exit(3)"
    )
    message = asked(script, tmp_path).fail()
    assert "ended with exit code 3: not signed in [31m" in message
    assert "half an answer" not in message


def test_death_by_a_signal_is_told(tmp_path: Path) -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    assert "was ended by SIGSEGV" in asked(script, tmp_path).fail()


@pytest.mark.parametrize("script", ["", "print('  \\n')"])
def test_no_answer_at_all_is_a_failure(script: str, tmp_path: Path) -> None:
    assert "ended without an answer on standard output" in asked(script, tmp_path).fail()


def test_temporary_failure_is_asked_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = f"""
import pathlib, sys
count = pathlib.Path({str(count)!r})
count.write_text(count.read_text() + "x" if count.exists() else "x")
if len(count.read_text()) < 3:
    sys.stderr.write("rate limit")
    sys.exit(75)
print("at last")
"""
    provider = asked(script, tmp_path, retry_for_s=LONG_S)
    assert provider.provider.complete(PROMPT).text == "at last\n"
    assert [retry.reason for retry in provider.retries] == ["ended with exit code 75: rate limit"] * 2


class Clock:
    """The time, and a day later once a file is there."""

    def __init__(self, sign: Path) -> None:
        self._sign = sign
        self.sleep = time.sleep

    def monotonic(self) -> float:
        return time.monotonic() + 86_400 * self._sign.exists()


def test_a_command_that_hangs_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    script = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: open({str(tmp_path / "asked")!r}, "w") and sys.exit(0))
child = subprocess.Popen(["sleep", "900"], preexec_fn=lambda: signal.signal(15, signal.SIG_IGN))
print("thinking", file=sys.stderr, flush=True)
open({str(pids)!r} + ".new", "w").write(f"{{os.getpid()}} {{child.pid}}")
os.rename({str(pids)!r} + ".new", {str(pids)!r})
time.sleep(900)
"""
    monkeypatch.setattr(command, "time", Clock(pids))
    monkeypatch.setattr(command, "_GRACE_S", 2 * 86_400.0)
    message = asked(script, tmp_path).fail()
    assert "did not answer within 60 s" in message
    assert "request_timeout" in message
    assert (tmp_path / "asked").exists()
    for pid in pids.read_text().split():
        wait_gone(int(pid))


def test_what_a_command_leaves_behind_does_not_hold_the_answer_up(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(900)"])
open({str(pids)!r}, "w").write(str(child.pid))
print("the answer")
"""
    assert asked(script, tmp_path).provider.complete(PROMPT).text == "the answer\n"
    wait_gone(int(pids.read_text()))


def test_a_gigabyte_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    script = f"""
import os, sys
open({str(pid)!r}, "w").write(str(os.getpid()))
for _ in range(1024):
    sys.stdout.write("x" * 2**20)
open({str(tmp_path / "done")!r}, "w")
"""
    monkeypatch.setattr(command, "LARGEST_ANSWER_BYTES", 4 * 2**20)
    assert "printed more than 4 MB" in asked(script, tmp_path).fail()
    wait_gone(int(pid.read_text()))
    assert not (tmp_path / "done").exists()


def test_endless_complaints_do_not_fill_the_memory(tmp_path: Path) -> None:
    script = "import sys\nfor _ in range(300): sys.stderr.write('x' * 2**20)\nsys.exit('\\nthe last word')"
    assert "exit code 1: the last word;" in asked(script, tmp_path).fail()


def test_a_file_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF of another world")
    program.chmod(0o755)
    assert "cannot be started" in Asked(str(program), LONG_S, 0).fail()


ASK = """
import sys
from agent.providers.command import Command
from agent.providers.retry import Waits
from agent.records import Message, Prompt
prompt = Prompt(template="generate", messages=(Message(role="user", content="hi"),))
provider = Command(sys.argv[1], timeout_s=600, waits=Waits(), on_retry=print)
try:
    provider.complete(prompt)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_interrupt_ends_the_command(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    program = tmp_path / "program.py"
    program.write_text(f"import os, time\nopen({str(ready)!r}, 'w').write(str(os.getpid()))\ntime.sleep(900)")
    command = [sys.executable, "-c", ASK, f"{sys.executable} {program}"]
    with subprocess.Popen(command, preexec_fn=interruptible) as process:
        pid = int(ready.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    wait_gone(pid)
