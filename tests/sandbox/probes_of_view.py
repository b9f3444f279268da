"""What a child sees and reaches: one probe for each promise about it."""

import os
import signal
import socket
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from sandbox.boxes import answer, probe

from agent import sandbox
from agent.sandbox import Box, Limits

MB = 1 << 20


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
    seen: dict[str, Any] = answer(code, box._replace(python=True))
    assert [listing for listing in seen.pop("agent") if listing] == []
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
