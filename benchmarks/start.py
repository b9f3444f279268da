"""How long the commands that only read take to start: median of ten, whole processes."""

import statistics
import subprocess
import sys
import time

COMMANDS = (["--help"], ["show", "recorded/group_norm"], ["runs"])


def seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "agent.cli", *arguments], check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    for arguments in COMMANDS:
        times = sorted(seconds(arguments) for _ in range(10))
        low, middle, high = times[0], statistics.median(times), times[-1]
        print(f"agent {' '.join(arguments):<28} {middle:.3f} s  ({low:.3f} .. {high:.3f})")


if __name__ == "__main__":
    main()
