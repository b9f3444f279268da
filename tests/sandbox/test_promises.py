"""Every promise of every level, held against a program that tries to break it."""

import os
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sandbox.boxes import PROCESS, answer, child, eventually, levels, running

from agent import sandbox
from agent.sandbox import PROMISES, Box, Gone, Level, Limits, OutputFlood, Overrun, isolation

MB = 1 << 20
Probe = Callable[[Box, pytest.MonkeyPatch], None]
PROBES: dict[str, Probe] = {}


def probe(name: str) -> Callable[[Probe], Probe]:
    def kept(function: Probe) -> Probe:
        PROBES[name] = function
        return function

    return kept


@pytest.mark.parametrize("name", PROMISES)
def test_a_promise_is_kept(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    for number, level in enumerate(levels(request)):
        if name not in level.promises:
            continue
        folder = tmp_path / f"level{number}" / "candidate"
        folder.mkdir(parents=True)
        PROBES[name](Box(folder, level=level), monkeypatch)
        assert tenants(folder) == []
    assert Path("/proc/self/mounts").read_text() == mounts


def tenants(folder: Path) -> list[int]:
    """Processes that run as the user the folder was given to; there is none unless it was given away."""
    owner = folder.stat().st_uid
    if owner == os.geteuid():
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += [int(entry.name)] if entry.stat().st_uid == owner else []
            except OSError:
                continue
    return found


def test_there_is_a_probe_for_every_promise() -> None:
    assert PROBES.keys() == PROMISES.keys()


def test_the_isolating_levels_promise_everything_and_a_process_says_what_it_lacks() -> None:
    for name in ("bubblewrap", "namespaces"):
        for user in ("own", "mapped"):
            assert Level(name, user).promises == PROMISES.keys()
    assert "files" not in PROCESS.promises
    assert "calls" not in PROCESS._replace(filtered=False).promises
    assert any("plain process" in gap for gap in PROCESS.gaps)
    assert any("not filtered" in gap for gap in PROCESS._replace(filtered=False).gaps)


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
say({"open": [number for number in range(64) if is_open(number)], "own": [0, 1, 2, answers, here]})
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


@probe("network")
def _network(box: Box, _: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
import socket
def reach(kind, port):
    with socket.socket(kind, socket.SOCK_STREAM) as one:
        one.settimeout(2); one.connect(("127.0.0.1" if kind == socket.AF_INET else "::1", port))
port = {server.getsockname()[1]}
say({{'4': tried(lambda: reach(socket.AF_INET, port)), '6': tried(lambda: reach(socket.AF_INET6, port)),
     'netlink': tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
     'pair': tried(lambda: len(socket.socketpair()))}})
"""
        seen = answer(code, box)
    assert seen == {"4": "Operation not permitted", "6": "Operation not permitted",
                    "netlink": "Operation not permitted", "pair": 2}  # fmt: skip


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


@probe("sockets")
def _sockets(box: Box, _: pytest.MonkeyPatch) -> None:
    path = box.folder.parent / "daemon.sock"
    name = f"\0abstract-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as filed, socket.socket(socket.AF_UNIX) as abstract:
        filed.bind(str(path))
        abstract.bind(name)
        filed.listen()
        abstract.listen()
        code = f"""
import socket
places = ({str(path)!r}, {name!r})
say({{"reached": [tried(lambda: socket.socket(socket.AF_UNIX).connect(place)) for place in places]}})
"""
        seen = answer(code, box)
    assert seen == {"reached": ["No such file or directory", "Connection refused"]}


@probe("files")
def _files(box: Box, _: pytest.MonkeyPatch) -> None:
    canary = box.folder.parent / "canary"
    canary.write_text("secret")
    canary.chmod(0o644)
    places = [
        str(canary),
        "/etc/shadow",
        "/etc/passwd",
        str(Path.home() / ".ssh"),
        str(Path.home() / ".cache"),
    ]
    code = f"say({{'seen': [p for p in {places!r} if os.path.lexists(p)], 'etc': os.listdir('/etc')}})"
    seen: dict[str, Any] = answer(code, box)
    assert seen["seen"] == []
    assert set(seen["etc"]) <= {"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"}


@probe("package")
def _package(box: Box, _: pytest.MonkeyPatch) -> None:
    root = Path(sandbox.__file__).parents[2]
    site = sysconfig.get_path("purelib")
    code = f"""
import importlib.util
sys.path[:0] = [{site!r}, {str(root)!r}]
found = importlib.util.find_spec("agent")
say({{"numpy": importlib.util.find_spec("numpy") is not None,
     "agent": [os.listdir(place) for place in found.submodule_search_locations] if found else [],
     "beside": [p for p in ("references", "tests", ".git") if os.path.exists({str(root)!r} + "/" + p)]}})
"""
    seen = answer(code, box._replace(python=True))
    assert seen.pop("agent") in ([], [[]])
    assert seen == {"numpy": True, "beside": []}


@probe("others")
def _others(box: Box, _: pytest.MonkeyPatch) -> None:
    for other in ("oracle", "libraries"):
        (box.folder.parent / other).mkdir()
        (box.folder.parent / other / "secret").write_text("secret")
    shown = box._replace(sees=(box.folder.parent / "libraries",))
    code = "say({'beside': sorted(os.listdir('..')), 'read': open('../libraries/secret').read()})"
    assert answer(code, shown) == {"beside": ["candidate", "libraries"], "read": "secret"}


@probe("system")
def _system(box: Box, _: pytest.MonkeyPatch) -> None:
    places = [
        "/",
        "/usr",
        "/usr/bin",
        "/etc",
        "/proc",
        "/dev",
        "/sys/devices/system/cpu",
        "..",
        sys.base_prefix,
    ]
    code = f"""
say({{"wrote": [p for p in {places!r} if tried(lambda: open(p + "/kernelwright-probe", "w").close()) is None],
     "own": tried(lambda: open("own", "w").close()),
     "sysctl": tried(lambda: open("/proc/sys/kernel/core_pattern", "w") and "opened")}})
"""
    seen = answer(code, box)
    assert seen.pop("sysctl") in ("Read-only file system", "Permission denied")
    assert seen == {"wrote": [], "own": None}


@probe("cache")
def _cache(box: Box, _: pytest.MonkeyPatch) -> None:
    cache = box.folder.parent / "cache"
    cache.mkdir()
    (cache / "built.so").write_text("built")
    (cache / "built.so").chmod(0o666)
    cache.chmod(0o777)
    code = f"""
place = {str(cache)!r}
os.symlink(place, "way")
say({{"read": open(place + "/built.so").read(), "write": tried(lambda: open(place + "/built.so", "w")),
     "link": tried(lambda: open("way/new", "w")), "remove": tried(lambda: os.unlink(place + "/built.so")),
     "hard": tried(lambda: os.link(place + "/built.so", "own")) is None}})
"""
    refused = "Read-only file system"
    seen = answer(code, box._replace(sees=(cache,)))
    assert seen == {"read": "built", "write": refused, "link": refused, "remove": refused, "hard": False}


@probe("private")
def _private(box: Box, _: pytest.MonkeyPatch) -> None:
    code = """
import shutil
home = os.path.expanduser("~")
def fill():
    with open(home + "/fill", "wb") as file:
        while True: file.write(b"x" * (1 << 20))
say({"home": home, "full": tried(fill), "size": os.path.getsize(home + "/fill") >> 20})
"""
    seen = answer(code, box, Limits(private_bytes=8 * MB))
    assert seen["home"] == "/tmp"
    assert seen["full"] == "No space left on device"
    assert int(str(seen["size"])) <= 8
    assert not Path("/tmp/fill").exists()


@probe("processes")
def _processes(box: Box, _: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = answer(
        "say({'all': [int(p) for p in os.listdir('/proc') if p.isdigit()], 'parent': os.getppid(),"
        "'environ': tried(lambda: open('/proc/1/environ', 'rb').read() and 1),"
        "'memory': tried(lambda: open('/proc/1/mem', 'r+b') and 1)})",
        box,
    )
    assert max(seen["all"]) < 10
    assert seen["parent"] in (1, 0, 2)
    assert seen["environ"] == "Permission denied"
    assert seen["memory"] in ("Permission denied", "Read-only file system")


@probe("signals")
def _signals(box: Box, _: pytest.MonkeyPatch) -> None:
    caught: list[int] = []
    old = signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
    code = f"""
import signal
judged = tried(lambda: os.kill({os.getpid()}, signal.SIGUSR1))
try:
    os.kill(1, signal.SIGKILL)
except PermissionError:
    pass
say({{"judge": judged}})
os.kill(-1, signal.SIGKILL)
"""
    try:
        assert answer(code, box) == {"judge": "No such process"}
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert caught == []


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
        if (box.level or PROCESS).user == "own" or os.geteuid() != 0:
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
