"""What a child takes, does and leaves behind: one probe for each promise about it."""

import os
import subprocess
from typing import Any

import pytest
from sandbox.boxes import PROCESS, answer, child, eventually, probe, running

from agent.sandbox import Box, Gone, Limits, OutputFlood, Overrun, isolation

MB = 1 << 20


@probe("environment")
def _environment(box: Box, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("OPENAI_API_KEY", "sk-secret")
    patch.setenv("PYTHONPATH", "/checkout")
    patch.setenv("AGENT_MODEL", "secret")
    seen = answer("say(dict(os.environ))", box)
    assert not seen.keys() & {"OPENAI_API_KEY", "PYTHONPATH", "AGENT_MODEL", "VIRTUAL_ENV"}
    assert seen.get("HOME") in (None, "/tmp")


@probe("descriptors")
def _descriptors(box: Box, _: pytest.MonkeyPatch) -> None:
    secret = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        code = """
here = os.open("/", os.O_RDONLY)
is_open = lambda number: tried(lambda: os.fstat(number)) != "Bad file descriptor"
say({"open": [number for number in range(1024) if is_open(number)], "own": [0, 1, 2, answers, here]})
"""
        seen: dict[str, Any] = answer(code, box)
    finally:
        os.close(secret)
    assert sorted(seen["open"]) == sorted(seen["own"])


@probe("memory")
def _memory(box: Box, _: pytest.MonkeyPatch) -> None:
    code = "kept = []\nwhile True: kept.append(b'x' * (8 << 20))"
    with (
        child(code, box, Limits(memory_bytes=256 * MB)) as worker,
        pytest.raises(Overrun, match="more than 256 MB of memory"),
    ):
        worker.ask({}, 30)


@probe("disk")
def _disk(box: Box, _: pytest.MonkeyPatch) -> None:
    code = "n = 0\nwhile True:\n    n += 1; open(f'f{n}', 'wb').write(b'x' * (1 << 20))"
    with (
        child(code, box, Limits(disk_bytes=16 * MB)) as worker,
        pytest.raises(Overrun, match="more than 16 MB"),
    ):
        worker.ask({}, 30)


@probe("output")
def _output(box: Box, _: pytest.MonkeyPatch) -> None:
    code = "for _ in range(1 << 14): os.write(1, b'x' * (1 << 16))\nsay({})"
    with child(code, box, Limits(output_bytes=4 * MB)) as worker:
        with pytest.raises(OutputFlood, match="more than 4 MB"):
            worker.ask({}, 30)
        assert len(worker.log) <= 64 << 10


@probe("exit")
def _exit(box: Box, _: pytest.MonkeyPatch) -> None:
    for code, words in (
        ("os._exit(0)", "code 0"),
        ("os.write(2, b'sandbox: no'); os._exit(253)", "code 255"),
        ("os._exit(250)", "code 255"),
        ("os.abort()", "SIGABRT"),
    ):
        with child(code, box) as worker, pytest.raises(Gone, match=words):
            worker.ask({}, 30)


@probe("daemons")
def _daemons(box: Box, _: pytest.MonkeyPatch) -> None:
    marker = f"daemon-{os.getpid()}-{box.folder.parent.name}"
    code = f"""
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(answers)
        os.execv(sys.executable, [sys.executable, "-I", "-c", "import time; time.sleep(60)", {marker!r}])
    os._exit(0)
say({{}})
time.sleep(60)
"""
    with child(code, box) as worker:
        worker.ask({}, 30)
        assert eventually(lambda: len(running(marker)) == 1)
    assert running(marker) == []


@probe("privileges")
def _privileges(box: Box, _: pytest.MonkeyPatch) -> None:
    code = "say(dict(line.split(':', 1) for line in open('/proc/self/status').read().splitlines()))"
    seen = answer(code, box)
    sets = {str(seen[name]).strip() for name in ("CapPrm", "CapEff", "CapAmb")}
    assert sets == {"0" * 16}
    assert str(seen["NoNewPrivs"]).strip() == "1"


@probe("calls")
def _calls(box: Box, _: pytest.MonkeyPatch) -> None:
    code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    ctypes.set_errno(0)
    return ctypes.get_errno() if libc.syscall(*arguments) == -1 else "allowed"
numbers = {"x86_64": (101, 165, 272, 250, 321, 425, 435, 56),
           "aarch64": (117, 40, 97, 219, 280, 425, 435, 220)}
ptrace, mount, unshare, keyctl, bpf, ring, clone3, clone = numbers[os.uname().machine]
say({"ptrace": call(ptrace, 0, 0, 0, 0), "mount": call(mount, b"none", b"/tmp", b"tmpfs", 0, 0),
     "unshare": call(unshare, 0x10000000), "keyctl": call(keyctl, 0, -4, 0), "bpf": call(bpf, 0, 0, 0),
     "ring": call(ring, 1, 0), "clone3": call(clone3, 0, 0), "clone": call(clone, 0x10000011, 0, 0, 0, 0)})
"""
    assert answer(code, box) == {"ptrace": 1, "mount": 1, "unshare": 1, "keyctl": 1, "bpf": 1, "ring": 1,
                                 "clone3": 38, "clone": 1}  # fmt: skip


@probe("architecture")
def _architecture(box: Box, _: pytest.MonkeyPatch) -> None:
    if os.uname().machine != "x86_64":
        return
    source = box.folder / "old.c"
    source.write_text(
        'int main() { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20)); return r > 0; }'
    )
    subprocess.run(["cc", str(source), "-o", str(box.folder / "old")], check=True)
    with child("os.execv('./old', ['old'])", box) as worker, pytest.raises(Gone, match="SIGSYS"):
        worker.ask({}, 30)


@probe("fork-bomb")
def _fork_bomb(box: Box, _: pytest.MonkeyPatch) -> None:
    marker = f"bomb-{os.getpid()}-{box.folder.parent.name}"
    code = f"""
import time
held = 0
while held < 200:
    try:
        if os.fork() == 0:
            os.execv("/bin/sh", ["sh", "-c", "sleep 60", {marker!r}])
        held += 1
    except OSError:
        break
say({{"held": held, "request": "more"}})
time.sleep(60)
"""
    with child(code, box, Limits(processes=20)) as worker:
        user = (box.level or PROCESS).user
        if user == "own" or (user == "mapped" and os.geteuid() != 0):
            assert 0 < int(str(worker.ask({}, 30)["held"])) < 20
        else:
            with pytest.raises(Overrun, match="had more than 20 processes"):
                worker.ask({}, 30, lambda held: {})
    assert running(marker) == []


@probe("user")
def _user(box: Box, _: pytest.MonkeyPatch) -> None:
    code = """
say({"uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(),
     "root": tried(lambda: os.setuid(0))})
"""
    seen: dict[str, Any] = answer(code, box)
    assert min(*seen["uid"], *seen["gid"]) >= isolation.NOBODY
    assert set(seen["groups"]) <= {isolation.NOBODY, *seen["gid"]}
    assert seen["root"] == "Operation not permitted" or seen["root"] == "Invalid argument"
