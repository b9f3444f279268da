"""Which ways to hand shared memory over racecheck follows: `PYTHONPATH=tests python -m gpu.racecheck`.

Runs the kernels of tests/emulator/modern/handovers.cu under it on a GPU, and prints which of them it
reports. What came of it stands in docs/adr/0028-races-that-racecheck-is-not-sure-of.md.
"""

import subprocess
import sys

import handovers
import numpy as np
from modern_kernels import Checked

from agent.harness.confirmation import sanitizer

LAUNCH = "--launch"


def launch() -> None:
    """All of them, in a child that the tool watches."""
    Checked.on_gpu = True
    for kernel in handovers.KERNELS:
        out, _ = handovers.launched(kernel)
        right = bool(np.array_equal(out, handovers.expected(kernel)))
        sys.stdout.write(f"{kernel} {'right' if right else 'wrong'}\n")


def main() -> int:
    if LAUNCH in sys.argv:
        launch()
        return 0
    tool = sanitizer.tool()
    if tool is None:
        sys.stdout.write("there is no compute-sanitizer\n")
        return 1
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    child = [sys.executable, "-m", "gpu.racecheck", LAUNCH]
    command = [str(tool), "--tool", "racecheck", "--print-limit", "0", *child]
    log = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300).stdout
    reported = {finding.location.kernel for finding in sanitizer.parsed(log) if finding.location}
    sys.stdout.write(f"{version.strip().splitlines()[-1]}\n")
    for kernel in handovers.KERNELS:
        said, ran = kernel in reported, f"\n{kernel} " in f"\n{log}"
        word = "did not run" if not ran else "reported" if said else "not reported"
        wrong = ran and said != handovers.is_race(kernel)
        sys.stdout.write(f"{kernel:34} {word}{', wrongly' if wrong else ''}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
