"""Keeper: a process outside the sandbox that watches the command's limits and ends all its processes.

The keeper adopts orphans, and on SIGTERM it ends all its descendants before it exits. Its exit code is the
command's (128 + n for signal n), or a reserved code for the exceeded limit. If the command itself exits with
a reserved code, the keeper exits with 255.
"""

import os
import signal
import time
from collections.abc import Callable

import group  # type: ignore[import-not-found]
import newroot  # type: ignore[import-not-found]
from confine import confine, drop_privileges, run  # type: ignore[import-not-found]
from system import (  # type: ignore[import-not-found]
    DISK_EXCEEDED,
    LIBC,
    MEMORY_EXCEEDED,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    PROCESSES_EXCEEDED,
    RESERVED,
    SETUP_FAILED,
    Plan,
    descendants,
)

WATCH_S = 0.1
MAX_FILES = 20_000


def keep(plan: Plan, command: list[str], become: Callable[[list[str]], None] = run) -> int:
    """Run the command until it ends or exceeds a limit, and leave no process behind.

    `become` turns the command's own process into the command and does not return.
    """
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGTERM))
    failed, failing = os.pipe()
    try:
        if plan["group"]:
            group.make(plan)
        if plan["root"] is not None:
            newroot.new_user_and_pids(plan)
    except OSError as error:
        os.write(2, f"sandbox: {error}\n".encode())
        return int(SETUP_FAILED)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    child = os.fork()
    if child == 0:
        enter(plan, command, failing, become)
    _release()
    os.close(failing)
    LIBC.prctl(PR_SET_DUMPABLE, 0)
    reason = os.read(failed, 4096)
    if reason:
        os.write(2, b"sandbox: " + reason + b"\n")
    code = int(SETUP_FAILED) if reason else _watched(plan, child)
    _end_all()
    if plan["group"]:
        code = int(MEMORY_EXCEEDED) if group.ran_out_of_memory(plan) else code
        group.remove(plan)
    return code


def enter(plan: Plan, command: list[str], failing: int, become: Callable[[list[str]], None] = run) -> None:
    """Turn this process into the command. An error is written to the descriptor `failing`, closed by exec."""
    try:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if plan["group"] and plan["keeper"]:
            group.join(plan)
        if plan["root"] is not None:
            newroot.enter(plan)
        if plan["init"]:
            worker = os.fork()
            if worker:
                os.close(failing)
                _init(plan, worker)
        if plan["confined"]:
            confine(plan)
        become(command)
    except BaseException as error:  # noqa: BLE001 - nothing may run on as a second keeper
        os.write(failing, (str(error) or type(error).__name__).encode())
    os._exit(SETUP_FAILED)


def _release() -> None:
    """Close inherited descriptors in the keeper, so that a reader sees their end when the command ends."""
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                os.close(int(name))
        except OSError:
            continue  # the descriptor by which listdir read the folder, already closed


def _watched(plan: Plan, child: int) -> int:
    """Return the exit code of `child`, or the code of the limit that was exceeded."""
    while True:
        caught = signal.sigtimedwait((signal.SIGCHLD, signal.SIGTERM), WATCH_S)
        if caught is not None and caught.si_signo == signal.SIGTERM:
            return 128 + signal.SIGTERM
        code = _reaped(child)
        if code is not None:
            return 255 if code in RESERVED else code
        exceeded = _exceeded(plan)
        if exceeded:
            return exceeded


def _reaped(child: int) -> int | None:
    """Reap ended processes, and return the exit code of `child` if it is among them, else None."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if pid == 0:
            return None


def _init(plan: Plan, worker: int) -> None:
    """Run as process 1 of the pid namespace, with which the operating system ends all its other processes."""
    _release()
    drop_privileges(plan)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # set again, as the change of user has cleared it
    LIBC.prctl(PR_SET_DUMPABLE, 0)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == worker:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _end_all() -> None:
    while True:
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _exceeded(plan: Plan) -> int:
    """Return the reserved exit code of the first limit that is exceeded, or 0."""
    alive = descendants(os.getpid())
    if plan["processes"] and len(alive) > plan["processes"]:
        return int(PROCESSES_EXCEEDED)
    if plan["memory_bytes"] and sum(map(_own_memory, alive)) > plan["memory_bytes"]:
        return int(MEMORY_EXCEEDED)
    if plan["disk_bytes"] and _is_fuller(plan["folder"], plan["disk_bytes"]):
        return int(DISK_EXCEEDED)
    return 0


def _own_memory(pid: int) -> int:
    """Return the bytes of a process's anonymous and shared memory, without mapped files."""
    kilobytes = 0
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith(("RssAnon:", "RssShmem:")):
                    kilobytes += int(line.split()[1])
    except OSError:
        pass  # the process has ended meanwhile
    return kilobytes << 10


def _is_fuller(folder: str, most: int) -> bool:
    used, files, todo = 0, 0, [folder]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    files += 1
                    used += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
        except OSError:
            continue  # removed meanwhile
        if used > most or files > MAX_FILES:
            return True
    return False
