"""Server that imports modules once and forks processes, which then need not import them again.

`python -I serve.py DESCRIPTOR MODULE...` imports the modules without running their `main`. It then answers
requests on the socket DESCRIPTOR, one message each (JSON, with descriptors attached):

- `{"connect": true}` and a socket: add a client, who may send requests on that socket.
- `{"wait": true}`: answer once the imports are done.
- `{"fork": {...}}` and descriptors: start a process as `argv` would, in the plan's isolation if there is one.
  The answer holds the process's id, with a pidfd attached. The first descriptor is a pipe to the client: the
  exit code is written there in the end, and the process is ended if the client closes its side.

The server ends when the socket DESCRIPTOR closes. It is standalone and trusted: from this project it imports
only the files in its folder, which sandboxed processes can see. It answers `{"unfit": reason}` to every
request if a fork would not be safe, because the imports started threads or mapped shared writable memory.
"""

import fcntl
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import sys
import traceback
from typing import Any

PLACE = __file__.rpartition("/")[0]
sys.path.insert(0, PLACE)
import keeper  # type: ignore[import-not-found]  # noqa: E402 - beside this file
from system import LIBC, PR_SET_DUMPABLE, PR_SET_PDEATHSIG  # type: ignore[import-not-found]  # noqa: E402

MOST_DESCRIPTORS = 16
LONGEST = 1 << 20


class Server:
    """Process server, with its clients and the processes that it has forked."""

    def __init__(self, owner: socket.socket) -> None:
        self._owner = owner.fileno()
        self._clients = {self._owner: owner}
        self._handed: dict[int, tuple[int, int]] = {}
        """For each forked process id, the descriptor for its exit code and the signal that ends it."""
        self._poll = select.poll()
        self._unfit = unfit()

    def serve(self) -> None:
        woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for number in (self._owner, woken):
            self._poll.register(number, select.POLLIN)
        while self._owner in self._clients:
            for number, event in self._poll.poll():
                if number == woken:
                    os.read(woken, 4096)
                elif number in self._clients:
                    self._answer(self._clients[number])
                elif event:
                    self._end_process_of(number)
            self._reap()

    def _answer(self, client: socket.socket) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(client, LONGEST, MOST_DESCRIPTORS)
        except OSError:
            message, descriptors = b"", []
        if not message:
            self._poll.unregister(client.fileno())
            del self._clients[client.fileno()]
            client.close()
            return
        request = json.loads(message)
        if "connect" in request:
            (descriptor,) = descriptors
            self._clients[descriptor] = socket.socket(fileno=descriptor)
            self._poll.register(descriptor, select.POLLIN)
            return
        if "fork" in request and not self._unfit:
            self._fork(client, request["fork"], descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        client.send(json.dumps({"unfit": self._unfit} if self._unfit else {}).encode())

    def _fork(self, client: socket.socket, request: dict[str, Any], descriptors: list[int]) -> None:
        status, *given = descriptors
        pid = os.fork()
        if pid == 0:
            become(request, given)
        for descriptor in given:
            os.close(descriptor)
        handle = os.pidfd_open(pid)
        try:
            socket.send_fds(client, [json.dumps({"pid": pid}).encode()], [handle])
        except OSError:
            os.kill(pid, request["ending"])  # the client is gone, so nobody waits for the process
        os.close(handle)
        self._handed[pid] = status, request["ending"]
        self._poll.register(status, 0)  # poll reports a hang-up without being asked

    def _end_process_of(self, status: int) -> None:
        """End the process whose client closed its side of `status`."""
        self._poll.unregister(status)
        for pid, (known, ending) in self._handed.items():
            if known == status:
                os.kill(pid, ending)

    def _reap(self) -> None:
        while self._handed:
            pid, how = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            status, _ = self._handed.pop(pid)
            try:
                self._poll.unregister(status)
                os.write(status, b"%d\n" % os.waitstatus_to_exitcode(how))
            except (KeyError, OSError):
                pass  # the client is gone
            os.close(status)


def unfit() -> str:
    """Return the reason why forking this process would not be safe; empty if it is safe."""
    threads = [number for number in os.listdir("/proc/self/task") if int(number) != os.getpid()]
    if threads:
        return f"the imports have started {len(threads)} threads, one named {name_of(threads[0])}"
    with open("/proc/self/maps") as file:
        shared = [line.split()[-1] for line in file if line.split()[1][1::2] == "ws"]
    return f"the imports have mapped memory that is shared: {shared[0]}" if shared else ""


def name_of(thread: str) -> str:
    with open(f"/proc/self/task/{thread}/comm") as file:
        return file.read().strip()


def become(request: dict[str, Any], given: list[int]) -> None:
    """Turn this forked process into the requested one; does not return."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        LIBC.prctl(PR_SET_PDEATHSIG, request["ending"])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        numbers = request["numbers"]
        place(given, numbers)
        os.umask(0o022)  # processes of several users read the files that this process writes
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        if request["plan"] is None:
            run(request["argv"])
        code = keeper.keep(request["plan"], request["argv"], lambda argv: boxed(argv, numbers))
    except SystemExit as ended:
        code = exit_code(ended)
    except BaseException:  # noqa: BLE001 - nothing may run on as a second server
        traceback.print_exc()
    finally:
        leave(code)


def place(given: list[int], numbers: list[int]) -> None:
    """Move the descriptors `given` to the requested numbers and close all other descriptors."""
    beyond = max(numbers) + 1
    aside = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, beyond) for descriptor in given]
    close_all_but(aside)
    for descriptor, number in zip(aside, numbers, strict=True):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)


def close_all_but(kept: list[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor by which listdir read the folder


def boxed(argv: list[str], numbers: list[int]) -> None:
    """Run the command as the last step of `keeper.enter`, after clearing the server's state."""
    # After a change of user, a process cannot read its own files in /proc, as a new program could.
    LIBC.prctl(PR_SET_DUMPABLE, 1)
    close_all_but(numbers)
    # The root directory differs from the one in which the imports were done.
    sys.path_importer_cache.clear()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    code = 1
    try:
        run(argv)
        code = 0
    except SystemExit as ended:
        code = exit_code(ended)
    except BaseException:  # noqa: BLE001 - the command ends as it would in its own interpreter
        traceback.print_exc()
    finally:
        leave(code)


def run(argv: list[str]) -> None:
    """Run a Python command line in this process: `-m MODULE`, `-c CODE` or `SCRIPT`, after any options."""
    sys.executable, *words = argv
    while words[0].startswith("-") and words[0] not in ("-m", "-c"):
        words.pop(0)
    if PLACE in sys.path:
        sys.path.remove(PLACE)
    if words[0] == "-m":
        sys.argv = words[1:]
        importlib.import_module(words[1]).main(sys.argv)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(words[1], {"__name__": "__main__"})
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
    raise SystemExit(0)


def exit_code(ended: SystemExit) -> int:
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    print(ended.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
    return 1


def leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    os._exit(code)


def main(argv: list[str]) -> None:
    owner = socket.socket(fileno=int(argv[1]))
    for name in argv[2:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would touch, and therefore copy, every page
    Server(owner).serve()


if __name__ == "__main__":
    main(sys.argv)
