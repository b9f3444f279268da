"""One sitting on a GPU: `python -m benchmarks.composer.batch --root CHECKOUT --out FOLDER [--seconds N]`.

The problems of the rule at levels 1 and 2 are timed, those without products with `max-autotune`; all are
judged (the short protocol); then the others, which take it long, are timed with `max-autotune` until the time
is over. `--resume DOCUMENT` leaves out what that has. Where the machine has several GPUs each takes a share.
What is found is in FOLDER meanwhile, and is printed at the end: whoever ends it early keeps it.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.composer import page
from tests.foreign import documents

RULE = [f"{level}/{number}" for level in (1, 2) for number in range(5, 101, 5)]
QUICK = [f"1/{number}" for number in (5, 20, 25, 30, 35, 40, 45, 85, 90, 95, 100)]
"""Those without a product or a dense convolution, for which `max-autotune` has little to try."""
TIMED, JUDGED = 0.6, 0.9
"""Shares of the time by which all are timed, at least without `max-autotune`, and judged."""
LOOKED_AT_S = 3.0
_RUNNING: set[int] = set()
"""The commands that run now, each a session of its own: they end with this process."""


class Share(NamedTuple):
    """What one GPU does: its number, the problems, the folder of work and the processors for it."""

    gpu: str
    names: list[str]
    work: Path
    jobs: int

    @property
    def document(self) -> Path:
        return self.work / "kernelbench.json"

    def step(self, what: list[str], names: list[str], given: argparse.Namespace, until: float) -> None:
        """One command of `benchmarks.composer` on some of them, which is ended at `until`."""
        left = until - time.monotonic()
        if left <= 0 or not names:
            return
        command = [
            sys.executable, "-m", "benchmarks.composer", *what, "--root", given.root, "--work", self.work,
            "--out", self.document, "--arch", given.arch, "--jobs", self.jobs, "--only", *names,
        ]  # fmt: skip
        command += ["--commit", given.commit] if given.commit else []
        command += ["--resume"] if given.resume else []
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": self.gpu}
        process = subprocess.Popen(
            list(map(str, command)), env=environment, stdout=sys.stderr, start_new_session=True
        )
        _RUNNING.add(process.pid)
        try:
            process.wait(left)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        finally:
            _RUNNING.discard(process.pid)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--root", type=Path, required=True, help="a local checkout of KernelBench")
    options.add_argument("--out", type=Path, required=True, help="for the documents")
    options.add_argument("--seconds", type=float, default=470.0)
    options.add_argument("--arch", default="90a")
    options.add_argument("--only", nargs="+", default=RULE, metavar="NAME")
    options.add_argument("--commit", default=None, help="the commit, where this folder is no checkout")
    options.add_argument("--resume", type=Path, metavar="DOCUMENT", help="of an earlier sitting")
    given = options.parse_args()
    begun = time.monotonic()
    given.out.mkdir(parents=True, exist_ok=True)
    gpus = _gpus()
    jobs = max(2, (os.cpu_count() or 2) * 3 // 4 // len(gpus))
    work = Path(tempfile.mkdtemp(prefix="composer-batch-"))
    shares = [Share(gpu, given.only[place :: len(gpus)], work / gpu, jobs) for place, gpu in enumerate(gpus)]

    def go(share: Share) -> None:
        marks = [begun + given.seconds * part for part in (TIMED, JUDGED, 1.0)]
        known = documents.read(given.resume) if given.resume else {}
        if known:
            documents.write(share.document, [e for n, e in known.items() if n[len("level") :] in share.names])
        quick = [name for name in share.names if name in QUICK]
        others = [name for name in share.names if name not in QUICK]
        share.step(["time"], others, given, marks[0])
        share.step(["time", "--max-autotune"], quick, given, marks[0])
        share.step(["judge", "--executor", "cuda", "--quick"], share.names, given, marks[1])
        share.step(["time", "--max-autotune"], others, given, marks[2])

    threads = [threading.Thread(target=go, args=(share,), daemon=True) for share in shares if share.names]
    for thread in threads:
        thread.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        while any(thread.is_alive() for thread in threads):
            time.sleep(LOOKED_AT_S)
            _kept(shares, given.out)
    finally:
        for running in list(_RUNNING):
            os.killpg(running, signal.SIGKILL)
    entries = _kept(shares, given.out)
    sys.stdout.write(f"{time.monotonic() - begun:.0f} s on {len(gpus)} GPU(s)\n{page.table(entries)}\n")
    return 0


def _gpus() -> list[str]:
    """Their numbers; those that the environment names where it does."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named:
        return named.split(",")
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    return [str(number) for number, _ in enumerate(listed.splitlines())]


def _kept(shares: list[Share], out: Path) -> list[documents.Entry]:
    """Writes what all shares have so far: the document, and what single kernels took."""
    entries = [entry for share in shares for entry in documents.read(share.document).values()]
    if entries:
        documents.write(out / "kernelbench.json", entries)
    kernels = {}
    for share in shares:
        for file in share.work.glob("*.kernels.json"):
            found = json.loads(file.read_text(encoding="utf-8") or "{}")
            if found:
                kernels[file.name.removesuffix(".kernels.json")] = found
    (out / "kernels.json").write_text(json.dumps(kernels, indent=0), encoding="utf-8")
    return list(documents.read(out / "kernelbench.json").values())


if __name__ == "__main__":
    sys.exit(main())
