"""Parse nvcc's output: errors of its front end, and ptxas's report on each kernel."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from agent.build.compiler import Message
from agent.records import KernelResources

_HEAD = re.compile(
    r"^(?P<file>[^\s()][^()]*)\((?P<line>\d+)\): (?P<kind>(?:catastrophic )?[eE]rror|warning)(?: #[\w-]+)?: "
    r"(?P<text>.*)$"
)
# `at line 3` since nvcc 12; earlier versions print `(3): here` on a line of its own.
_AT_LINE = re.compile(r"(?:\bat line |^\s*\()(\d+)(?:\): here| of \"?([^\s\"]+?)\"?)?$")
_CARET = re.compile(r"^\s*\^\s*$")

_ENTRY = re.compile(r"^ptxas info\s*: Compiling entry function '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"^ptxas info\s*: Used (\d+) registers")
_STATIC_LIMIT = re.compile(r"Entry function '(\w+)' uses too much shared data \((0x\w+) bytes, (0x\w+) max\)")
_SHARED = re.compile(r"(\d+) bytes smem")
_FAULT = re.compile(r"^ptxas (?:(?P<file>\S+), line (?P<line>\d+); )?(?P<kind>error|fatal)\s*: (?P<text>.*)$")


def parse(log: str) -> list[Message]:
    """Return the front end's errors and warnings in order.

    `context` lists the places that required an enclosing template.
    """
    found: list[Message] = []
    rows = log.splitlines()
    for index, row in enumerate(rows):
        head = _HEAD.match(row)
        if head is None:
            continue
        block = list(_block(rows, index + 1))
        severity = "warning" if head["kind"] == "warning" else "error"
        context = [
            (asked[2] or head["file"], int(asked[1])) for asked in map(_AT_LINE.search, block) if asked
        ]
        more = [line.strip() for line in block if line.startswith(" " * 10) and not _AT_LINE.search(line)]
        notes = [
            (head["file"], line)
            for line in more
            if not line.startswith(("detected during", "instantiation of"))
        ]
        found.append(
            Message(severity, head["file"], int(head["line"]), head["text"].strip(), tuple(context), notes)
        )
    return found


def _block(rows: list[str], start: int) -> Iterator[str]:
    """Yield the lines of a message, without the source line above a caret."""
    kept: list[str] = []
    for row in rows[start:]:
        if not row.strip():
            break
        if _CARET.match(row):
            kept = kept[:-1]
            continue
        kept.append(row)
    yield from kept


def kernels(log: str) -> tuple[KernelResources, ...]:
    """Return the report of `ptxas -v` on each kernel, in order, without kernels of libraries.

    `spill_bytes` are the bytes of spill stores.
    """
    found: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    for row in log.splitlines():
        entry, spills, used = _ENTRY.match(row), _SPILLS.search(row), _USED.match(row)
        if entry:
            current = found.setdefault(entry[1], {})
        elif current is not None and spills and "spill_bytes" not in current:
            current["spill_bytes"] = int(spills[1])
        elif current is not None and used:
            shared = _SHARED.search(row)
            current |= {"registers": int(used[1]), "shared_bytes": int(shared[1]) if shared else 0}
            current = None
    return tuple(
        KernelResources(name=name, **numbers)
        for name, numbers in zip(demangled(list(found)), found.values(), strict=True)
        if not name.startswith(("cub::", "thrust::"))
    )


def demangled(names: list[str], *, parameters: bool = False) -> list[str]:
    """Return the demangled names, such as `softmax<float, 4>`, or `names` if c++filt is not installed."""
    tool = shutil.which("c++filt")
    if tool is None or not names:
        return names
    command = [tool, *([] if parameters else ["-p"]), *names]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    shown = answer.stdout.split("\n")[: len(names)]
    return shown if answer.returncode == 0 and len(shown) == len(names) else names


@dataclass(frozen=True)
class Fault:
    """Error of ptxas. `line` is the line of the PTX file, or None if the message names none."""

    text: str
    line: int | None


def faults(log: str) -> list[Fault]:
    """Return ptxas's errors, each once, without its final summary."""
    found = [
        Fault(match["text"].strip(), int(match["line"]) if match["line"] else None)
        for match in map(_FAULT.match, log.splitlines())
        if match and "aborted due to errors" not in match["text"]
    ]
    return list(dict.fromkeys(found))


def over_shared_limit(text: str) -> tuple[str, str] | None:
    """Return kernel and message if a fault is static shared memory beyond a block's limit, else None."""
    found = _STATIC_LIMIT.search(text)
    if found is None:
        return None
    kernel = demangled([found[1]])[0]
    return kernel, (
        f"`{kernel}` declares {int(found[2], 16)} bytes of static shared memory; a block has at most "
        f"{int(found[3], 16)}. Use smaller tiles, or dynamic shared memory (cudaFuncSetAttribute)."
    )
